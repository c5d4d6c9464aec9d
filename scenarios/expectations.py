"""What this scenario in particular must show: its faults, and what its `expect` table says."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from scenarios.laws import NO_POOL_EVENTS, NO_REQUESTS, NO_SENDS
from scenarios.record import Fault, Record, Request
from scenarios.rules import bounds
from scenarios.spec import EXACT_MARGIN_S, LOOP_FAULTS, POOL_FAULTS, Scenario
from scenarios.spec import Fault as PlannedFault
from scenarios.verdict import Verdict, named, undecided, verdict_of

EDGE_OFF_MAX_S = 1.0
"""How far from its plan a fault may come or go where the scenario is not exact."""


def faults_fired(record: Record) -> Verdict:
    """Every planned fault, and no other, was on and off about when it should (proved), and met at least one request.

    Of a fault that only a router's loops see the proof tells that one of them met it.
    """
    if not record.scenario.faults:
        return undecided("the scenario plans no fault")
    wrong, met = list(_unplanned(record)), []
    for planned in record.scenario.faults:
        name = f"{planned.kind} at {planned.pool}"
        fault = _made(record, planned)
        problem = "was never made" if fault is None else _unproved(fault) or _off_time(record.scenario, fault)
        if planned.kind in LOOP_FAULTS:
            wrong += [f"{name} {problem}"] if problem else []
            met.append(f"{name} {'' if fault is None else fault.proof}")
            continue
        hits = [] if fault is None or problem else _hit(record, fault)
        if problem or not hits:
            wrong.append(f"{name} {problem or 'was on, but no request met it'}")
        met.append(f"{name} met {len(hits)} requests")
    return verdict_of(wrong, named(met, "; "))


def _unplanned(record: Record) -> Iterator[str]:
    """Tell of rows that no planned fault accounts for: there should be one each."""
    planned = Counter((fault.kind, fault.pool, fault.inject_s) for fault in record.scenario.faults)
    made = Counter((fault.name, fault.target, fault.planned_inject) for fault in record.faults)
    for (kind, pool, inject_s), count in made.items():
        if (kind, pool, inject_s) not in planned:
            yield f"{kind} at {pool} was made, but not planned for {inject_s:g} s"
        elif count > 1:
            yield f"{kind} at {pool} was made {count} times"


def _made(record: Record, planned: PlannedFault) -> Fault | None:
    wanted = (planned.kind, planned.pool, planned.inject_s)
    return next((f for f in record.faults if (f.name, f.target, f.planned_inject) == wanted), None)


def _unproved(fault: Fault) -> str:
    if fault.t_inject is None or not fault.proved or not fault.proof:
        return f"was not proved to be on ({fault.proof or 'no proof'})"
    if fault.t_clear is None or not fault.cleared or not fault.cleared_proof:
        return f"was not proved to be cleared ({fault.cleared_proof or 'no proof'})"
    return ""


def _off_time(scenario: Scenario, fault: Fault) -> str:
    """Say which edge was too far from its plan for the scenario to be what it says; empty if none was."""
    allowed_s = EXACT_MARGIN_S if scenario.exact else EDGE_OFF_MAX_S
    edges = {"on": (fault.t_inject, fault.planned_inject), "cleared": (fault.t_clear, fault.planned_clear)}
    for edge, (at_s, planned_s) in edges.items():
        if at_s is not None and abs(at_s - planned_s) > allowed_s:
            return f"was {edge} at {at_s:.3f} s, planned for {planned_s:g} s, allowed are {allowed_s:g} s"
    return ""


def _hit(record: Record, fault: Fault) -> list[str]:
    """Return the ids of the requests that show the mark of a fault."""
    if fault.name in ("refused", "black_hole"):
        cause = {"refused": "refused", "black_hole": "connect_timeout"}[fault.name]
        return [
            s.request_id for s in record.sends if s.pool == fault.target and s.cause == cause and _on(fault, s.t_start)
        ]
    received = _received(record, fault)
    if fault.name in POOL_FAULTS:
        return received
    if fault.name == "cut":
        broken = {request.request_id for request in record.requests if request.answer == "break"}
        return [request_id for request_id in received if request_id in broken]
    finished = {e.request_id for e in record.pool_events if e.kind == "finished" and e.pool == fault.target}
    return [request_id for request_id in received if request_id not in finished]


def _on(fault: Fault, t: float) -> bool:
    return fault.t_inject is not None and fault.t_clear is not None and fault.t_inject <= t <= fault.t_clear


def _received(record: Record, fault: Fault) -> list[str]:
    """Return the ids of the requests whose body the fault's pool received whole while the fault was on."""
    probes = {probe.request_id for probe in record.probes}  # they prove that a fault is on, not that a request met it
    return [
        event.request_id
        for event in record.pool_events
        if event.kind == "body_complete"
        and event.pool == fault.target
        and event.request_id
        and event.request_id not in probes
        and _on(fault, event.t)
    ]


