"""What happened, column by column: eight bytes a number instead of an object a row.

`Operations` has one row an operation, written where it belongs; `Calls` and `Sends` get a row when theirs is over, and
are put into the order of their beginning at the end. Times are seconds of the run, nan where something never was.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from math import nan
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simulator.chain.calls import OUTSIDE, Attempt, Call
from simulator.chain.results import OPEN_END

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]
"""Name -> one array; all of one table are equally long."""

JOB_STATES: Final = ("none", "queued", "running", "finished", "cancelled", "rejected", "lost")
"""What became of a send at its pool, by number: never got there, still there, ..., swallowed by a read_drop."""
NO_JOB, JOB_QUEUED, JOB_RUNNING, JOB_FINISHED, JOB_CANCELLED, JOB_REJECTED, JOB_LOST = range(len(JOB_STATES))


class Operations:
    """One row an operation, in order of arrival: begin, end, first token, how it ended."""

    def __init__(self, count: int) -> None:
        blank = array("d", [nan])
        self.t_end_s = blank * count
        self.t_first_s = blank * count
        self.end = array("b", [OPEN_END]) * count
        self.status = array("h", [0]) * count
        self.code = array("b", [0]) * count
        self.session = array("i", [-1]) * count

    def columns(self, t_start_s: Sequence[float], load: Sequence[int], arrived: int) -> Columns:
        """Return the table; of the planned begins only as many have come as the model lived to see."""
        begins = np.asarray(t_start_s, dtype=float)
        begins[arrived:] = nan
        told = {name: np.asarray(column) for name, column in vars(self).items()}
        return {"t_start_s": begins, **told, "load": np.asarray(load, dtype=np.int16)}


class Rows:
    """A table that grows row by row, as one flat list of numbers: `add(pack(...))`, in the order of the columns.

    Packed first, a row costs a quarter of what an array needs to take its numbers one by one.
    """

    __slots__ = ("_types", "_values", "add", "pack")

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._values: array[float] = array("d")
        self.pack: Callable[..., bytes] = Struct(f"{len(types)}d").pack
        self.add: Callable[[bytes], None] = self._values.frombytes

    def columns(self, keys: tuple[str, ...]) -> Columns:
        """Return the table, sorted by `keys`, the last one first."""
        width = len(self._types)
        table = np.frombuffer(self._values, dtype=float).reshape(-1, width) if self._values else np.empty((0, width))
        places = {name: place for place, name in enumerate(self._types)}
        order = np.lexsort([table[:, places[key]] for key in keys])
        return {name: table[order, place].astype(self._types[name]) for name, place in places.items()}


class Calls:
    """One row for each attempt of a layer that is not the innermost."""

    _TYPES: Final = {
        "operation": "i4",
        "turn": "i4",
        "number": "i4",
        "t_start_s": "f8",
        "t_end_s": "f8",
        "end": "i1",
        "status": "i2",
        "code": "i1",
    }

    def __init__(self) -> None:
        self._rows = Rows(self._TYPES)
        self._pack, self._add = self._rows.pack, self._rows.add

    def add(self, call: Call, t_end_s: float, end: int, status: int, code: int = 0) -> None:
        """Write a call down that is over. `turn` counts the attempts of this layer within the operation, from 1."""
        self._add(self._pack(call.operation.index, call.turn, call.number, call.t_start_s, t_end_s, end, status, code))

    def columns(self) -> Columns:
        """Return the table, by begin."""
        return self._rows.columns(("turn", "operation", "t_start_s"))


class Sends:
    """One row for each attempt of the innermost layer.

    `t_end_s` and `end` are the caller's; `t_in_s` is when its connection stood (nan: never), `t_work_s`, `t_first_s`,
    `t_done_s` and `job` are the pool's. `turn` is the call of the innermost layer that made it, counted within the
    operation; `number` its place in that call, from 1.
    """

    _TYPES: Final = {
        "operation": "i4",
        "turn": "i4",
        "number": "i4",
        "frontend": "i2",
        "t_start_s": "f8",
        "t_end_s": "f8",
        "end": "i1",
        "status": "i2",
        "t_in_s": "f8",
        "t_work_s": "f8",
        "t_first_s": "f8",
        "t_done_s": "f8",
        "job": "i1",
        "tokens": "i4",
        "work_s": "f8",
    }

    def __init__(self) -> None:
        self._rows = Rows(self._TYPES)
        self.pack_row, self.add_row = self._rows.pack, self._rows.add
        """Take a row in the order of the columns, packed first."""

    def add(self, attempt: Attempt, job: int, t_work_s: float, t_first_s: float, t_done_s: float) -> None:
        """Write an attempt down that is over for its caller and for its pool."""
        self.add_row(
            self.pack_row(
                attempt.index,
                attempt.parent.turn,
                attempt.number,
                attempt.frontend.index,
                attempt.t_start_s,
                attempt.t_end_s,
                attempt.end,
                attempt.status,
                attempt.t_in_s if attempt.where > OUTSIDE else nan,
                t_work_s,
                t_first_s,
                t_done_s,
                job,
                attempt.tokens,
                attempt.work_s,
            )
        )

    def columns(self) -> Columns:
        """Return the table, by begin; `connected` tells whether `t_in_s` is a time."""
        table = self._rows.columns(("number", "turn", "operation", "t_start_s"))
        return {**table, "connected": (~np.isnan(table["t_in_s"])).astype(np.int8)}


def tokens_made(sends: Columns) -> Column:
    """Return how many tokens were made for each send whose work is over: whole ones, of cancelled work by its time.

    Work that goes on when the run stops has none: no row of a record could tell.
    """
    whole = sends["tokens"].astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip((sends["t_done_s"] - sends["t_work_s"]) / sends["work_s"], 0.0, 1.0)
    cancelled = np.where(sends["job"] == JOB_CANCELLED, np.floor(np.nan_to_num(whole * share)), 0.0)
    return np.where(sends["job"] == JOB_FINISHED, whole, cancelled).astype(np.int64)
