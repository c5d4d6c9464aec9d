"""What every run must keep, whatever its scenario: the laws of safe failover, as checks over one record.

The oracle is what the pools saw and what the clients got. A router's own send log is read only where nothing else can
tell (a refused send reaches no pool), and `never_twice` never reads it.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from scenarios.plan import plan
from scenarios.record import PoolEvent, Record, Request
from scenarios.verdict import Verdict, failed, named, passed, undecided, verdict_of

EXPLICIT = ("done", "error_frame", "reset")
"""Ends of a request that tell its client the truth; a reset only once a status was there."""

NO_POOL_EVENTS = "the record has no events of the pools"
NO_SENDS = "the record has no sends: the router under test keeps no send log"
NO_REQUESTS = "the record has no requests of clients"


def never_twice(record: Record) -> Verdict:
    """No request's whole body was received more than once, over all pools."""
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    bodies: dict[str, list[PoolEvent]] = defaultdict(list)
    for event in _bodies(record):
        if event.request_id is None:
            return undecided(f"{event.frontend} got a body without a request id at {event.t:.3f} s")
        bodies[event.request_id].append(event)
    twice = {request_id: events for request_id, events in bodies.items() if len(events) > 1}
    if twice:
        places = (f"{request_id} at {_places(events)}" for request_id, events in twice.items())
        return failed(f"{len(twice)} of {len(bodies)} requests were received whole more than once: {named(places)}")
    return passed(f"{len(bodies)} whole bodies, none twice")


def _bodies(record: Record) -> list[PoolEvent]:
    return [event for event in record.pool_events if event.kind == "body_complete"]


def _places(events: list[PoolEvent]) -> str:
    return " and ".join(f"{event.frontend} ({event.t:.3f} s)" for event in events)


def at_most_two_sends(record: Record) -> Verdict:
    """No request was sent more than twice: not by the router's word, and not as the pools saw it."""
    if not record.sends:
        return undecided(NO_SENDS)
    sends = Counter(send.request_id for send in record.sends)
    heads = Counter(event.request_id for event in record.pool_events if event.kind == "head")
    wrong = [f"{request_id} was sent {count} times" for request_id, count in sends.items() if count > 2]
    wrong += [f"{request_id} reached pools {count} times" for request_id, count in heads.items() if count > 2]
    return verdict_of(wrong, f"{len(record.sends)} sends of {len(sends)} requests")


def never_same_pool_twice(record: Record) -> Verdict:
    """No request was sent to one pool twice: not by the router's word, and not as the pools saw it."""
    if not record.sends:
        return undecided(NO_SENDS)
    sends = Counter((send.request_id, send.pool) for send in record.sends)
    heads = Counter((event.request_id, event.pool) for event in record.pool_events if event.kind == "head")
    wrong = [
        f"{request_id} was sent to {pool} {count} times" for (request_id, pool), count in sends.items() if count > 1
    ]
    wrong += [f"{request_id} reached {pool} {count} times" for (request_id, pool), count in heads.items() if count > 1]
    second = sum(count == 2 for count in Counter(send.request_id for send in record.sends).values())
    return verdict_of(wrong, f"{second} second sends, all elsewhere")


def only_unsent_goes_again(record: Record) -> Verdict:
    """A request that reached a pool with its whole body, or that was not provably unsent, was sent nowhere else."""
    if not record.sends:
        return undecided(NO_SENDS)
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    wrong = [*_seen_elsewhere(record), *_sent_after_handover(record)]
    unknown = sum(send.delivery == "unknown" for send in record.sends)
    return verdict_of(wrong, f"{unknown} unknown, none sent again")


def _seen_elsewhere(record: Record) -> Iterator[str]:
    whole = {event.request_id: event for event in reversed(_bodies(record))}
    for event in record.pool_events:
        first = whole.get(event.request_id)
        if first is not None and event.kind in ("head", "body_complete") and event.pool != first.pool:
            yield f"{event.request_id} was received whole by {first.pool} and also reached {event.pool}"


def _sent_after_handover(record: Record) -> Iterator[str]:
    sends = sorted(record.sends, key=lambda send: (send.request_id, send.attempt))
    for send, following in itertools.pairwise(sends):
        if send.request_id == following.request_id and send.delivery != "unsent":
            yield f"{send.request_id} was {send.delivery} at {send.pool} and sent again to {following.pool}"


