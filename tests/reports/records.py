"""Records to report on: what the model makes of the catalog's scenarios, and the same with something done to it."""

import functools
import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from scenarios.load import load
from scenarios.record import Fault, Operation, PoolEvent, Record, Request, Row, Send
from scenarios.spec import Scenario
from simulator.run import run
from tests.scenarios.doctored import DRILLS

STARTED = "2025-03-04T05:06:07+01:00"


@functools.cache
def modelled(name: str) -> Record:
    """Return the model's run of a scenario, with a start stamp that is always the same.

    It is one of those whose numbers tests rely on, if there is one of this name, else the catalog's.
    """
    stable = DRILLS / f"{name}.toml"
    return model(load(stable if stable.is_file() else name))


def model(scenario: Scenario) -> Record:
    """Return the model's run of any scenario."""
    with tempfile.TemporaryDirectory() as out:
        record = run(scenario, Path(out))
    return Record(replace(record.meta, started=STARTED), record.rows)


def as_real(record: Record, *, router: str = "reference", invalid: str = "") -> Record:
    """Return a record as a real run might have left it: what ends, ends a little later, and not evenly so."""
    meta = replace(record.meta, mode="real", router=router, versions={"toxiproxy": "2.12.0"}, invalid=invalid)
    late_s = itertools.cycle((0.004, 0.005, 0.009))
    return Record(meta, [_later(row, next(late_s)) for row in record.rows])


def _later(row: Row, late_s: float) -> Row:
    if isinstance(row, Operation | Request | Send):
        return replace(row, t_end=row.t_end + late_s)
    return row


def with_rows(record: Record, rows: Iterable[Row]) -> Record:
    """Return a record with more rows."""
    return Record(record.meta, [*record.rows, *rows])


def received_twice(record: Record) -> Record:
    """Return a record in which two whole bodies were received by the other pool as well: what must never be."""
    pools = [pool.id for pool in record.scenario.pools]
    bodies = [event for event in record.pool_events if event.kind == "body_complete"][:2]
    return with_rows(record, [_elsewhere(event, pools) for event in bodies])


def _elsewhere(event: PoolEvent, pools: list[str]) -> PoolEvent:
    other = next(pool for pool in pools if pool != event.pool)
    return replace(event, pool=other, frontend=f"{other}-0", t=event.t + 0.01)


def nothing_happened(record: Record) -> Record:
    """Return a run of the same scenario that has no rows."""
    return Record(record.meta, [])


def fault_not_made(record: Record) -> Record:
    """Return a run whose faults never came."""
    return Record(record.meta, [_not_made(row) for row in record.rows])


def _not_made(row: Row) -> Row:
    if isinstance(row, Fault):
        return replace(row, t_inject=None, t_clear=None, proved=False, proof="connect was accepted", cleared=False)
    return row


def repeated(record: Record, times: int) -> Record:
    """Return a run with many times the operations, requests, sends and bodies, each with an id of its own."""
    more = [_again(row, turn) for turn in range(1, times) for row in record.rows if isinstance(row, _REPEATED)]
    return with_rows(record, more)


_REPEATED = (Operation, Request, Send, PoolEvent)


def _again(row: Row, turn: int) -> Row:
    names = {name: f"{getattr(row, name)}x{turn}" for name in ("operation_id", "request_id") if hasattr(row, name)}
    times = {
        name: getattr(row, name) + turn * 0.0001
        for name in ("t_intended", "t_start", "t_end", "t")
        if hasattr(row, name)
    }
    return replace(row, **names, **times)
