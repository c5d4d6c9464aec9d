"""Whether the books agree: ids, sends and counters told by different parties of one run."""

from collections import Counter
from collections.abc import Iterator

from scenarios.laws import NO_POOL_EVENTS, NO_SENDS
from scenarios.record import Record
from scenarios.verdict import Verdict, undecided, verdict_of


def only_issued_ids(record: Record) -> Verdict:
    """Pools and send log know no request and no operation that the harness did not make."""
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    requests = {request.request_id: request.operation_id for request in record.requests}
    probes = {probe.request_id for probe in record.probes}
    wrong = [*_strangers(record, requests, probes), *_mistaken(record, requests)]
    return verdict_of(
        dict.fromkeys(wrong), f"{len(requests)} requests and {len(probes)} probes were issued, no others seen"
    )


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
    bodies = {(event.request_id, event.pool) for event in record.pool_events if event.kind == "body_complete"}
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
    fine = f"{len(bodies)} bodies at pools are {len(handed)} of {len(record.sends)} sends"
    return verdict_of(sorted(wrong), fine)


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
    codes = Counter(request.code or str(request.status) for request in seen)
    for code in sorted(codes.keys() | {m.labels["code"] for m in record.metrics if m.name == "client_requests_total"}):
        told = _total(record, "client_requests_total", code=code)
        if told != codes[code]:
            yield f"client_requests_total{{code={code}}} is {told:g}, clients saw {codes[code]}"
