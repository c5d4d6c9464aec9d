"""Change one module of router/core bit by bit and see whether the playbooks object: `make mutants MODULE=forwarding`.

mutmut makes the mutants and tests each in a process that it forks, with those tests only that reach the changed
function. All of it happens in a copy under .make/mutants/MODULE, so the work tree stays as it is, and a run that was
stopped goes on where it was. Survivors are tested again as soon as a test or another module has changed; to test
everything again, remove that directory.

mutmut changes the bodies of functions and methods. Properties, which it would leave out, are written in the copy as
methods that become properties afterwards. Tables at the top of a module are out of its reach; tests hold each of their
rows.

The suite is the playbooks. What draws at random is left out, since it may find today what it does not find tomorrow,
and so is what takes seconds.

Exit codes: 0 every survivor is explained in survivors.md; 1 some are not; 2 no such module.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
STAGES = ROOT / ".make" / "mutants"
EXPLANATIONS = Path(__file__).with_name("survivors.md")
LEFT_OUT = (
    "test_mutants.py",  # makes mutants of its own
    "test_control_mutants.py",  # the same
    "test_laws.py",  # draws worlds at random
    "test_equivalence.py",  # the same
    "test_budget_expectations.py",  # statistics over thousands of calls
)
DESELECTED = "tests/router/core/test_chain.py::test_a_cap_of_two_bounds_the_whole_chain"  # statistics too
SURVIVED = 0
NOT_REACHED = frozenset((5, 33))
SETTINGS = """\
[mutmut]
source_paths=
    router
