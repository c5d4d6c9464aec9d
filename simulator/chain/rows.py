"""From the columns of a run to the rows of the record, in the words that a real run uses.

A request is a call of the innermost layer: what its caller, a client or the layer above, sent once and saw end once. A
send is what the innermost layer made of it. Ids are those of a real run: op-LOAD-NUMBER, and -rN for its N-th request.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any, Final

import numpy as np

from router.core.delivery import BLAME, Cause, Delivery
from scenarios.record import Operation, PoolEvent, Request, RequestEnd, Row, Sample, Send
from simulator.chain.columns import (
    JOB_CANCELLED,
    JOB_FINISHED,
    JOB_LOST,
    JOB_QUEUED,
    JOB_REJECTED,
    JOB_RUNNING,
    Columns,
    tokens_made,
)
from simulator.chain.outcome import Outcome
from simulator.chain.results import (
    CODES,
    CONNECT_END,
    LEFT_END,
    LOST_END,
    OK_END,
    OPEN_END,
    STATUS_END,
    TIMEOUT_END,
)

_DIGITS: Final = 9
SAMPLES_MAX: Final = 600
"""Readings of one gauge in a record; a longer run is read less often than once a second."""

_REQUEST_END: Final[Mapping[int, RequestEnd]] = {
    OK_END: "done",
    STATUS_END: "done",
    CONNECT_END: "refused",
    LOST_END: "reset",
    TIMEOUT_END: "timeout",
    LEFT_END: "client_left",
    OPEN_END: "client_left",
}
_HELD: Final = (JOB_QUEUED, JOB_RUNNING, JOB_FINISHED, JOB_CANCELLED)
"""What took a place in a queue or a slot; a failure at once and a body that is dropped take none."""
_ERROR: Final = {CONNECT_END: "refused", LOST_END: "lost", TIMEOUT_END: "timeout", OPEN_END: "unfinished"}
"""Name of what a user's program was told, where it is no status."""


def rows_of(outcome: Outcome, ids: Sequence[str]) -> list[Row]:
    """Return all rows but faults and counters, kind by kind in the order of a real run's; `ids` of the operations."""
    names = [layer.name for layer in outcome.scenario.layers]
    tables = {name: _lists(table) for name, table in outcome.layers.items()}
    requests = tables[names[-2]] if len(names) > 1 else None
    sends = tables[names[-1]] | {"tokens": tokens_made(outcome.sends).tolist()}
    return [
        *_operations(outcome, ids, names),
        *_requests(outcome, ids, requests, sends),
        *_sends(outcome, ids, sends),
        *_pool_events(outcome, ids, sends),
        *_samples(outcome),
    ]


def _lists(table: Columns) -> dict[str, list[Any]]:
    return {
        name: (np.round(column, _DIGITS) if column.dtype.kind == "f" else column).tolist()
        for name, column in table.items()
    }


def _operations(outcome: Outcome, ids: Sequence[str], names: Sequence[str]) -> Iterator[Operation]:
    table = _lists(outcome.operations)
    turns = {name: column.tolist() for name, column in outcome.turns.items()}
    session_of = {number: session for session, number in outcome.sessions.items()}
    end_s = round(outcome.end_s, _DIGITS)
    for index, operation_id in enumerate(ids):
        end, status = table["end"][index], table["status"][index]
        yield Operation(
            operation_id=operation_id,
            load=table["load"][index],
            t_intended=table["t_start_s"][index],
            t_end=end_s if end == OPEN_END else table["t_end_s"][index],
            ok=end == OK_END,
            requests=turns[names[-2]][index] if len(names) > 1 else 1,
            session=session_of.get(table["session"][index]),
            error=f"status {status}" if end == STATUS_END else _ERROR.get(end, ""),
            attempts={name: turns[name][index] for name in names},
        )


