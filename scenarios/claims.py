"""What the router says of its own doing, held against what else is known: its headers, and its word for a send."""

from collections import defaultdict
from collections.abc import Iterator

from scenarios.laws import NO_POOL_EVENTS, NO_REQUESTS, NO_SENDS
from scenarios.record import Record, Request, Send
from scenarios.verdict import Verdict, failed, named, passed, undecided, verdict_of


def delivery_follows_slot(record: Record) -> Verdict:
    """A send is unsent exactly when it never took its slot, and answered exactly when it did and a status came."""
    if not record.sends:
        return undecided(NO_SENDS)
    wrong = (_misnamed(send) for send in record.sends if send.delivery != _due(send))
    taken = sum(send.slot_taken for send in record.sends)
    return verdict_of(wrong, f"{len(record.sends)} sends, {taken} with the slot")


def _due(send: Send) -> str:
    # Not router.core's own function: a mistake there must not excuse itself.
    if not send.slot_taken:
        return "unsent"
    return "unknown" if send.status is None else "answered"


def _misnamed(send: Send) -> str:
    slot = "took the slot" if send.slot_taken else "never took the slot"
    status = "no status came" if send.status is None else f"status {send.status} came"
    return f"{send.request_id} attempt {send.attempt} at {send.pool} {slot} and {status}, but is called {send.delivery}"


def claims_match_sends(record: Record) -> Verdict:
    """What the router's headers told clients of delivery, pool and sends is what its send log and the pools tell."""
    if not record.requests:
        return undecided(NO_REQUESTS)
    if not record.sends:
        return undecided(NO_SENDS)
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    wrong = [*_against_sends(record), *_against_pools(record)]
    if wrong:
        return failed(named(wrong, "; "))
    silent = [request.request_id for request in record.requests if request.status is not None and not _claims(request)]
    if silent:
        return undecided(f"the router's headers told nothing of {named(silent)}")
    return passed(f"{sum(map(_claims, record.requests))} answers, as their headers say")


def _claims(request: Request) -> bool:
    return request.delivery is not None


def _against_sends(record: Record) -> Iterator[str]:
    sends: dict[str, list[Send]] = defaultdict(list)
    for send in sorted(record.sends, key=lambda send: send.attempt):
        sends[send.request_id].append(send)
    for request in filter(_claims, record.requests):
        logged = sends[request.request_id]
        told = {
            "delivery": (request.delivery, logged[-1].delivery if logged else "unsent"),
            "pool": (request.pool, logged[-1].pool if logged else None),
            "sends": (request.sends, len(logged)),
        }
        for what, (claimed, known) in told.items():
            if claimed is not None and claimed != known:
                yield f"{request.request_id} was told {what} {claimed}, the send log says {known or 'none'}"


def _against_pools(record: Record) -> Iterator[str]:
    bodies: dict[str | None, set[str]] = defaultdict(set)
    for event in record.pool_events:
        if event.kind == "body_complete":
            bodies[event.request_id].add(event.pool)
    for request in filter(_claims, record.requests):
        received = bodies[request.request_id]
        if request.delivery == "unsent" and received:
            yield f"{request.request_id} was told unsent, but {named(sorted(received))} received it"
        if request.delivery == "answered" and request.pool is not None and request.pool not in received:
            yield f"{request.request_id} was told an answer of {request.pool}, which never received it"
