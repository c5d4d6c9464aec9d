"""The columns of a record, real or modelled.

What the rows cannot tell is named in `lacks`: without rows of pools there is no queue, without events that say when
work began and ended no orphaned work.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from math import inf, isnan, nan

from scenarios.measures.history import Attempts, FaultSpan, History, Operations, Sends, bools, floats, ints
from scenarios.record import Fault, PoolEvent, Record, Request, Send

NO_POOL_EVENTS = "the record has no rows of pools"
NO_SENDS = "the record has no sends"
NO_STARTS = "the pools did not say when work began"


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
        end_s=_end_s(record),
        warm_up_s=record.scenario.warm_up_s,
        lacks=_lacks(record),
    )


def _end_s(record: Record) -> float:
    """Return when the run stopped: the last that was seen of anything, or its planned end."""
    ends = [operation.t_end for operation in record.operations]
    seen = [*(event.t for event in record.pool_events), *(sample.t for sample in record.samples)]
    return max([record.scenario.duration_s, *ends, *seen])


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
        plain = request.t_first_token is None and not request.stream
        first = request.t_last_byte if plain else request.t_first_token
        yield request.operation_id, nan if first is None else first


def _attempts(record: Record, requests: list[Request], rows: dict[str, int]) -> dict[str, Attempts]:
    operations = {request.request_id: rows[request.operation_id] for request in requests}
    sends = [send for send in record.sends if send.request_id in operations]
    of_requests = Attempts(
        operation=ints([rows[request.operation_id] for request in requests]),
        start_s=floats([request.t_start for request in requests]),
    )
    of_sends = Attempts(
        operation=ints([operations[send.request_id] for send in sends]),
        start_s=floats([send.t_start for send in sends]),
    )
    *outer, innermost = [layer.name for layer in record.scenario.layers] or ["client", "router"]
    if not outer:
        return {innermost: of_sends}
    return {**{name: _counted(record, name, rows) for name in outer[:-1]}, outer[-1]: of_requests, innermost: of_sends}


def _counted(record: Record, layer: str, rows: dict[str, int]) -> Attempts:
    """Return the attempts of a layer of which the record has counts alone: when they began, nobody knows."""
    counts = {operation.operation_id: operation.attempts.get(layer, 0) for operation in record.operations}
    operations = [rows[operation_id] for operation_id, count in counts.items() for _ in range(count)]
    return Attempts(operation=ints(operations), start_s=floats([nan] * len(operations)))


class _Work:
    """What one frontend did for one send."""

    __slots__ = ("entered", "free_s", "tokens", "work_s")

    def __init__(self) -> None:
        self.entered, self.work_s, self.free_s, self.tokens = False, nan, nan, 0


class _Works:
    """What one frontend did for one request: as a rule for one send of it.

    Rows do not say which of several sends they are about. Who has to wait, or is rejected, is the one that came last;
    what begins and ends first is taken for the first one's of those that wait or run.
    """

    __slots__ = ("works",)

    def __init__(self) -> None:
        self.works: list[_Work] = []

    def take_in(self, event: PoolEvent) -> None:
        if event.kind == "body_complete" or (not self.works and event.kind in ("queued", "started")):
            self.works.append(_Work())
        if not self.works:
            return
        match event.kind:
            case "queued":
                self.works[-1].entered = True
            case "started":
                work = self._first(lambda work: work.entered and isnan(work.work_s))
                work.entered, work.work_s = True, event.t
            case "finished":
                work = self._first(lambda work: not isnan(work.work_s) and isnan(work.free_s))
                work.free_s, work.tokens = event.t, event.tokens or 0
            case "cancelled":
                work = self._first(lambda work: work.entered and isnan(work.free_s))
                work.free_s, work.tokens = event.t, event.tokens or 0

    def _first(self, fits: Callable[[_Work], bool]) -> _Work:
        return next((work for work in self.works if fits(work)), self.works[-1])

    def next(self) -> _Work:
        """Return what was done for the next send."""
        return self.works.pop(0) if self.works else _Work()


def _sends(record: Record, requests: list[Request], rows: dict[str, int], pools: dict[str, int]) -> Sends:
    by_id = {request.request_id: request for request in requests}
    works: dict[tuple[str | None, str], _Works] = defaultdict(_Works)
    for event in record.pool_events:
        works[event.request_id, event.frontend].take_in(event)
    told = [send for send in record.sends if send.request_id in by_id and send.pool in pools]
    # A send that never handed its body over has left no rows at the frontend.
    done = [works[send.request_id, send.frontend].next() if send.slot_taken else _Work() for send in told]
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
    return send.status is not None and send.status < 400 and send.cause is None and request.end == "done"
