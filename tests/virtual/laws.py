"""What must hold in every world, judged from outside: by what pools received, what clients got and were told.

Each law yields a line for every breach; the name before the colon is the law's.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from router.core.delivery import OWN_TIMEOUTS, Cause, Delivery
from router.core.refusal import CLIENT_LEFT, STATUS, Code
from router.send_log import SendRow
from tests.virtual.answers import Said, answer_of, read_whole, request_body
from tests.virtual.clients import Heard
from tests.virtual.observed import Observed
from tests.virtual.plan import Ask, Kind, Trouble, What
from tests.virtual.pools import Served

SLACK_S = 0.25
"""What handing over, polling and flushing may add to a bound."""
WAITING_BYTES = 64 * 2**10
"""What the router writes ahead of a client."""
DELIVERY_OF = {
    Code.POOL_UNREACHABLE: "unsent",
    Code.MAYBE_RUNNING: "unknown",
    Code.POOL_TIMEOUT: "unknown",
    Code.DEADLINE: "unsent",
    Code.NO_POOL: "unsent",
    Code.ROUTER_OVERLOADED: "unsent",
    Code.BUDGET_SPENT: "unsent",
    Code.MODEL_NOT_FOUND: "unsent",
    Code.BODY_TOO_LARGE: "unsent",
    Code.CLIENT_TOO_SLOW: "unsent",
}
"""The codes that a request of these worlds may be answered with, and what each must say of the delivery."""

OWN_BOUNDS = OWN_TIMEOUTS | {Cause.IDLE_TIMEOUT}

Law = Callable[[Observed], Iterator[str]]


def broken_laws(observed: Observed) -> list[str]:
    """Return every breach of every law."""
    return observed.problems + [f"{law.__name__}: {breach}" for law in LAWS for breach in law(observed)]


def never_twice(seen: Observed) -> Iterator[str]:
    """A body is received whole at most once, over all pools."""
    bodies = Counter(served.name for served in seen.served if served.body is not None)
    for name, count in bodies.items():
        if count > 1:
            yield f"{name} was received whole {count} times: {seen.served_of(name)}"


def never_seen_again(seen: Observed) -> Iterator[str]:
    """Not even the head of a request comes to two frontends, or twice to one."""
    for name, count in Counter(served.name for served in seen.served).items():
        if count > 1:
            yield f"{name} was seen {count} times: {seen.served_of(name)}"


def bodies_are_exact(seen: Observed) -> Iterator[str]:
    """What a pool receives is what the client wrote, under an id that was issued, without what is not the pool's."""
    for name in seen.unknown_ids:
        yield f"a pool got a request that nobody made: {name!r}"
    asks = {ask.name: ask for ask in seen.world.asks}
    for served in seen.served:
        if served.body is not None and served.body != request_body(asks[served.name]):
            yield f"{served} got another body"
        if b"x-pooldrill-deadline" in served.head.lower() or b"\r\nexpect:" in served.head.lower():
            yield f"{served} got headers that are the router's"


def sends_are_lawful(seen: Observed) -> Iterator[str]:
    """At most two sends, to two pools, the second only if the first was unsent."""
    rows_of: dict[str, list[SendRow]] = {}
    for row in seen.rows:
        rows_of.setdefault(row.request_id, []).append(row)
    for name, rows in rows_of.items():
        if [row.attempt for row in rows] != [1, 2][: len(rows)]:
            yield f"{name} has sends {[row.attempt for row in rows]}"
        elif len(rows) == 2 and (rows[0].delivery != Delivery.UNSENT or rows[0].pool == rows[1].pool):
            yield f"{name} was sent again after {rows[0]}: {rows[1]}"


