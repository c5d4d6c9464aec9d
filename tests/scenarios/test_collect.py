"""pytest over scenarios: one item for each scenario, mode and check; each run made once, and only when it is needed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.agreement import agreement_for
from scenarios.checks import checks_for
from scenarios.load import CATALOG, load
from tests.scenarios.doctored import DRILLS, planned

ROOT = CATALOG.parent.parent

# Both arms are the model here, since what is tested is what pytest makes of two runners; each run leaves a line.
CONFTEST = """
import os
import msgspec
from pathlib import Path
import simulator.run
from scenarios.collect import ScenarioPlugin
from scenarios.record import PoolEvent, Record, Request, record_path, write
from tests.scenarios.doctored import as_mode, doubled, without

class PortTaken(RuntimeError):
    exit_code = 3

def note(scenario, mode, root):
    with (root / "runs.txt").open("a") as runs:
        runs.write(f"{scenario.name} {mode} {os.environ.get('PYTEST_XDIST_WORKER', 'main')}\\n")

def simulated(root):
    def run(scenario, out):
        note(scenario, "simulated", root)
        return simulator.run.run(scenario, out)
    return run

def real(root):
    def run(scenario, out):
        note(scenario, "real", root)
        record = as_mode(simulator.run.run(scenario, out), "real")
        REAL
        write(record, record_path(out, scenario.name, "real"))
        return record
    return run

def pytest_configure(config):
    root = config.rootpath
    runners = {"real": real(root), "simulated": simulated(root)}
    config.pluginmanager.register(ScenarioPlugin(runners, root / "out"), "scenarios-under-test")
"""

# Plugins that no scenario needs, and that take a second to load in every session of these.
INI = """
[pytest]
addopts = --import-mode=importlib -p no:hypothesispytest -p no:asyncio -p no:pytest_cov
"""

TWICE = 'record = doubled(record, PoolEvent, lambda event: event.kind == "body_complete")'
NO_SENDS = "record = Record(record.meta, [row for row in record.rows if type(row).__name__ != 'Send'])"
INVALID = "record = Record(msgspec.structs.replace(record.meta, invalid='loop lag 0.3 s'), record.rows)"
TAKEN = "raise PortTaken('port 8474 is taken; remedy: end what listens there')"
DEFECT = "raise KeyError('some defect')"


class Suite:
    """A project of its own with a scenario suite."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.catalog = pytester.path / "scenarios" / "catalog"
        self.catalog.mkdir(parents=True)
        pytester.makeini(INI)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
            monkeypatch.delenv(name, raising=False)
        self.with_real("")

    def with_real(self, change: str) -> None:
        """Let the real run do something else at its end."""
        self.pytester.makeconftest(CONFTEST.replace("REAL", change))

    def take(self, *names: str) -> None:
        """Put scenarios into the suite."""
        for name in names:
            shutil.copy(DRILLS / f"{name}.toml", self.catalog)

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*args)

    @property
    def runs(self) -> list[str]:
        """Every run that was made: scenario, mode, worker."""
        path = self.pytester.path / "runs.txt"
        return sorted(path.read_text().splitlines()) if path.exists() else []


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    return Suite(pytester, monkeypatch)


def test_each_check_of_each_mode_is_an_item_and_each_run_is_made_once(suite: Suite) -> None:
    suite.take("refused", "mid_stream_drop")
    result = suite.run("scenarios", "-v")
    counts = result.parseoutcomes()
    assert set(counts) == {"passed"}
    result.stdout.fnmatch_lines_random(
        [
            "scenarios/catalog/refused.toml::real::never_twice PASSED *",
            "scenarios/catalog/refused.toml::simulated::never_twice PASSED *",
            "scenarios/catalog/refused.toml::agreement::same_attempts PASSED *",
            "scenarios/catalog/mid_stream_drop.toml::real::every_byte_before_break PASSED *",
        ]
    )
    assert suite.runs == [
        "mid_stream_drop real main",
        "mid_stream_drop simulated main",
        "refused real main",
        "refused simulated main",
    ]


def test_simulated_alone_starts_nothing_real(suite: Suite) -> None:
    suite.take("refused")
    assert set(suite.run("scenarios", "-k", "simulated").parseoutcomes()) == {"passed", "deselected"}
    assert suite.runs == ["refused simulated main"]


