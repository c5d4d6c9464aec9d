"""A row of the table of numbers that the model must hit, and how one is judged.

A row is accepted where each of its values is within the tolerance of what theory says, or theory's value lies in
Student's interval over the replications; where the theory gives a range, in the range.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scenarios.statistics import Interval, mean_interval

Measured = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Exactly:
    """A number of theory, with the relative tolerance for the mean of the replications (0: every one hits it)."""

    value: float
    tol: float

    def accepts(self, values: Sequence[float]) -> bool:
        """Tell whether the replications agree with it."""
        if self.tol == 0:
            return all(abs(value - self.value) <= 1e-9 * abs(self.value) for value in values)
        found = mean_interval(values)
        return abs(found.mean - self.value) <= self.tol * abs(self.value) or found.low <= self.value <= found.high

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Within:
    """A range; `every`: each replication lies in it, else their mean does."""

    low: float
    high: float
    every: bool = True

    def accepts(self, values: Sequence[float]) -> bool:
        """Tell whether the replications agree with it."""
        judged = values if self.every else [mean_interval(values).mean]
        return all(self.low <= value <= self.high for value in judged)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case: `measure` runs one replication and returns the values that `expected` names.

    `slow`: it takes more than 20 s.
    """

    id: str
    what: str
    source: str
    measure: Callable[[int], Measured]
    expected: Mapping[str, Exactly | Within]
    replications: int = 8
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one row: the replications of each value, and those that theory does not agree with."""

    row: Row
    values: Mapping[str, Sequence[float]]
    wrong: Sequence[str] = field(default=())

    def interval(self, name: str) -> Interval:
        """Return the interval of one value over the replications."""
        return mean_interval(self.values[name])

    def __str__(self) -> str:
        told = [
            f"{name}: expected {self.row.expected[name]}, got {self.interval(name).mean:.6g}" for name in self.wrong
        ]
        return f"{self.row.id} ({self.row.what}): {'; '.join(told) or 'as expected'}"


def judge(row: Row) -> Judged:
    """Run a row and compare."""
    runs = [row.measure(replication) for replication in range(row.replications)]
    values = {name: [run[name] for run in runs] for name in row.expected}
    return Judged(row, values, [name for name, expected in row.expected.items() if not expected.accepts(values[name])])
