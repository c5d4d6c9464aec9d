"""Makes pytest run scenarios: every scenario x mode x check is a test item of its own.

`scenarios/catalog/refused.toml::real::never_twice` is one id. Each run is made once a session, when the first item asks
for it, so `-k simulated` starts nothing real. With several workers the items of one file stay on one of them, whatever
`--dist` says. A scenario that cannot be read is a failing item. A run that could not be made, or must not be judged, is
an error of its items: the first tells it in the runner's own words, the others name the first. Nothing ever skips.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scenarios.agreement import agreement_for
from scenarios.campaign import Runner, valid_run
from scenarios.checks import checks_for
from scenarios.load import LoadError, load
from scenarios.record import Mode, Record, record_path
from scenarios.spec import Scenario
from scenarios.verdict import Verdict

SUITE = "scenarios/catalog"
"""The folder whose .toml files are scenarios. Elsewhere in the checkout one must be named on the command line; outside
of it pytest must be told of the project too: `pytest -c CHECKOUT/pyproject.toml -p conftest FILE.toml`."""
MODES: tuple[Mode, ...] = ("real", "simulated")


class ScenarioPlugin:
    """pytest plugin that collects scenarios and has them run by the given runners; records go to `out`."""

    def __init__(self, runners: Mapping[Mode, Runner], out: Path) -> None:
        self._runs = Runs(runners, out)

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> "ScenarioFile | None":
        """Take a .toml file as a scenario if it lies in the suite or was named."""
        if file_path.suffix != ".toml":
            return None
        if not parent.session.isinitpath(file_path) and parent.config.rootpath / SUITE not in file_path.parents:
            return None
        file: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path, runs=self._runs)
        return file

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> object:
        """Keep the items of a file together: on two workers a scenario would be run twice."""
        # Only pytest-xdist calls this, so it is there.
        from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency without types

        return LoadFileScheduling(config, log)


class NoRun(Exception):
    """There is no run to judge, and why has been told already."""


class Runs:
    """The runs of a session, each made when it is first asked for; a failed one is not tried again."""

    def __init__(self, runners: Mapping[Mode, Runner], out: Path) -> None:
        self._out = out
        self._runners = runners
        self._made: dict[tuple[Path, Mode], Record | _Failure] = {}
        self._written: set[Path] = set()

    def get(self, file: Path, scenario: Scenario, mode: Mode, *, asker: str) -> Record:
        """Return the record of a run. Raises what its runner raised to the item that asked first, NoRun to all others.

        `asker` is the id of the item.
        """
        if (file, mode) not in self._made:
            path = record_path(self._out, scenario.name, mode)
            before = _stamp(path)
            try:
                self._made[file, mode] = valid_run(self._runners[mode], scenario, self._out)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of this run
                self._made[file, mode] = _Failure(error, asker)
            if _stamp(path) != before:  # a run that must not be judged may have left its record too
                self._written.add(path)
        made = self._made[file, mode]
        if not isinstance(made, _Failure):
            return made
        if made.told_by != asker:
            raise NoRun(f"no run: see {made.told_by}")
        raise made.error

    def written(self, scenario: Scenario, modes: Iterable[Mode]) -> list[Path]:
        """Return the records that this session has written; those of an earlier one tell nothing about it."""
        paths = (record_path(self._out, scenario.name, mode) for mode in modes)
        return [path for path in paths if path in self._written]


class _Failure(NamedTuple):
    """What a runner raised, and the item that tells it."""

    error: Exception
    told_by: str


def _stamp(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


class ScenarioFile(pytest.File):
    """One scenario."""

    def __init__(self, *, runs: Runs, **kw: Any) -> None:
        super().__init__(**kw)
        self.runs = runs

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield both modes and the agreement (of what is only modelled, the model), or one item that fails to load."""
        try:
            scenario = load(self.path)
        except LoadError as error:
            yield Unreadable.from_parent(self, name="load", error=error)
            return
        for mode in MODES[1:] if scenario.model_only else MODES:
            yield Part.from_parent(self, name=mode, scenario=scenario, modes=(mode,), checks=checks_for(scenario))
        if not scenario.model_only:
            yield Part.from_parent(
                self, name="agreement", scenario=scenario, modes=MODES, checks=agreement_for(scenario)
            )