def rows_are_true(seen: Observed) -> Iterator[str]:
    """What the send log says of a send agrees with what the frontend saw."""
    at = {(served.name, served.frontend): served for served in seen.served}
    for row in seen.rows:
        served = at.pop((row.request_id, row.frontend), None)
        if row.delivery == Delivery.UNSENT and served is not None:
            yield f"{row.request_id} is called unsent, and {row.frontend} has seen it"
        if row.delivery == Delivery.ANSWERED and served is None and not _said_unasked(seen, row):
            yield f"{row.request_id} is called answered, and {row.frontend} has not seen it"
        if row.slot_taken != (row.delivery != Delivery.UNSENT):
            yield f"{row.request_id}: slot and delivery disagree in {row}"
    for served in at.values():
        yield f"{served} is in no row of the send log"


def claims_are_true(seen: Observed) -> Iterator[str]:
    """What the client is told of the delivery, the pool and the sends is so."""
    for heard in _answered(seen):
        said, rows = heard.reading.headers, seen.rows_of(heard.ask.name)
        delivery, served = said.get("x-pooldrill-delivery"), seen.served_of(heard.ask.name)
        if delivery is None:
            yield f"{heard} says nothing of its delivery"
        if delivery == "unsent" and served:
            yield f"{heard} is called unsent, and was seen by {served}"
        if delivery != "unsent" and {row.pool for row in rows[-1:]} != {said.get("x-pooldrill-pool")}:
            yield f"{heard} names pool {said.get('x-pooldrill-pool')}, its sends are {rows}"
        if int(said.get("x-pooldrill-attempts", "0")) != len(rows):
            yield f"{heard} names {said.get('x-pooldrill-attempts')} sends, there are {len(rows)}"
        if (delivery == "unknown") != (said.get("x-should-retry") == "false"):
            yield f"{heard} is {delivery} and says x-should-retry: {said.get('x-should-retry')}"


def codes_are_known(seen: Observed) -> Iterator[str]:
    """An answer is the pool's own, or one of the router's codes with its status and what it means."""
    for heard in _answered(seen):
        reading = heard.reading
        if heard.code == "answered":
            if any(_said_unasked(seen, row) for row in seen.rows_of(heard.ask.name)):
                continue
            expected = 204 if heard.ask.answer.kind is Kind.EMPTY else heard.ask.answer.status
            if reading.status != expected or reading.headers.get("x-of") != heard.ask.name:
                yield f"{heard} is not what the pool said: {expected}"
            continue
        code = next((code for code in DELIVERY_OF if f'"code":"{code}"'.encode() in reading.body), None)
        if not heard.clean:
            continue
        if code is None or reading.status != STATUS[code] or DELIVERY_OF[code] != heard.code:
            yield f"{heard} is no known answer: {heard.code} {bytes(reading.body)!r}"
        if code in {Code.NO_POOL, Code.ROUTER_OVERLOADED} and int(reading.headers.get("retry-after", "0")) < 1:
            yield f"{heard} does not say when to come back"


def answers_are_exact(seen: Observed) -> Iterator[str]:
    """What a client gets is a beginning of what the pool said, and all of it where it looks whole."""
    for heard, served in _passed_on(seen):
        said, got = answer_of(heard.ask), bytes(heard.reading.body)
        if not said.body.startswith(got):
            yield f"{heard} got other bytes than the pool said"
        elif heard.clean and not _is_all(heard, said):
            yield f"{heard} looks whole with {len(got)} of {len(said.body)} bytes; that was {served}"


def _is_all(heard: Heard, said: Said) -> bool:
    """Tell whether nothing is missing; what only the connection's end ends is whole with its end mark."""
    got = bytes(heard.reading.body)
    if heard.ask.answer.kind is Kind.UNTIL_CLOSE:
        return got.rstrip() == said.body.rstrip()
    return got == said.body and heard.ask.answer.kind is not Kind.BAD_CHUNK


