"""What needs both runners. They are arguments, so that nothing here knows where a run takes place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from scenarios.agreement import agree
from scenarios.checks import judge
from scenarios.fitness import unfit
from scenarios.record import Mode, Record
from scenarios.spec import Scenario
from scenarios.verdict import Verdict

Runner = Callable[[Scenario, Path], Record]
"""Runs a scenario, writes its record into the directory, and returns it."""

Verdicts = dict[str, Verdict]
"""Name of a check -> what it said."""


class InvalidRunError(RuntimeError):
    """A run cannot be judged, whatever came out of it; says why. An environment's fault, not a router's."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario, run for real and as a model, with what the checks say."""

    real: Record
    simulated: Record
    verdicts: Mapping[str, Verdicts]
    """Keys: real, simulated, agreement."""

    @property
    def passed(self) -> bool:
        """Whether every check passed; an undecided one has not."""
        return all(verdict.passed for verdicts in self.verdicts.values() for verdict in verdicts.values())


def valid_run(runner: Runner, scenario: Scenario, out: Path) -> Record:
    """Run a scenario. Raises InvalidRunError if its record must not be judged, and whatever the runner raises."""
    record = runner(scenario, out)
    if why := unfit(record):
        raise InvalidRunError(f"{scenario.name}: the {record.meta.mode} run is invalid: {why}")
    return record


def compare(scenario: Scenario, runners: Mapping[Mode, Runner], out: Path) -> Comparison:
    """Run a scenario both ways and judge both runs and their agreement.

    The model comes first: it takes milliseconds, and a scenario that breaks it need not wait for the real run.
    """
    simulated = valid_run(runners["simulated"], scenario, out)
    real = valid_run(runners["real"], scenario, out)
    verdicts = {"real": judge(real), "simulated": judge(simulated), "agreement": agree(real, simulated)}
    return Comparison(real, simulated, verdicts)