class Part(pytest.Collector):
    """real, simulated or agreement: the checks that look at the same records."""

    def __init__(self, *, scenario: Scenario, modes: tuple[Mode, ...], checks: Mapping[str, Any], **kw: Any) -> None:
        super().__init__(**kw)
        self.scenario = scenario
        self.modes = modes
        self.checks = checks

    def collect(self) -> Iterator["CheckItem"]:
        """Yield one item for each check."""
        for name, check in self.checks.items():
            yield CheckItem.from_parent(self, name=name, check=check)

    def records(self, *, asker: str) -> list[Record]:
        """Return the records that the checks look at; makes the runs that are still missing."""
        return [self._runs.get(self.path, self.scenario, mode, asker=asker) for mode in self.modes]

    def written(self) -> list[Path]:
        """Return where the records are, if this session has written them."""
        return self._runs.written(self.scenario, self.modes)

    @property
    def _runs(self) -> Runs:
        file = self.getparent(ScenarioFile)
        assert file is not None, "a part belongs to a file"
        return file.runs


class CheckFailed(Exception):
    """A check did not pass."""

    def __init__(self, name: str, verdict: Verdict) -> None:
        super().__init__(f"{name}: {verdict.state}: {verdict.detail}")


class CheckItem(pytest.Item):
    """One check of one scenario."""

    def __init__(self, *, check: Any, **kw: Any) -> None:
        super().__init__(**kw)
        self.check = check
        self._records: list[Record] = []

    def setup(self) -> None:
        """Make the runs; what goes wrong here is an error, not a failed check."""
        problem = ""
        try:
            self._records = self._part.records(asker=self.nodeid)
        except NoRun as error:
            problem = str(error)
        except Exception as error:
            if not hasattr(error, "exit_code"):  # a defect: its stack is what helps
                raise
            problem = f"{error}\n{self._about()}"
        if problem:
            pytest.fail(problem, pytrace=False)

    def runtest(self) -> None:
        """Judge. Raises CheckFailed unless the check passes."""
        verdict: Verdict = self.check(*self._records)
        if not verdict.passed:
            raise CheckFailed(self.name, verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say what was found and how to see it again."""
        if isinstance(excinfo.value, CheckFailed):
            return f"{excinfo.value}\n{self._about()}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the item in reports as its id does."""
        return self.path, None, f"{self._part.name}::{self.name}"

    @property
    def _part(self) -> Part:
        assert isinstance(self.parent, Part), "checks belong to a part"
        return self.parent

    def _about(self) -> str:
        part = self._part
        lines = [
            f"  scenario  {part.scenario.name}, seed {part.scenario.seed}, mode {part.name}",
            f"  rerun     pytest {shlex.quote(self.nodeid)}",
        ]
        records = [str(_short(path, self.config.invocation_params.dir)) for path in part.written()]
        return "\n".join([*lines, f"  record    {' and '.join(records)}"] if records else lines)


class Unreadable(pytest.Item):
    """A scenario that cannot be used: fails with the loader's one line."""

    def __init__(self, *, error: LoadError, **kw: Any) -> None:
        super().__init__(**kw)
        self.error = error

    def runtest(self) -> None:
        """Fail."""
        raise self.error

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say what is wrong, without a stack."""
        return str(excinfo.value) if excinfo.value is self.error else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the item in reports as its id does."""
        return self.path, None, self.name


def _short(path: Path, base: Path) -> Path:
    return path.relative_to(base) if path.is_relative_to(base) else path
