"""The list of faults that others have met: each is shown by tests that exist, or it is said what is missing."""

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "field_reports.md"
REPORT = re.compile(r"- (?P<kind>[^()]+) \((?P<sources>[\w.-]+/[\w.-]+#\d+(?:, [\w.-]+/[\w.-]+#\d+)*)\)")
TEST = re.compile(r"  - `([^`]+)`")
REMARK = re.compile(r"  - (?:later: |not ours, because )\S.{9,}")


@dataclass
class Report:
    """One kind of fault, with what shows it and what is said of it."""

    section: str
    kind: str
    tests: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def reports(text: str) -> list[Report]:
    """Read the table. Raises ValueError for a line that is neither a report nor about one."""
    found: list[Report] = []
    section = ""
    for number, line in enumerate(text.partition("\n## ")[2].splitlines(), start=1):
        if number == 1 or line.startswith("## "):
            section = line.removeprefix("## ")
        elif report := REPORT.fullmatch(line):
            found.append(Report(section, report["kind"]))
        elif found and (test := TEST.fullmatch(line)):
            found[-1].tests.append(test[1])
        elif found and REMARK.fullmatch(line):
            found[-1].remarks.append(line)
        elif line:
            raise ValueError(f"not understood: {line}")
    return found


REPORTS = reports(TABLE.read_text())
NAMED = sorted({test for report in REPORTS for test in report.tests})


@cache
def named_in(path: Path) -> frozenset[str]:
    """Return the names of the tests in a file, those in classes as CLASS::NAME."""
    tree = ast.parse(path.read_text())
    inside = {tree: ""} | {node: f"{node.name}::" for node in tree.body if isinstance(node, ast.ClassDef)}
    return frozenset(
        prefix + node.name
        for owner, prefix in inside.items()
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def exists(name: str) -> bool:
    """Tell whether a test, or a scenario of the catalog, is there."""
    path, _, test = name.partition("::")
    if not (ROOT / path).is_file():
        return False
    return test in named_in(ROOT / path) if path.endswith(".py") else path.startswith("scenarios/catalog/")


def test_every_report_is_there_once() -> None:
    kinds = [report.kind for report in REPORTS]
    assert len(kinds) == len(set(kinds)) >= 70


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.kind)
def test_no_report_is_left_open(report: Report) -> None:
    assert report.tests or report.remarks, "name a test, or say `later: ...` or `not ours, because ...`"


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize("report", [r for r in REPORTS if r.section == "Decisions"], ids=lambda report: report.kind)
def test_every_decision_has_a_playbook(report: Report) -> None:
    assert any(test.startswith("tests/router/core/") for test in report.tests)


def test_a_name_that_is_wrong_is_noticed() -> None:
    path = "tests/router/core/test_forwarding.py"
    assert exists(f"{path}::test_at_most_two_sends")
    assert not exists(f"{path}::test_at_most_three_sends")
    assert not exists("tests/router/core/test_nothing.py::test_at_most_two_sends")
    assert not exists("scenarios/catalog/nothing.toml")
    assert not exists("tests/test_field_reports.py::TestNothing::test_every_report_is_there_once")


@pytest.mark.parametrize(
    "line",
    [
        "- A kind without its source",
        "- A kind (of whatever)",
        "- A kind (a/b#1)\n  - later:",
        "- A kind (a/b#1)\n  - perhaps",
    ],
)
def test_a_line_that_is_not_understood_is_no_report(line: str) -> None:
    with pytest.raises(ValueError, match="not understood"):
        reports(f"\n## Section\n\n{line}\n")
