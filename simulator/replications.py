"""Many replications of a scenario, with their control arms; the numbers do not depend on how many processes make them.

Laws
1. A replication depends on the scenario and its number alone, so any process may make it.
2. Replications are taken in the order of their numbers, and sequential stopping looks at them one by one: batches and
   processes decide how long it takes, never what comes out.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scenarios.measures.measured import Measured, Undecided
from scenarios.measures.scalars import every_measure
from scenarios.spec import Scenario
from scenarios.statistics import REPLICATIONS_MAX, REPLICATIONS_MIN, enough
from simulator.chain import run
from simulator.history import history_of

AUTO: Final = "auto"
COLLAPSED: Final = ("metastable", "overloaded_anyway")
"""Classes of runs that do not come back."""
UNCLASSED: Final = "not classed"
"""What stands for the class of a run that has no fault, or that is too short to tell."""
STOPS: Final = ("goodput", "send_amplification", "queue_amplification")
"""Measures that sequential stopping waits for."""


@dataclass(frozen=True, slots=True)
class Replication:
    """What one replication came to: its class, why, and every measure that can be told; infinite: censored."""

    number: int
    run_class: str
    why: str
    measures: dict[str, float]


def replicate(scenario: Scenario, number: int) -> Replication:
    """Make one replication and, where it has faults, its control arm."""
    return replication_of(measured(scenario, number), number)


def measured(scenario: Scenario, number: int) -> Measured:
    """Make one replication and its control arm, and return both as columns."""
    control = history_of(run(scenario, number, faults=False)) if scenario.faults else None
    return Measured(scenario, history_of(run(scenario, number)), control)


def replication_of(found: Measured, number: int) -> Replication:
    """Return the numbers of a replication without its columns."""
    try:
        judged = found.judged
    except Undecided as why:
        return Replication(number, UNCLASSED, str(why), every_measure(found))
    return Replication(number, judged.run_class or UNCLASSED, judged.why, every_measure(found))


def replications(scenario: Scenario, wanted: int | str, *, processes: int = 1) -> list[Replication]:
    """Make so many replications, or, for AUTO, as many as 5 % of every mean takes, 10 to 200."""
    if wanted != AUTO:
        return list(_made(scenario, range(int(wanted)), processes))
    found: list[Replication] = []
    while len(found) < REPLICATIONS_MAX:
        numbers = range(len(found), min(len(found) + REPLICATIONS_MIN, REPLICATIONS_MAX))
        for replication in _made(scenario, numbers, processes):
            found.append(replication)
            if is_enough(found):
                return found
    return found


def is_enough(found: Sequence[Replication]) -> bool:
    """Tell whether sequential stopping may stop."""
    names = [name for name in STOPS if all(name in each.measures for each in found)]
    values = {name: [each.measures[name] for each in found] for name in names}
    return enough([each.run_class for each in found], values, COLLAPSED)


def _made(scenario: Scenario, numbers: Sequence[int], processes: int) -> Iterator[Replication]:
    """Yield replications in the order of their numbers."""
    if processes == 1 or len(numbers) == 1:
        yield from map(replicate, itertools.repeat(scenario), numbers)
        return
    # One process has no need of it; joblib brings no types.
    from joblib import Parallel, delayed  # noqa: PLC0415
    from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415

    try:
        yield from Parallel(n_jobs=processes, backend="loky")(
            delayed(replicate)(scenario, number) for number in numbers
        )
    finally:
        get_reusable_executor().shutdown(wait=True)