only_mutate=
    router/core/{module}.py
    router/core/{module}/*.py
pytest_add_cli_args=
    -p
    no:randomly
    -p
    no:cacheprovider
    -m
    not hypothesis
pytest_add_cli_args_test_selection=
    tests/router/core
    --deselect={deselected}
use_git_change_detection=false
on_dependency_change=ignore

[tool:pytest]
addopts = --import-mode=importlib --strict-markers --strict-config
pythonpath = .
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: in `function` the text `was` became `becomes`; `exit_code` is its suite's, None: not tested yet."""

    name: str
    function: str
    was: str
    becomes: str
    exit_code: int | None

    @property
    def killed(self) -> bool:
        """Tell whether a playbook objected, or never ended."""
        return self.exit_code is not None and self.exit_code != SURVIVED and self.exit_code not in NOT_REACHED


@dataclass(frozen=True, slots=True)
class Explanation:
    """A row of survivors.md: a kind of mutant that nothing can notice, and why; "…" stands for any text."""

    where: str
    was: str
    becomes: str
    why: str

    def covers(self, function: str, was: str, becomes: str) -> bool:
        """Tell whether a mutant is of this kind."""
        place = self.where in ("*", function) or function.startswith(f"{self.where}.")
        return place and _like(self.was, was) and _like(self.becomes, becomes)


def explanations(text: str) -> list[Explanation]:
    """Read the rows of the table."""
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in text.splitlines() if line.startswith("| `")]
    return [Explanation(*(_cell(cell) for cell in row)) for row in rows]


def main(arguments: list[str]) -> int:
    """Test the mutants of one module and print what became of them."""
    core = ROOT / "router" / "core"
    found = {path.stem for path in core.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    modules = sorted(found - {"__init__"})
    if len(arguments) != 1 or arguments[0] not in modules:
        print(f"error: MODULE is one of: {', '.join(modules)}", file=sys.stderr)  # noqa: T201 - a command line prints
        return 2
    stage = STAGES / arguments[0]
    digest, tested = fill(stage, arguments[0]), stage / "tested"
    changed = not tested.exists() or tested.read_text() != digest
    if changed:  # which tests reach which function is found out anew, or a new function would have none
        (stage / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    old = codes(stage)
    run_suites(stage)
    again = [name for name, code in codes(stage).items() if code in (SURVIVED, *NOT_REACHED) and old.get(name) == code]
    if changed and again:
        run_suites(stage, *again)
    tested.write_text(digest)
    return report(arguments[0], [mutant(stage, name, code) for name, code in codes(stage).items()], seconds(stage))


def fill(stage: Path, module: str) -> str:
    """Bring the copy up to date; returns a digest of all that is in it."""
    wanted = {"setup.cfg": SETTINGS.format(module=module, deselected=DESELECTED)}
    for place in ("router", "tests/router/core"):
        for path in sorted((ROOT / place).rglob("*.py")):
            if path.name not in LEFT_OUT:
                name = path.relative_to(ROOT).as_posix()
                wanted[name] = with_plain_properties(path.read_text()) if place == "router" else path.read_text()
    for old in [*stage.rglob("*.py")]:
        copy = old.relative_to(stage).as_posix().removeprefix("mutants/")
        if copy not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = stage / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return hashlib.sha256("".join(wanted.values()).encode()).hexdigest()


def with_plain_properties(source: str) -> str:
    """Write `@property def x` as `def x` followed by `x = property(x)`."""
    lines = source.splitlines()
    for node in [n for owner in ast.walk(ast.parse(source)) if isinstance(owner, ast.ClassDef) for n in owner.body]:
        if isinstance(node, ast.FunctionDef) and [ast.unparse(d) for d in node.decorator_list] == ["property"]:
            assert node.end_lineno is not None
            lines[node.decorator_list[0].lineno - 1] = ""
            lines[node.end_lineno - 1] += f"\n{' ' * node.col_offset}{node.name} = property({node.name})"
    return "\n".join(lines) + "\n"


def mutmut(stage: Path, *arguments: str, output: IO[str] | int | None) -> str:
    """Run mutmut in the copy. Raises CalledProcessError."""
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    return subprocess.run(command, cwd=stage, check=True, text=True, stdout=output).stdout or ""


def run_suites(stage: Path, *names: str) -> None:
    """Test those mutants that were not tested yet, or these; the progress is shown where somebody looks."""
    with (stage / "mutmut.log").open("w") as log:
        mutmut(stage, "run", "--max-children", "1", *names, output=None if sys.stdout.isatty() else log)


def codes(stage: Path) -> dict[str, int | None]:
    """Return the exit code of each mutant's suite, by its name."""
    return {name: code for meta in _metas(stage) for name, code in meta["exit_code_by_key"].items()}


def seconds(stage: Path) -> list[float]:
    """Return how long each mutant's suite took."""
    return [taken_s for meta in _metas(stage) for taken_s in meta["durations_by_key"].values() if taken_s is not None]


def mutant(stage: Path, name: str, code: int | None) -> Mutant:
    """Describe one mutant; a killed one's change is not looked up."""
    function = name.removeprefix("router.core.").rpartition("__mutmut_")[0]
    function = function.replace(".xǁ", ".").replace("ǁ", ".").replace(".x_", ".")
    if code is not None and code != SURVIVED and code not in NOT_REACHED:
        return Mutant(name, function, "", "", code)
    diff = mutmut(stage, "show", name, output=subprocess.PIPE).splitlines()
    was, becomes = (
        " ".join(line[1:].strip() for line in diff if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    )
    return Mutant(name, function, was, becomes, code)


def report(module: str, mutants: list[Mutant], taken_s: list[float]) -> int:
    """Print the numbers and every survivor that is not explained, at most 80 columns wide; returns the exit code."""
    known = explanations(EXPLANATIONS.read_text())
    survivors = [m for m in mutants if not m.killed]
    unexplained = [m for m in survivors if not any(e.covers(m.function, m.was, m.becomes) for e in known)]
    killed = len(mutants) - len(survivors)
    out = [f"router/core/{module}: {len(mutants)} mutants, {killed} killed, {len(survivors)} survived"]
    out += [f"{len(survivors) - len(unexplained)} survivors are explained in {EXPLANATIONS.relative_to(ROOT)}"]
    out += [f"a mutant took {median(taken_s):.1f} s, the longest {max(taken_s):.1f} s"] if taken_s else []
    here = [e for e in known if e.where.partition(".")[0] == module]
    stale = [e for e in here if not any(e.covers(m.function, m.was, m.becomes) for m in survivors)]
    out += [f"explained, but no such mutant survives: {e.where}: {e.was}" for e in stale]
    for one in unexplained:
        reached = " (no playbook reaches it)" if one.exit_code in NOT_REACHED else ""
        out += ["", f"survived: {one.function}{reached}", *_wrapped("- ", one.was), *_wrapped("+ ", one.becomes)]
    print("\n".join(out))  # noqa: T201 - a command line prints
    return 1 if unexplained else 0


def _metas(stage: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((stage / "mutants" / "router" / "core").rglob("*.meta")):
        yield json.loads(path.read_text())


def _wrapped(sign: str, text: str, width: int = 78) -> list[str]:
    return [sign + text[at : at + width] for at in range(0, len(text), width)] or [sign]


def _like(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("…")), text) is not None


def _cell(text: str) -> str:
    return text.strip().replace("\\|", "|").removeprefix("`").removesuffix("`")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
