"""All verdicts on one drill: those on the real run, those on the model, and those on whether the two agree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from scenarios.agreement import AGREEMENT, agree
from scenarios.checks import CHECKS, judge
from scenarios.fitness import unfit
from scenarios.load import catalog
from scenarios.record import Mode, Record
from scenarios.verdict import Verdict

Verdicts = Mapping[str, Mapping[str, Verdict]]
"""Arm (real, simulated, agreement) -> check -> what it said; an arm that was not run is left out."""
Overall = Literal["pass", "fail", "undecided", "invalid"]

ARM_WORDS = {"real": "real run", "simulated": "model", "agreement": "real run against model"}
"""What a reader calls the arms."""


class Finding(NamedTuple):
    """One check of one arm, and what it said."""

    arm: str
    check: str
    verdict: Verdict

    @property
    def law(self) -> str:
        """What must hold, in the check's own words."""
        return law(self.check)


def judged(records: Sequence[Record]) -> Verdicts:
    """Run all checks on what is there: one record, or the real one and then the simulated one."""
    verdicts: dict[str, Mapping[str, Verdict]] = {record.meta.mode: judge(record) for record in records}
    return verdicts if len(records) == 1 else {**verdicts, "agreement": agree(records[0], records[1])}


def findings(verdicts: Verdicts) -> Iterator[Finding]:
    """Return all verdicts one after the other."""
    return (Finding(arm, check, verdict) for arm, checks in verdicts.items() for check, verdict in checks.items())


def not_passed(verdicts: Verdicts) -> list[Finding]:
    """Return what did not pass, failures first."""
    wrong = [finding for finding in findings(verdicts) if not finding.verdict.passed]
    return sorted(wrong, key=lambda finding: finding.verdict.state != "fail")


def overall(verdicts: Verdicts, records: Sequence[Record]) -> Overall:
    """Sum up in one word: a failure is a failure, whatever else is undecided or invalid."""
    states = {finding.verdict.state for finding in findings(verdicts)}
    if "fail" in states:
        return "fail"
    if any(map(unfit, records)):
        return "invalid"
    return "pass" if states == {"pass"} else "undecided"


def law(check: str) -> str:
    """Return what a check asks, in the first line of its own documentation."""
    known = CHECKS.get(check) or AGREEMENT.get(check)
    lines = (known.__doc__ or "").strip().splitlines() if known else []
    return lines[0] if lines else ""


def check_id(scenario: str, finding: Finding) -> str:
    """Return the id by which pytest runs a check."""
    return f"{_source(scenario)}::{finding.arm}::{finding.check}"


def rerun_command(scenario: str, modes: Sequence[Mode]) -> str:
    """Return the command that makes the runs again, and the comparison of both if there are both."""
    verb = "compare" if len(modes) > 1 else {"real": "drill", "simulated": "simulate"}[modes[0]]
    return f".venv/bin/pooldrill {verb} {scenario if _in_catalog(scenario) else _source(scenario)}"


def _source(scenario: str) -> str:
    return f"scenarios/catalog/{scenario}.toml" if _in_catalog(scenario) else f"{scenario}.toml"


def _in_catalog(scenario: str) -> bool:
    return any(path.stem == scenario for path in catalog())