def _requests(
    outcome: Outcome, ids: Sequence[str], table: dict[str, list[Any]] | None, sends: dict[str, list[Any]]
) -> Iterator[Request]:
    """Yield the calls of the innermost layer: the attempts of the one above it, or the operations themselves."""
    if table is None:
        table = _lists(outcome.operations)
        count = len(ids)
        table |= {"operation": list(range(count)), "turn": [1] * count}
    last = _last_sends(sends)
    streams = [outcome.scenario.load[load].stream for load in outcome.operations["load"].tolist()]
    frontends = outcome.frontends
    end_s = round(outcome.end_s, _DIGITS)
    columns = ("operation", "turn", "t_start_s", "t_end_s", "end", "status", "code")
    for operation, turn, t_start_s, t_end_s, end, status, code in zip(*(table[name] for name in columns), strict=True):
        found = last.get((operation, turn))
        first_s, place, count = (None, None, 0) if found is None else found
        good = end == OK_END
        if not streams[operation]:  # head and answer come together
            first_s = t_end_s if good else None
        broken = end == LOST_END and first_s is not None and first_s < t_end_s
        yield Request(
            operation_id=ids[operation],
            request_id=f"{ids[operation]}-r{turn - 1}",
            attempt=turn - 1,
            t_start=t_start_s,
            t_headers=t_end_s if end == STATUS_END else (first_s if good or broken else None),
            t_first_token=first_s if good or broken else None,
            t_last_byte=t_end_s if good else None,
            t_end=end_s if end == OPEN_END else t_end_s,
            end=_REQUEST_END[end],
            status=200 if broken else status or None,
            code=CODES[code] or None,
            pool=None if place is None or not good else frontends[place].pool,
            sends=count,
        )


def _last_sends(sends: dict[str, list[Any]]) -> dict[tuple[int, int], tuple[float, int, int]]:
    """Return of each request the first token and the frontend of its last send, and how many sends it had."""
    found: dict[tuple[int, int], tuple[float, int, int]] = {}
    for operation, turn, frontend, first_s in zip(
        sends["operation"], sends["turn"], sends["frontend"], sends["t_first_s"], strict=True
    ):
        known = found.get((operation, turn))
        found[operation, turn] = (first_s, frontend, 1 if known is None else known[2] + 1)
    return found


def _sends(outcome: Outcome, ids: Sequence[str], sends: dict[str, list[Any]]) -> Iterator[Send]:
    columns = (
        "operation", "turn", "number", "frontend", "t_start_s", "t_first_s", "t_end_s", "end", "status", "t_in_s",
    )  # fmt: skip
    end_s = round(outcome.end_s, _DIGITS)
    for operation, turn, number, place, t_start_s, t_first_s, t_end_s, end, status, t_in_s in zip(
        *(sends[name] for name in columns), strict=True
    ):
        # A router writes down the head of an answer; what only layers have seen is told by the first token.
        connected = not isnan(t_in_s)
        begun = bool(status) or t_first_s < t_end_s
        delivery = Delivery.UNSENT if not connected else Delivery.ANSWERED if begun else Delivery.UNKNOWN
        cause = _cause(end, connected=connected)
        yield Send(
            request_id=f"{ids[operation]}-r{turn - 1}",
            attempt=number,
            pool=outcome.frontends[place].pool,
            frontend=outcome.frontends[place].frontend,
            t_start=t_start_s,
            t_connected=t_in_s if connected else None,
            t_end=end_s if end == OPEN_END else t_end_s,
            slot_taken=connected,
            delivery=str(delivery),
            status=status or (200 if begun else None),
            cause=None if cause is None else str(cause),
            blame=None if cause is None else str(BLAME[cause]),
        )


def _cause(end: int, *, connected: bool) -> Cause | None:
    match end:
        case _ if end in (OK_END, STATUS_END):
            return None
        case _ if end == CONNECT_END:
            return Cause.REFUSED
        case _ if end == LOST_END:
            return Cause.LOST
        case _ if end == TIMEOUT_END:
            return Cause.FIRST_BYTE_TIMEOUT if connected else Cause.CONNECT_TIMEOUT
        case _:
            return Cause.CLIENT_LEFT


