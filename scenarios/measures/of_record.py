"""The columns of a record, real or modelled.

What the rows cannot tell is named in `lacks`: without rows of pools there is no queue, without events that say when
work began and ended no orphaned work.
"""

from collections.abc import Iterator
from math import inf, nan

from scenarios.measures.history import Attempts, FaultSpan, History, Operations, Sends, bools, floats, ints
from scenarios.record import Fault, PoolEvent, Record, Request, Send

NO_POOL_EVENTS = "the record has no rows of pools"
NO_SENDS = "the record has no sends"
NO_STARTS = "the pools did not say when work began"

_ENDS = frozenset({"finished", "cancelled"})


def of_record(record: Record) -> History:
    """Return a record as columns."""
    order = sorted(record.operations, key=lambda operation: operation.t_intended)
    rows = {operation.operation_id: row for row, operation in enumerate(order)}
    requests = [request for request in record.requests if request.operation_id in rows]
    first = dict(_first_tokens(requests))
    names = tuple(pool.id for pool in record.scenario.pools)
    return History(
        operations=Operations(
            t_s=floats([operation.t_intended for operation in order]),
            first_s=floats([first.get(operation.operation_id, nan) for operation in order]),
            end_s=floats([operation.t_end for operation in order]),
            ok=bools([operation.ok for operation in order]),
        ),
        sends=_sends(record, requests, rows, {name: number for number, name in enumerate(names)}),
        attempts=_attempts(record, requests, rows),
        pools=names,
        faults=tuple(_fault(fault, names) for fault in record.faults),
        end_s=max([record.scenario.duration_s, *(operation.t_end for operation in order)]),
        warm_up_s=record.scenario.warm_up_s,
        lacks=_lacks(record),
    )


def _fault(fault: Fault, pools: tuple[str, ...]) -> FaultSpan:
    return FaultSpan(
        pool=pools.index(fault.target) if fault.target in pools else -1,
        start_s=fault.planned_inject if fault.t_inject is None else fault.t_inject,
        end_s=fault.planned_clear if fault.t_clear is None else fault.t_clear,
    )


def _lacks(record: Record) -> dict[str, str]:
    lacks = {}
    if not record.sends:
        lacks["sends"] = NO_SENDS
    if not record.pool_events:
        lacks["entries"] = lacks["work"] = NO_POOL_EVENTS
    elif not any(event.kind == "started" for event in record.pool_events):
        lacks["work"] = NO_STARTS
    return lacks


def _first_tokens(requests: list[Request]) -> Iterator[tuple[str, float]]:
    """Yield when the first token of each operation's last request came; a plain answer's comes with its last byte."""
    for request in requests:
        first = request.t_first_token if request.stream else request.t_last_byte
        yield request.operation_id, nan if first is None else first


def _attempts(record: Record, requests: list[Request], rows: dict[str, int]) -> dict[str, Attempts]:
    operations = {request.request_id: rows[request.operation_id] for request in requests}
    sends = [send for send in record.sends if send.request_id in operations]
    return {
        "client": Attempts(
            operation=ints([rows[request.operation_id] for request in requests]),
            start_s=floats([request.t_start for request in requests]),
        ),
        "router": Attempts(
            operation=ints([operations[send.request_id] for send in sends]),
            start_s=floats([send.t_start for send in sends]),
        ),
    }


class _Work:
    """What one frontend did for one request."""

    __slots__ = ("entered", "free_s", "tokens", "work_s")

    def __init__(self) -> None:
        self.entered, self.work_s, self.free_s, self.tokens = False, nan, nan, 0

    def take_in(self, event: PoolEvent) -> None:
        if event.kind in ("queued", "started"):
            self.entered = True
        if event.kind == "started":
            self.work_s = event.t
        elif event.kind in _ENDS:
            self.free_s = event.t
        if event.tokens is not None:
            self.tokens = event.tokens


def _sends(record: Record, requests: list[Request], rows: dict[str, int], pools: dict[str, int]) -> Sends:
    by_id = {request.request_id: request for request in requests}
    work: dict[tuple[str | None, str], _Work] = {}
    for event in record.pool_events:
        work.setdefault((event.request_id, event.frontend), _Work()).take_in(event)
    told = [send for send in record.sends if send.request_id in by_id and send.pool in pools]
    done = [work.get((send.request_id, send.frontend), _Work()) for send in told]
    return Sends(
        operation=ints([rows[by_id[send.request_id].operation_id] for send in told]),
        pool=ints([pools[send.pool] for send in told]),
        start_s=floats([send.t_start for send in told]),
        left_s=floats([_left_s(send, by_id[send.request_id]) for send in told]),
        entered=bools([each.entered for each in done]),
        work_s=floats([each.work_s for each in done]),
        free_s=floats([each.free_s for each in done]),
        ok=bools([_reached_its_client(send, by_id[send.request_id]) for send in told]),
        tokens=floats([each.tokens for each in done]),
    )


def _left_s(send: Send, request: Request) -> float:
    """Return when nobody waited for a send any more: the router let go of it, or the client of the request."""
    return min(send.t_end, request.t_end if request.t_end is not None else inf)


def _reached_its_client(send: Send, request: Request) -> bool:
    return send.status is not None and send.status < 400 and request.end == "done"