def what_arrived_is_delivered(seen: Observed) -> Iterator[str]:
    """Every byte of an answer that came to the router before a loss reaches a client that reads.

    Where a bound of the router's own ended it, what had come and was not yet read may be lost, and so may what waited
    for a client that is slow.
    """
    for heard, served in _passed_on(seen):
        if heard.end == "left" or _was_hurried(seen) or not _reads_on(seen, heard.ask):
            continue
        by_router = _ended_by_router(seen, heard.ask)
        if by_router and heard.ask.read_pause_s:
            continue
        came = served.read_bytes if by_router else served.arrived_bytes
        body = read_whole(answer_of(heard.ask).wire[:came]).body
        if len(heard.reading.body) < len(body) and heard.ask.answer.kind is not Kind.BAD_CHUNK:
            yield f"{heard} got {len(heard.reading.body)} of {len(body)} bytes that had come"


def whole_answers_arrive_whole(seen: Observed) -> Iterator[str]:
    """An answer that came whole to the router is whole for a client that reads."""
    for heard, served in _passed_on(seen):
        if heard.clean or heard.end == "left" or _was_hurried(seen) or not _reads_on(seen, heard.ask):
            continue
        whole = served.answered and served.arrived_bytes == len(answer_of(heard.ask).wire)
        if whole and heard.ask.answer.kind is not Kind.UNTIL_CLOSE and not _ended_by_router(seen, heard.ask):
            yield f"{heard}, and the whole answer had come"


def every_request_ends(seen: Observed) -> Iterator[str]:
    """Each ends, to its last byte, within the deadline: the router's, or the client's own."""
    for ask in seen.world.asks:
        heard = seen.heard.get(ask.name)
        if heard is None:
            yield f"{ask.name} was never asked"
        elif heard.end == "none":
            yield f"{heard} has no end"
        elif heard.end not in {"left", "refused"}:
            took_s, most_s = heard.ended_s - heard.began_s, _longest_s(seen, heard)
            if took_s > most_s:
                yield f"{heard} took {took_s:.3f} s, at most {most_s:.3f} s are allowed"


def lists_end_in_time(seen: Observed) -> Iterator[str]:
    """A list of models comes within its time-out, whatever the pools do: theirs, or the word that none has told any."""
    slack_s = SLACK_S + 8 * seen.world.latency_s + 100 * seen.world.tick_s
    for ask in seen.world.lists:
        heard = seen.lists[ask.name]
        if heard.end in {"left", "refused"} or (_was_hurried(seen) and not heard.clean):
            continue
        if not heard.clean or heard.reading.status not in {200, 503}:
            yield f"{heard} is no list: {bytes(heard.reading.body)!r}"
        elif heard.ended_s - heard.began_s > seen.world.shell.models_timeout_s + slack_s:
            yield f"{heard} took {heard.ended_s - heard.began_s:.3f} s"


def the_tally_adds_up(seen: Observed) -> Iterator[str]:
    """Requests, sends and failovers are counted once each, and agree with what clients and the send log tell."""
    tally = seen.tally
    sends = sum(tally.sends.values())
    if sends != sum(made * count for (_, made), count in tally.client_requests.items()):
        yield f"sends {dict(tally.sends)} do not match requests {dict(tally.client_requests)}"
    if sends != len(seen.rows):
        yield f"{sends} sends are counted, {len(seen.rows)} are logged"
    twice = sum(count for (_, made), count in tally.client_requests.items() if made == 2)
    if sum(tally.failovers.values()) != twice:
        yield f"{dict(tally.failovers)} do not match {twice} requests with two sends"
    told = Counter(code for (code, _), count in tally.client_requests.items() for _ in range(count))
    heard = Counter(_code_heard(heard) for heard in _answered(seen) if heard.clean)
    for code, count in heard.items():
        if told[code] < count:
            yield f"{count} clients were told {code}, {told[code]} are counted"
    if sum(told.values()) > len(seen.heard) + len(seen.lists):  # a connection too many is counted as a request
        yield f"{sum(told.values())} requests are counted, {len(seen.heard)} were made"
    if told[CLIENT_LEFT] > sum(not heard.clean for heard in seen.heard.values()):
        yield f"{told[CLIENT_LEFT]} clients are said to have left"