def _pool_events(outcome: Outcome, ids: Sequence[str], sends: dict[str, list[Any]]) -> list[PoolEvent]:
    """Return what the pools saw, in the order of time."""
    columns = (
        "operation", "turn", "frontend", "t_in_s", "t_end_s", "end", "t_work_s", "t_done_s", "job",
        "tokens",
    )  # fmt: skip
    events: list[tuple[float, int, PoolEvent]] = []
    for operation, turn, place, t_in_s, t_end_s, end, t_work_s, t_done_s, job, tokens in zip(
        *(sends[name] for name in columns), strict=True
    ):
        if isnan(t_in_s):
            continue
        kinds: list[tuple[str, float]] = [("body_complete", t_in_s)]
        held = job in _HELD
        if job == JOB_REJECTED or (job == JOB_LOST and end == STATUS_END):
            kinds.append(("rejected", t_in_s))
        elif held and t_work_s != t_in_s:
            kinds.append(("queued", t_in_s))
        if not isnan(t_work_s):
            kinds.append(("started", t_work_s))
        if held and job != JOB_CANCELLED and end in (TIMEOUT_END, LEFT_END, LOST_END):
            kinds.append(("orphaned", t_end_s))
        if job == JOB_FINISHED:
            kinds.append(("finished", t_done_s))
        elif job == JOB_CANCELLED:
            kinds.append(("cancelled", t_done_s))
        frontend = outcome.frontends[place]
        for kind, t_s in kinds:
            event = PoolEvent(
                pool=frontend.pool,
                frontend=frontend.frontend,
                kind=kind,  # type: ignore[arg-type] # of the kinds above
                t=t_s,
                operation_id=ids[operation],
                request_id=f"{ids[operation]}-r{turn - 1}",
                tokens=tokens if kind in ("finished", "cancelled") and tokens else None,
            )
            events.append((t_s, len(events), event))
    return [event for _, _, event in sorted(events, key=lambda entry: entry[:2])]


def _samples(outcome: Outcome) -> Iterator[Sample]:
    """Yield what waits and what is in flight at each pool, once a second or less often."""
    step_s = max(1.0, outcome.end_s / SAMPLES_MAX)
    times = np.append(np.arange(0.0, outcome.end_s, step_s), outcome.end_s)
    sends = outcome.sends
    places: dict[str, list[int]] = defaultdict(list)
    for place, frontend in enumerate(outcome.frontends):
        places[frontend.pool].append(place)
    for pool, found in places.items():
        here = np.isin(sends["frontend"], found) & (sends["connected"] == 1)
        queue, in_flight = gauges(sends, here, times)
        for kind, values in (("queue", queue), ("in_flight", in_flight)):
            for t_s, value in zip(times.tolist(), values.tolist(), strict=True):
                yield Sample(kind=kind, source=pool, value=float(value), t=round(t_s, _DIGITS))


def gauges(sends: Columns, here: Any, times: Any) -> tuple[Any, Any]:
    """Return how many of the chosen sends wait for a slot, and how many wait or run, right after each time."""
    t_in = np.sort(sends["t_in_s"][here])
    left = np.where(np.isnan(sends["t_done_s"]), sends["t_end_s"], sends["t_done_s"])
    gone = ~np.isin(sends["job"], (JOB_QUEUED, JOB_RUNNING))
    t_out = np.sort(left[here & gone])
    t_work = np.where(np.isnan(sends["t_work_s"]), np.where(gone, left, np.inf), sends["t_work_s"])
    t_begun = np.sort(t_work[here])
    came, out, begun = (np.searchsorted(t, times, side="right") for t in (t_in, t_out, t_begun))
    return came - begun, came - out
