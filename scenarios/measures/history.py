"""A run as columns of numbers: what all measures are worked out of. Times are seconds of the run, nan: never."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """One row an operation, by arrival: intended start, first token, end, whether it ended well."""

    t_s: Floats
    first_s: Floats
    end_s: Floats
    ok: Bools

    def __len__(self) -> int:
        return len(self.t_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """One row for each hand-over to a frontend.

    `operation`: its row in Operations. `left_s`: when whoever made it stopped waiting, for whatever reason. `entered`:
    whether it took a place in a queue or a slot, `work_s` and `free_s`: when its work began, and when its slot was free
    again. `ok`: whether its answer was complete and waited for. `tokens`: how many were made for it.
    """

    operation: Ints
    pool: Ints
    start_s: Floats
    left_s: Floats
    entered: Bools
    work_s: Floats
    free_s: Floats
    ok: Bools
    tokens: Floats

    def __len__(self) -> int:
        return len(self.start_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One run. `attempts`: by layer, from outermost to innermost, the operation of each attempt, and when it began.

    `pools`: their ids, by number in Sends. `faults`: when they were on. `end_s`: when the run stopped. `lacks`: what
    its source could not tell, and why; measures that need it are undecided.
    """

    operations: Operations
    sends: Sends
    attempts: Mapping[str, "Attempts"]
    pools: tuple[str, ...]
    faults: tuple["FaultSpan", ...]
    end_s: float
    warm_up_s: float = 0.0
    lacks: Mapping[str, str]

    @property
    def counted(self) -> Bools:
        """Which operations are not of the warm-up."""
        return self.operations.t_s >= self.warm_up_s

    @property
    def sends_counted(self) -> Bools:
        """Which sends are of operations that are not of the warm-up."""
        return self.counted[self.sends.operation]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """When a fault was on, and at which pool (its number; -1: at none of them)."""

    pool: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """One row for each attempt of one layer: its operation's row, and when it began."""

    operation: Ints
    start_s: Floats


def floats(values: Any) -> Floats:
    """Return a column of float seconds."""
    return np.asarray(values, dtype=np.float64)


def ints(values: Any) -> Ints:
    """Return a column of whole numbers."""
    return np.asarray(values, dtype=np.int64)


def bools(values: Any) -> Bools:
    """Return a column of answers."""
    return np.asarray(values, dtype=np.bool_)
