"""Whatever the scenario: nothing is lost, nothing runs twice, and the books of all parties agree."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenarios.checks import judge
from scenarios.plan import plan
from scenarios.record import Record
from scenarios.spec import Expect, Fault, Load, Pool, Router, Scenario, Service
from simulator.run import run

LAWS = (
    "never_twice",
    "at_most_two_sends",
    "never_same_pool_twice",
    "only_unsent_goes_again",
    "no_false_end",
    "in_flight_zero",
    "only_issued_ids",
    "sends_match_pools",
    "metrics_add_up",
)

KINDS: tuple[Literal["refused", "black_hole", "read_drop", "cut"], ...] = ("refused", "black_hole", "read_drop", "cut")
times = st.floats(0.01, 4.0, allow_nan=False)
services = st.builds(
    Service, first_token_s=st.floats(0.0, 0.5), token_gap_s=st.floats(0.0, 0.2), tokens=st.integers(1, 6)
)
loads = st.builds(
    lambda start_s, length_s, **fields: Load(start_s=start_s, end_s=start_s + length_s, **fields),
    start_s=st.floats(0.0, 2.0),
    length_s=st.floats(0.2, 2.0),
    rate_rps=st.floats(1.0, 40.0),
    arrivals=st.sampled_from(["even", "poisson"]),
    client=st.sampled_from(["raw", "openai"]),
    stream=st.booleans(),
    max_retries=st.integers(0, 3),
    timeout_s=st.floats(0.05, 5.0),
)
routers = st.builds(
    Router,
    connect_timeout_s=st.floats(0.05, 3.0),
    deadline_s=st.floats(0.1, 10.0),
    idle_timeout_s=st.floats(0.05, 1.0),
)


@st.composite
def faults_of(draw: st.DrawFn, pools: list[Pool]) -> tuple[Fault, ...]:
    """Draw at most one fault a pool."""
    found = []
    for pool in pools:
        kind = draw(st.none() | st.sampled_from(KINDS))
        if kind is not None:
            inject_s = draw(times)
            after = draw(st.integers(1, 4)) if kind == "cut" else None
            clear_s = inject_s + draw(times)
            found.append(Fault(kind=kind, pool=pool.id, inject_s=inject_s, clear_s=clear_s, after_events=after))
    return tuple(found)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    names = draw(st.integers(1, 3))
    pools = [Pool(id="abc"[n], frontends=draw(st.integers(1, 3)), service=draw(services)) for n in range(names)]
    return Scenario(
        name="drawn",
        title="A scenario that was drawn",
        seed=draw(st.integers(0, 2**63 - 1)),
        duration_s=10.0,
        pools=tuple(pools),
        load=tuple(draw(st.lists(loads, min_size=1, max_size=3))),
        faults=draw(faults_of(pools)),
        router=draw(routers),
        expect=Expect(answers={}),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_every_law_holds_in_any_scenario(scenario: Scenario) -> None:
    with TemporaryDirectory() as out:
        record = run(scenario, Path(out))
    verdicts = judge(record)
    # What is undecided had nothing to look at: no operation arrived, or nothing reached a pool.
    assert {name: verdicts[name] for name in LAWS if verdicts[name].state == "fail"} == {}
    assert_conserved(record)


def assert_conserved(record: Record) -> None:
    """Fresh + retries = answered + broken + left, and every send and every body is accounted for."""
    assert Counter(o.operation_id for o in record.operations) == Counter(p.operation_id for p in plan(record.scenario))
    assert sum(o.requests for o in record.operations) == len(record.requests)
    ends = Counter(r.end for r in record.requests)
    assert ends.keys() <= {"done", "reset", "timeout"}, "the model's router is always there"
    counted = {(m.name, *m.labels.values()): m.value for m in record.metrics}
    told = sum(value for (name, *_), value in counted.items() if name == "client_requests_total")
    assert told == len(record.requests)
    assert sum(value for (name, *_), value in counted.items() if name == "requests_total") == len(record.sends)
    kinds = Counter(e.kind for e in record.pool_events)
    taken = sum(s.slot_taken for s in record.sends)
    # A client may leave while its request is on the way to the pool: it arrives all the same.
    assert kinds["head"] == kinds["body_complete"] == taken
    dropped = taken - kinds["started"]
    assert kinds["started"] == kinds["finished"] + kinds["cancelled"]
    read_drops = [f for f in record.faults if f.name == "read_drop"]
    assert dropped == sum(int(f.proof.rsplit(" ", 1)[1]) for f in read_drops)
    for send in record.sends:
        assert send.t_start <= (send.t_connected or send.t_start) <= send.t_end
    for request in record.requests:
        assert request.t_start <= (request.t_headers or request.t_start) <= request.t_end
