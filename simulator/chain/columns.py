"""What happened, column by column: eight bytes a number instead of an object a row.

`Operations` has one row an operation, written where it belongs; `Calls` and `Sends` get a row when theirs is over, and
are put into the order of their beginning at the end. Times are seconds of the run, nan where something never was.
"""

from array import array
from collections.abc import Mapping
from math import nan
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simulator.chain.calls import Attempt, Call
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
        self.t_start_s = blank * count
        self.t_end_s = blank * count
        self.t_first_s = blank * count
        self.end = array("b", [OPEN_END]) * count
        self.status = array("h", [0]) * count
        self.load = array("h", [0]) * count
        self.session = array("i", [-1]) * count

    def columns(self) -> Columns:
        """Return the table."""
        return {name: np.asarray(column) for name, column in vars(self).items()}


class Calls:
    """One row for each attempt of a layer that is not the innermost."""

    _CODES: Final = {"operation": "i", "turn": "i", "number": "i", "t_start_s": "d", "t_end_s": "d", "end": "b",
                     "status": "h"}  # fmt: skip

    def __init__(self) -> None:
        self._columns: dict[str, array[Any]] = {name: array(code) for name, code in self._CODES.items()}
        self._append = [column.append for column in self._columns.values()]

    def add(self, call: Call, t_end_s: float, end: int, status: int) -> None:
        """Write a call down that is over. `turn` counts the attempts of this layer within the operation, from 1."""
        values = (call.operation.index, call.turn, call.number, call.t_start_s, t_end_s, end, status)
        for append, value in zip(self._append, values, strict=True):
            append(value)

    def columns(self) -> Columns:
        """Return the table, by begin."""
        return _sorted(self._columns, ("turn", "operation", "t_start_s"))


class Sends:
    """One row for each attempt of the innermost layer.

    `t_end_s` and `end` are the caller's; `t_work_s`, `t_first_s`, `t_done_s` and `job` the pool's. `turn` is the call
    of the innermost layer that made it, counted within the operation; `number` its place in that call, from 1.
    """

    _CODES: Final = {"operation": "i", "turn": "i", "number": "i", "frontend": "h", "t_start_s": "d", "t_end_s": "d",
                     "end": "b", "status": "h", "connected": "b", "t_work_s": "d", "t_first_s": "d", "t_done_s": "d",
                     "job": "b", "tokens": "i", "work_s": "d"}  # fmt: skip

    def __init__(self) -> None:
        self._columns: dict[str, array[Any]] = {name: array(code) for name, code in self._CODES.items()}
        appends: list[Any] = [column.append for column in self._columns.values()]
        (self._operation, self._turn, self._number, self._frontend, self._t_start, self._t_end, self._end,
         self._status, self._connected, self._t_work, self._t_first, self._t_done, self._job, self._tokens,
         self._work) = appends  # fmt: skip

    def add(self, attempt: Attempt, job: int, t_work_s: float, t_first_s: float, t_done_s: float) -> None:
        """Write an attempt down that is over for its caller and for its pool."""
        self._operation(attempt.operation.index)
        self._turn(attempt.parent.turn)
        self._number(attempt.number)
        self._frontend(attempt.frontend.index)
        self._t_start(attempt.t_start_s)
        self._t_end(attempt.t_end_s)
        self._end(attempt.end)
        self._status(attempt.status)
        self._connected(attempt.connected)
        self._t_work(t_work_s)
        self._t_first(t_first_s)
        self._t_done(t_done_s)
        self._job(job)
        self._tokens(attempt.tokens)
        self._work(attempt.work_s)

    def columns(self) -> Columns:
        """Return the table, by begin."""
        return _sorted(self._columns, ("number", "turn", "operation", "t_start_s"))


def _sorted(columns: Mapping[str, "array[Any]"], keys: tuple[str, ...]) -> Columns:
    order = np.lexsort([np.asarray(columns[key]) for key in keys])
    return {name: np.asarray(column)[order] for name, column in columns.items()}