def every_byte_before_break(record: Record) -> Verdict:
    """Each stream that was cut gave its client exactly the events that passed before the cut, then a visible break."""
    if not record.requests:
        return undecided(NO_REQUESTS)
    if not record.pool_events:
        return undecided(NO_POOL_EVENTS)
    requests = {request.request_id: request for request in record.requests}
    wrong: list[str] = []
    cut = 0
    for planned in (fault for fault in record.scenario.faults if fault.kind == "cut"):
        fault = _made(record, planned)
        hit = [] if fault is None else [requests[r] for r in _received(record, fault) if r in requests]
        cut += len(hit)
        wrong += _not_as_cut(hit, planned.after_events or 0)
    if not cut:
        return undecided("no request reached a pool while its streams were cut")
    return verdict_of(wrong, f"{cut} cut streams, every event there")


def _not_as_cut(hit: list[Request], after_events: int) -> Iterator[str]:
    for request in hit:
        if request.answer != "break":
            yield f"{request.request_id} was cut, but ended as {request.answer}"
        elif request.events != after_events:
            yield f"{request.request_id} got {request.events} events before the break, {after_events} had passed"


def expected_answers(record: Record) -> Verdict:
    """Clients saw what `expect.answers` says, as often as it says, and nothing else."""
    if not record.requests:
        return undecided(NO_REQUESTS)
    seen: dict[str, list[str]] = defaultdict(list)
    for request in record.requests:
        seen[request.answer].append(request.request_id)
    expected = record.scenario.expect.answers
    wrong = []
    for answer in [*expected, *(answer for answer in seen if answer not in expected)]:
        low, high = bounds(expected.get(answer))
        if not low <= len(seen[answer]) <= high:
            ids = f" ({named(seen[answer])})" if len(seen[answer]) > high and answer != "200" else ""
            wrong.append(f"{answer}: {len(seen[answer])}, expected {_span(low, high)}{ids}")
    return verdict_of(wrong, ", ".join(f"{answer}={len(ids)}" for answer, ids in seen.items() if ids))


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def expected_failovers(record: Record) -> Verdict:
    """As many requests were sent a second time as `expect.failovers` says."""
    if not record.sends:
        return undecided(NO_SENDS)
    sends = Counter(send.request_id for send in record.sends)
    second = [request_id for request_id, count in sends.items() if count > 1]
    low, high = bounds(record.scenario.expect.failovers)
    wrong = [] if low <= len(second) <= high else [_counted("requests with two sends", second, low, high)]
    return verdict_of(wrong, f"{len(second)} requests with two sends")


def expected_resends(record: Record) -> Verdict:
    """Clients sent as many requests beyond the first of their operation as `expect.sdk_resends` says."""
    if not record.requests:
        return undecided(NO_REQUESTS)
    again = [request.request_id for request in record.requests if request.attempt > 0]
    low, high = bounds(record.scenario.expect.sdk_resends)
    wrong = [] if low <= len(again) <= high else [_counted("requests sent again by clients", again, low, high)]
    return verdict_of(wrong, f"{len(again)} requests sent again by clients")


def _counted(what: str, ids: list[str], low: int, high: int) -> str:
    return f"{len(ids)} {what}, expected {_span(low, high)}" + (f": {named(ids)}" if ids else "")
