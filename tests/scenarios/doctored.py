"""Records of real runs of the model, and ways to falsify single rows of them: what a check must notice."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec

from scenarios.load import load
from scenarios.record import Mode, Record, Row
from scenarios.spec import Scenario
from simulator.run import run

R = TypeVar("R", bound=Row)


DRILLS = Path(__file__).parent / "drills"
"""Scenarios whose numbers tests rely on; those of the catalog may change."""


@cache
def modelled(drill: str | Path) -> Record:
    """Return the record of one of DRILLS, or of any scenario given by its path, from the model."""
    with TemporaryDirectory() as out:
        return run(planned(drill), Path(out))


def planned(drill: str | Path) -> Scenario:
    return load(drill if isinstance(drill, Path) else DRILLS / f"{drill}.toml")


def as_mode(record: Record, mode: Mode) -> Record:
    return Record(msgspec.structs.replace(record.meta, mode=mode), record.rows)


def changed(record: Record, kind: type[R], pick: Callable[[R], bool], **values: Any) -> Record:
    """Return the record with the first row that fits changed."""
    index = _index(record, kind, pick)
    row = msgspec.structs.replace(record.rows[index], **values)
    return Record(record.meta, [*record.rows[:index], row, *record.rows[index + 1 :]])


def doubled(record: Record, kind: type[R], pick: Callable[[R], bool], **values: Any) -> Record:
    """Return the record with the first row that fits and a changed copy of it."""
    row = record.rows[_index(record, kind, pick)]
    return Record(record.meta, [*record.rows, msgspec.structs.replace(row, **values)])


def without(record: Record, kind: type[R], pick: Callable[[R], bool] = lambda _: True) -> Record:
    """Return the record without the rows that fit."""
    return Record(record.meta, [row for row in record.rows if not (isinstance(row, kind) and pick(row))])


def _index(record: Record, kind: type[R], pick: Callable[[R], bool]) -> int:
    return next(index for index, row in enumerate(record.rows) if isinstance(row, kind) and pick(row))