def one_answer_each(record: Record) -> Verdict:
    """Every planned operation was made, and each of its requests got exactly one explicit answer."""
    if not record.requests:
        return undecided(NO_REQUESTS)
    wrong = [*_not_made(record), *_not_once(record), *_not_explicit(record)]
    return verdict_of(wrong, f"{len(record.requests)} requests, one answer each")


def _not_made(record: Record) -> Iterator[str]:
    planned = {operation.operation_id for operation in plan(record.scenario, record.meta.seed)}
    made = Counter(operation.operation_id for operation in record.operations)
    if planned - made.keys():
        yield f"planned but not made: {named(sorted(planned - made.keys()))}"
    if made.keys() - planned:
        yield f"made but not planned: {named(sorted(made.keys() - planned))}"
    yield from (f"{operation_id} was made {count} times" for operation_id, count in made.items() if count > 1)


def _not_once(record: Record) -> Iterator[str]:
    answers = Counter(request.request_id for request in record.requests)
    yield from (f"{request_id} has {count} answers" for request_id, count in answers.items() if count > 1)
    requests = Counter(request.operation_id for request in record.requests)
    for operation in record.operations:
        if requests[operation.operation_id] != operation.requests:
            found = requests[operation.operation_id]
            yield f"{operation.operation_id} made {operation.requests} requests, but {found} were answered"


def _not_explicit(record: Record) -> Iterator[str]:
    for request in record.requests:
        explicit = request.end in EXPLICIT and request.status is not None
        if not explicit and request.answer not in record.scenario.expect.answers:
            status = "without a status" if request.status is None else f"after status {request.status}"
            yield f"{request.request_id} ended by {request.end} {status}"


def no_false_end(record: Record) -> Verdict:
    """Nothing that was cut looks complete: not to a client's parser, not to the program behind the SDK."""
    if not record.requests:
        return undecided(NO_REQUESTS)
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    wrong = [*_incomplete(record), *_hidden(record)]
    whole = sum(_complete(request) for request in record.requests)
    return verdict_of(wrong, f"{whole} complete, {len(record.requests) - whole} visibly not")


def _complete(request: Request) -> bool:
    return request.end == "done" and request.status is not None and request.status < 300


def _incomplete(record: Record) -> Iterator[str]:
    """Compare what looks complete with what the pools finished and how long an answer is."""
    finished = {(event.request_id, event.pool) for event in record.pool_events if event.kind == "finished"}
    tokens = {pool.id: pool.service.tokens for pool in record.scenario.pools}
    for request in record.requests:
        if request.end == "eof_no_done":
            yield f"{request.request_id}: the stream ended cleanly without its end mark after {request.events} events"
        if not _complete(request):
            continue
        pools = [pool for pool in tokens if (request.request_id, pool) in finished]
        if not pools:
            yield f"{request.request_id} looks complete, but no pool finished it"
        elif request.stream and request.events < min(tokens[pool] for pool in pools):
            yield f"{request.request_id} looks complete after {request.events} events"


def _hidden(record: Record) -> Iterator[str]:
    """Compare what the user's program was told with how its last request ended."""
    last = {request.operation_id: request for request in sorted(record.requests, key=lambda r: r.attempt)}
    for operation in record.operations:
        request = last.get(operation.operation_id)
        if request is None:
            continue
        if operation.ok != _complete(request):
            told = "success" if operation.ok else "failure"
            yield f"{operation.operation_id} was told {told}, but its request ended as {request.answer}"
        if not operation.ok and not operation.error and record.scenario.load[operation.load].client == "openai":
            yield f"{operation.operation_id} failed, but the SDK raised nothing"


def in_flight_zero(record: Record) -> Verdict:
    """The router holds nothing of any pool after the last request."""
    readings = {s.source: s for s in sorted(record.samples, key=lambda s: s.t) if s.kind == "in_flight"}
    missing = [pool.id for pool in record.scenario.pools if pool.id not in readings]
    if missing:
        return undecided(f"the record has no reading of in_flight for {named(missing)}")
    end_s = max((request.t_end for request in record.requests), default=0.0)
    early = [source for source, sample in readings.items() if sample.t < end_s]
    if early:
        return undecided(f"in_flight of {named(early)} was last read before the last request ended")
    held = [f"{sample.value:g} at {source} ({sample.t:.3f} s)" for source, sample in readings.items() if sample.value]
    return failed(f"still in flight: {named(held)}") if held else passed(f"0 at {named(readings)}")