def the_drain_ends_in_time(seen: Observed) -> Iterator[str]:
    """A SIGTERM ends the router within the drain time-out, a second one at once; without work it takes no time."""
    took_s, signal = seen.drained_s - seen.signalled_s, seen.world.signal
    most_s = SLACK_S + seen.world.tick_s * 100 + (seen.world.shell.drain_delay_s if signal is None else 0.0)
    if signal is not None:
        shell = seen.world.shell
        most_s += min(
            shell.drain_delay_s + shell.drain_timeout_s, float("inf") if signal.again_s is None else signal.again_s
        )
    if took_s > most_s:
        yield f"it took {took_s:.3f} s, at most {most_s:.3f} s are allowed"


LAWS: tuple[Law, ...] = (
    never_twice,
    never_seen_again,
    bodies_are_exact,
    sends_are_lawful,
    rows_are_true,
    claims_are_true,
    codes_are_known,
    answers_are_exact,
    what_arrived_is_delivered,
    whole_answers_arrive_whole,
    every_request_ends,
    lists_end_in_time,
    the_tally_adds_up,
    the_drain_ends_in_time,
)


def _answered(seen: Observed) -> Iterator[Heard]:
    """Yield whoever got at least the head of an answer."""
    return (heard for heard in seen.heard.values() if heard.reading.headers)


def _passed_on(seen: Observed) -> Iterator[tuple[Heard, Served]]:
    """Yield the answers that pools gave, as their clients got them."""
    for heard in _answered(seen):
        if heard.code == "answered":
            for served in seen.served_of(heard.ask.name)[-1:]:
                if not any(_said_unasked(seen, row) for row in seen.rows_of(heard.ask.name)):
                    yield heard, served


def _code_heard(heard: Heard) -> str:
    if heard.code == "answered":
        return str(heard.reading.status)
    return next((str(code) for code in Code if f'"code":"{code}"'.encode() in heard.reading.body), "?")


def _said_unasked(seen: Observed, row: SendRow) -> bool:
    """Tell whether a send may have been answered by what its frontend said unasked, just before the request came."""
    return row.status == 408 and any(
        isinstance(event, Trouble) and event.what is What.SAYS_UNASKED and event.frontend == row.frontend
        for event in seen.world.events
    )


def _was_hurried(seen: Observed) -> bool:
    """Tell whether the end of the router may have cut streams short."""
    return seen.world.signal is not None


def _ended_by_router(seen: Observed, ask: Ask) -> bool:
    """Tell whether a time-out of the router's own, or the deadline, ended the last send of a request."""
    until_s = seen.heard[ask.name].began_s + _deadline_s(seen, ask)
    return any(row.cause in OWN_BOUNDS or row.t_end >= until_s for row in seen.rows_of(ask.name)[-1:])


def _deadline_s(seen: Observed, ask: Ask) -> float:
    """Return the deadline of a request: the router's, or its client's own."""
    hurry_s = float("inf") if ask.deadline_ms is None else ask.deadline_ms / 1000
    return min(seen.world.rules.deadline_s, hurry_s)


def _reads_on(seen: Observed, ask: Ask) -> bool:
    """Tell whether a client reads all that waits for it within the idle time-out; otherwise it counts as gone."""
    reads = 1 + WAITING_BYTES / seen.world.buffer_bytes * 2
    return ask.read_pause_s * reads < seen.world.rules.idle_timeout_s / 2


def _longest_s(seen: Observed, heard: Heard) -> float:
    """Return how long a request may take as its client sees it."""
    world, ask = seen.world, heard.ask
    # A client that pauses after each read takes one for every piece that its side of the connection holds.
    reads = 4 + len(heard.reading.body) // max(1, world.buffer_bytes // 4) + ask.answer.pieces * 2
    own_s = SLACK_S + 8 * world.latency_s + 100 * world.tick_s + reads * ask.read_pause_s
    return _deadline_s(seen, ask) + own_s