def test_collecting_runs_nothing(suite: Suite) -> None:
    suite.take("refused")
    suite.run("scenarios", "--collect-only", "-q").stdout.fnmatch_lines(["*refused.toml::agreement::same_attempts*"])
    assert suite.runs == []


def test_one_file_and_one_item_can_be_named(suite: Suite) -> None:
    suite.take("refused", "black_hole")
    suite.run("scenarios/catalog/refused.toml", "-k", "simulated")
    assert suite.runs == ["refused simulated main"]
    result = suite.run("scenarios/catalog/black_hole.toml::simulated::never_twice")
    assert result.parseoutcomes() == {"passed": 1}


def test_a_scenario_elsewhere_is_taken_only_if_it_is_named(suite: Suite) -> None:
    elsewhere = suite.pytester.mkdir("elsewhere")
    shutil.copy(DRILLS / "refused.toml", elsewhere)
    assert suite.run("elsewhere").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert set(suite.run("elsewhere/refused.toml").parseoutcomes()) == {"passed"}


def test_a_scenario_is_added_by_adding_a_file(suite: Suite) -> None:
    text = (DRILLS / "refused.toml").read_text()
    (suite.catalog / "mine.toml").write_text(text.replace('name = "refused"', 'name = "mine"'))
    result = suite.run("scenarios", "-v", "-k", "simulated")
    result.stdout.fnmatch_lines(["scenarios/catalog/mine.toml::simulated::* PASSED *"])


