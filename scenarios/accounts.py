"""Whether the books agree: ids, sends and counters told by different parties of one run."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator

from scenarios.laws import NO_POOL_EVENTS, NO_SENDS
from scenarios.record import Record, Request
from scenarios.spec import Pool
from scenarios.verdict import Verdict, named, undecided, verdict_of
from scenarios.world.answers import plain_answer, stream_events


def only_issued_ids(record: Record) -> Verdict:
    """Pools and send log know no request and no operation that the harness did not make."""
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    requests = {request.request_id: request.operation_id for request in record.requests}
    probes = {probe.request_id for probe in record.probes}
    wrong = [*_strangers(record, requests, probes), *_mistaken(record, requests)]
    return verdict_of(dict.fromkeys(wrong), f"{len(requests)} requests, {len(probes)} probes")


def _strangers(record: Record, requests: dict[str, str], probes: set[str]) -> Iterator[str]:
    for event in record.pool_events:
        if event.request_id is None:
            if event.kind == "body_complete":
                yield f"{event.frontend} got a body without a request id at {event.t:.3f} s"
        elif event.request_id not in requests and event.request_id not in probes:
            yield f"{event.frontend} saw {event.request_id}, which was never issued"
    for send in record.sends:
        if send.request_id not in requests and send.request_id not in probes:
            yield f"the router sent {send.request_id}, which was never issued"


def _mistaken(record: Record, requests: dict[str, str]) -> Iterator[str]:
    for event in record.pool_events:
        issued_for = requests.get(event.request_id or "")
        if issued_for is not None and event.operation_id not in (None, issued_for):
            yield f"{event.frontend} saw {event.request_id} with the body of {event.operation_id}"


def sends_match_pools(record: Record) -> Verdict:
    """The router's send log and the pools agree on which pool got which body."""
    if not record.sends:
        return undecided(NO_SENDS)
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    probes = {probe.request_id for probe in record.probes}  # the harness's own requests go past the router
    bodies = {
        (event.request_id, event.pool)
        for event in record.pool_events
        if event.kind == "body_complete" and event.request_id not in probes
    }
    handed = {(send.request_id, send.pool) for send in record.sends if send.slot_taken}
    answered = {(send.request_id, send.pool) for send in record.sends if send.delivery == "answered"}
    wrong = [
        f"{pool} received {request_id}, which the send log says was not handed over"
        for request_id, pool in bodies - handed
    ]
    wrong += [
        f"the send log says {pool} answered {request_id}, which it never received"
        for request_id, pool in answered - bodies
    ]
    fine = f"{len(bodies)} bodies of {len(record.sends)} sends"
    return verdict_of(sorted(wrong), fine)


def bytes_unaltered(record: Record) -> Verdict:
    """What pools got is what clients sent, and what clients got is what pools said, byte for byte from the first."""
    answers = [request for request in record.requests if request.status == 200 and request.bytes]
    if not answers:
        return undecided("no client got a byte of an answer")
    unhashed = [request.request_id for request in answers if request.sha256_down is None]
    if unhashed:
        return undecided(f"the record has no hash of what was answered to {named(unhashed)}")
    wrong = [*_altered_up(record), *_altered_down(record, answers)]
    return verdict_of(wrong, f"{sum(request.bytes for request in answers)} bytes of {len(answers)} answers")


def _altered_up(record: Record) -> Iterator[str]:
    sent = {request.request_id: request.sha256_up for request in record.requests}
    for event in record.pool_events:
        told = sent.get(event.request_id or "")
        if event.kind == "body_complete" and event.sha256 and told and event.sha256 != told:
            yield f"{event.frontend} got another body of {event.request_id} than its client sent"


def _altered_down(record: Record, answers: list[Request]) -> Iterator[str]:
    pools = {pool.id: pool for pool in record.scenario.pools}
    received: dict[str, list[Pool]] = defaultdict(list)
    for event in record.pool_events:
        if event.kind == "body_complete" and event.request_id and event.pool in pools:
            received[event.request_id].append(pools[event.pool])
    for request in answers:
        said = [_said(request, pool) for pool in received[request.request_id]]
        fitting = [whole for whole in said if _hash(whole[: request.bytes]) == request.sha256_down]
        if not fitting:
            yield f"{request.request_id} got {request.bytes} bytes that no pool said"
        elif request.end == "done" and all(len(whole) != request.bytes for whole in fitting):
            yield f"{request.request_id} looks complete with {request.bytes} of {len(fitting[0])} bytes"


def _said(request: Request, pool: Pool) -> bytes:
    if request.stream:
        return b"".join(stream_events(request.request_id, pool.model, pool.service))
    return plain_answer(request.request_id, pool.model, pool.service)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def metrics_add_up(record: Record) -> Verdict:
    """The router's counters agree with each other, with its send log, and with what clients and pools saw."""
    if not record.metrics:
        return undecided("the record has no counters: the router under test has no metrics")
    wrong = [*_algebra(record), *_sends_counted(record), *_requests_counted(record)]
    sends = _total(record, "requests_total")
    return verdict_of(wrong, f"{sends:g} sends of {_total(record, 'client_requests_total'):g} requests")


def _total(record: Record, name: str, **labels: str) -> float:
    return sum(
        metric.value for metric in record.metrics if metric.name == name and labels.items() <= metric.labels.items()
    )


def _algebra(record: Record) -> Iterator[str]:
    by_sends = [(int(m.labels["sends"]), m.value) for m in record.metrics if m.name == "client_requests_total"]
    told = sum(sends * count for sends, count in by_sends)
    sends = _total(record, "requests_total")
    if told != sends:
        yield f"client_requests_total says {told:g} sends, requests_total {sends:g}"
    second = sum(count for sends, count in by_sends if sends == 2)
    failovers = _total(record, "failovers_total")
    if second != failovers:
        yield f"client_requests_total says {second:g} requests of two sends, failovers_total {failovers:g}"


def _sends_counted(record: Record) -> Iterator[str]:
    """Compare with the send log, where there is one."""
    if not record.sends:
        return
    logged = Counter(
        (send.pool, "no_response" if send.status is None else f"{send.status // 100}xx") for send in record.sends
    )
    counted = {(m.labels["pool"], m.labels["outcome"]): m.value for m in record.metrics if m.name == "requests_total"}
    for pool, outcome in sorted(logged.keys() | counted.keys()):
        if logged[pool, outcome] != counted.get((pool, outcome), 0):
            yield (
                f"requests_total{{pool={pool}, outcome={outcome}}} is {counted.get((pool, outcome), 0):g}, "
                f"the send log has {logged[pool, outcome]}"
            )


def _requests_counted(record: Record) -> Iterator[str]:
    """Compare with what clients saw of the router."""
    seen = [request for request in record.requests if request.end != "refused"]
    counted = _total(record, "client_requests_total")
    if counted != len(seen):
        yield f"client_requests_total is {counted:g}, clients made {len(seen)} requests"
        return
    if any(request.end not in ("done", "reset") for request in seen):
        return  # who left first, client or router, is seen differently from both ends
    codes = Counter(_counted_as(request) for request in seen)
    for code in sorted(codes.keys() | {m.labels["code"] for m in record.metrics if m.name == "client_requests_total"}):
        told = _total(record, "client_requests_total", code=code)
        if told != codes[code]:
            yield f"client_requests_total{{code={code}}} is {told:g}, clients saw {codes[code]}"


def _counted_as(request: Request) -> str:
    """Return what the router counts an answer as: by its own code, or by the status if the answer is a pool's."""
    own = request.code if request.delivery != "answered" else None
    return own or str(request.status)