def test_a_failed_check_says_what_was_found_and_how_to_see_it_again(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real(TWICE)
    result = suite.run("scenarios", "-k", "never_twice")
    assert result.parseoutcomes() == {"failed": 1, "passed": 1, "deselected": result.parseoutcomes()["deselected"]}
    result.stdout.fnmatch_lines(
        [
            "never_twice: fail: 1 of 14 requests were received whole more than once: op-0-0-r0 at east-0 *",
            "  scenario  refused, seed 1, mode real",
            "  rerun     pytest scenarios/catalog/refused.toml::real::never_twice",
            "  record    out/refused.real.jsonl",
        ]
    )
    assert (suite.pytester.path / "out" / "refused.real.jsonl").is_file()
    assert "collect.py" not in result.stdout.str(), "no stack of the harness's own"


def test_a_failed_agreement_names_both_records(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real("record = without(record, Request, lambda request: request.request_id == 'op-0-0-r0')")
    result = suite.run("scenarios", "-k", "same_answers")
    result.stdout.fnmatch_lines(
        [
            "same_answers: fail: op-0-0-r0: nothing in the real run, 200 in the model",
            "  record    out/refused.real.jsonl and out/refused.simulated.jsonl",
        ]
    )


def test_undecided_fails(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real(NO_SENDS)
    result = suite.run("scenarios", "-k", "real and at_most_two_sends")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["at_most_two_sends: undecided: the record has no sends*"])


@pytest.mark.parametrize("ci", ["", "1"])
@pytest.mark.parametrize(
    ("change", "says"),
    [(INVALID, "refused: the real run is invalid: loop lag 0.3 s"), (TAKEN, "port 8474 is taken; remedy: end*")],
)
def test_a_run_that_cannot_be_judged_is_an_error(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, change: str, says: str, ci: str
) -> None:
    """Neither a failed check nor a skip: it says nothing about the router, and must not look well."""
    monkeypatch.setenv("CI", ci)
    suite.take("refused")
    suite.with_real(change)
    result = suite.run("scenarios", "-k", "real and sends", "-p", "no:randomly")
    assert set(result.parseoutcomes()) == {"errors", "deselected"}
    result.stdout.fnmatch_lines([says, "  scenario  refused, seed 1, mode real"])
    assert "During handling" not in result.stdout.str()
    assert suite.runs == ["refused real main"], "a run that failed is not made again for the next check"


@pytest.mark.parametrize("change", [INVALID, TAKEN, DEFECT])
def test_why_there_is_no_run_is_told_once(suite: Suite, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    # Where CI or BUILD_NUMBER is set, pytest repeats the whole text in its summary.
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    suite.take("refused")
    suite.with_real(change)
    result = suite.run("scenarios", "-k", "not simulated", "-p", "no:randomly")
    errors = result.parseoutcomes()["errors"]
    first = "scenarios/catalog/refused.toml::real::never_twice"
    assert errors == len(checks_for(planned("refused"))) + len(agreement_for(planned("refused")))
    assert result.stdout.str().count(f"\nno run: see {first}\n") == errors - 1
    assert result.stdout.str().count("  rerun  ") <= 1


def test_a_record_of_an_earlier_session_is_not_shown(suite: Suite) -> None:
    suite.take("refused")
    suite.run("scenarios", "-k", "real")
    assert (suite.pytester.path / "out" / "refused.real.jsonl").is_file()
    suite.with_real(TAKEN)
    told = suite.run("scenarios", "-k", "real and never_twice").stdout.str()
    assert "  rerun  " in told
    assert "  record  " not in told


def test_the_record_of_a_run_that_must_not_be_judged_is_shown(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real(INVALID)
    suite.run("scenarios", "-k", "real and never_twice").stdout.fnmatch_lines(["  record    out/refused.real.jsonl"])


def test_a_defect_of_a_runner_shows_its_stack(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real(DEFECT)
    result = suite.run("scenarios", "-k", "real and never_twice")
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(["*KeyError: 'some defect'*"])


def test_a_file_that_cannot_be_read_fails_and_stops_nothing(suite: Suite) -> None:
    suite.take("refused")
    (suite.catalog / "bad.toml").write_text('name = "bad"\nsede = 3\n')
    result = suite.run("scenarios", "-v", "-k", "simulated or load")
    assert result.parseoutcomes()["failed"] == 1
    assert result.parseoutcomes()["passed"] > 10
    result.stdout.fnmatch_lines_random(
        [
            "scenarios/catalog/bad.toml::load FAILED *",
            "*catalog/bad.toml: sede: unknown key; remedy: did you mean seed?",
        ]
    )


def test_the_first_failure_can_end_the_session(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real(TWICE)
    result = suite.run("scenarios", "-x", "-p", "no:randomly")
    assert result.parseoutcomes()["failed"] == 1
    assert suite.runs == ["refused real main"]


def test_reports_for_machines_name_items_and_findings(suite: Suite) -> None:
    suite.take("refused")
    suite.with_real(TWICE)
    suite.run("scenarios", "--junitxml=junit.xml", "-k", "never_twice")
    xml = (suite.pytester.path / "junit.xml").read_text()
    assert 'classname="scenarios.catalog.refused.toml.real" name="never_twice"' in xml
    assert "received whole more than once" in xml
    assert 'errors="0" failures="1" skipped="0" tests="2"' in xml


@pytest.mark.parametrize("dist", [[], ["--dist", "worksteal"]])
def test_two_workers_make_each_run_once(suite: Suite, dist: list[str]) -> None:
    suite.take("refused", "mid_stream_drop", "black_hole", "body_read_then_dropped")
    result = suite.pytester.runpytest_subprocess("scenarios", "-n", "2", *dist)
    assert set(result.parseoutcomes()) == {"passed"}
    assert len(suite.runs) == 8
    assert len({line.rpartition(" ")[0] for line in suite.runs}) == 8
    workers = {line.rpartition(" ")[2] for line in suite.runs}
    assert workers == {"gw0", "gw1"}


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_any_order_will_do(suite: Suite, seed: str) -> None:
    suite.take("refused", "body_read_then_dropped")
    result = suite.run("scenarios", "-p", "randomly", f"--randomly-seed={seed}")
    assert set(result.parseoutcomes()) == {"passed"}
    assert len(suite.runs) == 4


@pytest.mark.parametrize("inside", [True, False], ids=["from the checkout", "from another directory"])
def test_a_scenario_outside_of_the_checkout(inside: bool, tmp_path: Path) -> None:
    shutil.copy(DRILLS / "refused.toml", tmp_path)
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "conftest", "-q", "-k", "simulated"]
    ran = subprocess.run(
        [Path(sys.executable).with_name("pytest"), *options, tmp_path / "refused.toml", "--out", tmp_path / "out"],
        cwd=ROOT if inside else tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert f"{len(checks_for(planned('refused')))} passed" in ran.stdout, ran.stdout + ran.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["refused.simulated.jsonl"]


def test_the_suite_of_this_project() -> None:
    command = [sys.executable, "-m", "pytest", "scenarios", "--collect-only", "-q"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    parts = {tuple(line.split("::")[:2]) for line in listed.splitlines() if "::" in line}
    expected = set()
    for path in CATALOG.glob("*.toml"):
        modes = ("simulated",) if load(path).model_only else ("real", "simulated", "agreement")
        expected |= {(f"scenarios/catalog/{path.name}", mode) for mode in modes}
    assert parts == expected
