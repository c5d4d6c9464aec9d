"""Trials: background connects and probes that bring the benched back, one permit each."""

import pytest

from router.core.config import RouterConfig
from router.core.cooldown import Standing
from router.core.delivery import Cause
from router.core.effects import Connect, Failed, Fetch
from router.core.in_flight import FrontendState
from router.core.policy import Policy
from router.core.topology import Catalog
from router.core.trials import NEVER
from tests.router.core.playbook import (
    ManualClock,
    after,
    asked,
    bench,
    connect,
    policy_of,
    pools,
    probe,
    replied,
    send,
    state_of,
    trials,
    wait,
)

KNOBS = RouterConfig(
    connect_timeout_s=5.0,
    cooldown_s=5.0,
    patience_s=2.0,
    slow_start_s=0.0,
    trial_pause_s=0.5,
    trial_probe_timeout_s=1.0,
    trials_max=2,
    retry_after_spread_s=4.0,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def policy(clock: ManualClock) -> Policy:
    return policy_of("a", "b", "c", clock=clock, config=KNOBS)


def test_a_rest_ends_with_a_cheap_connect_and_a_probe(policy: Policy, clock: ManualClock) -> None:
    loop = trials(policy) << wait(NEVER)
    bench(policy, "a-0")
    assert loop.woken == 1
    assert (
        loop
        >> None
        << wait(5)
        >> after(clock, 5)
        << connect("a-0", 5.25)
        >> after(clock, 0.1)
        << probe("a-0", 6.1)
        >> "ok"
        << wait(NEVER)
    )
    assert state_of(policy, "a-0").cooldown.standing is Standing.IN_USE


def test_a_failed_connect_benches_for_longer_without_a_probe(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "a-0")
    assert trials(policy) << wait(5) >> after(clock, 5) << connect("a-0", 5.25) >> Cause.REFUSED << wait(15)
    assert state_of(policy, "a-0").cooldown.reason == "trial failed: refused"


@pytest.mark.parametrize("answer", ["timeout", "status", "empty_list", None, True])
def test_any_answer_but_ok_fails_the_trial(policy: Policy, clock: ManualClock, answer: object) -> None:
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 6) >> answer << wait(15)
    assert state_of(policy, "a-0").cooldown.reason == f"trial failed: probe: {answer}"


@pytest.mark.parametrize("stop_at_probe", [False, True])
def test_a_loop_that_stops_gives_its_permit_back(policy: Policy, clock: ManualClock, stop_at_probe: bool) -> None:
    bench(policy, "a-0")
    clock.now_s += 5
    first = trials(policy) << connect("a-0", 5.25)
    if stop_at_probe:
        assert first >> None << probe("a-0", 6)
    second = trials(policy) << wait(NEVER)
    first.close()
    assert second.woken == 1
    assert second >> None << connect("a-0", 5.25)


def test_a_loop_that_stops_while_idle_is_no_longer_woken(policy: Policy) -> None:
    loop = trials(policy) << wait(NEVER)
    loop.close()
    bench(policy, "a-0")
    assert loop.woken == 0


def test_loops_side_by_side_try_different_frontends_up_to_the_bound(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "b-0", "a-0")
    clock.now_s += 5
    policy.publish(Catalog(pools("a", "b", "c", "d")))
    loops = [trials(policy) << connect("a-0", 5.25), trials(policy) << connect("b-0", 5.25)]
    bench(policy, "c-0")
    clock.now_s += 5
    loops.append(trials(policy) << wait(NEVER))
    loops[0].close()
    assert loops[2].woken == 1
    assert loops[2] >> None << connect("a-0", 10.25)


def test_where_nothing_is_usable_one_is_tried_at_a_time(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "a-0", "b-0", "c-0")
    clock.now_s += 5
    first = trials(policy) << connect("a-0", 5.25)
    second = trials(policy) << wait(NEVER)
    assert first >> Cause.REFUSED << connect("b-0", 5.25)
    assert second >> None << wait(NEVER)
    assert first >> None << probe("b-0", 6) >> "ok" << connect("c-0", 5.25)
    assert second >> None << wait(15), "a is due then, and b is usable"


def test_while_requests_wait_the_benched_are_tried_before_their_rest_is_over(
    policy: Policy, clock: ManualClock
) -> None:
    bench(policy, "a-0", "b-0", "c-0")
    loop = trials(policy) << wait(5)
    request = asked(policy) << wait(2)
    assert loop.woken == 1
    assert loop >> None << connect("a-0", 0.25) >> Cause.REFUSED << connect("b-0", 0.25)
    assert loop >> None << probe("b-0", 1) >> "timeout" << connect("c-0", 0.25) >> Cause.REFUSED << wait(0.5)
    assert loop >> after(clock, 0.5) << connect("a-0", 0.75) >> None << probe("a-0", 1.5) >> "ok"
    assert request.woken == 1
    assert request >> None << send("a-0")
    assert {s.cooldown.until_s for n, s in _states(policy) if n != "a-0"} == {5005.0}, "an early failure costs nothing"


def _states(policy: Policy) -> list[tuple[str, FrontendState]]:
    return [(frontend.name, state) for frontend, state in policy.roster.states.items()]


def test_requests_that_wait_for_room_wake_no_trial(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=RouterConfig(in_flight_max=1))
    loop, first = trials(policy) << wait(NEVER), asked(policy) << send("a-0")
    second = asked(policy) << wait(2)
    assert (first.woken, second.woken, loop.woken) == (0, 0, 0)


def test_a_refused_client_is_told_the_rest_of_the_cooldown_and_a_spread(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "a-0")
    clock.now_s += 1
    bench(policy, "b-0", "c-0")
    waits = []
    for _ in range(50):
        playbook = asked(policy)
        clock.now_s += 2
        playbook = playbook >> None << replied("no_pool", code="no_pool", sends=0)
        assert playbook.reply.retry_after_s is not None
        waits.append(playbook.reply.retry_after_s)
        clock.now_s -= 2
    # a rests until 5; it is now 3.
    assert 2.0 <= min(waits) < 2.4
    assert 5.6 < max(waits) < 6.0


def test_everything_benched_is_an_alarm_raised_once_and_cleared_once(policy: Policy, clock: ManualClock) -> None:
    events: list[tuple[str, str, str, float | None]] = []
    policy.alarms.on_event = lambda a: events.append((a.kind, a.about, a.detail, a.cleared_s))
    bench(policy, "a-0", "b-0")
    assert events == []
    bench(policy, "c-0")
    raised = ("everything_benched", "", "3 benched, a-0: a connect hung for 5 s")
    assert events == [(*raised, None)]
    clock.now_s += 5
    loop = trials(policy) << connect("a-0", 5.25) >> Cause.REFUSED << connect("b-0", 5.25)
    assert len(events) == 1, "neither a trial nor its failure is news"
    assert loop >> None << probe("b-0", 6) >> "ok"
    assert events == [(*raised, None), (*raised, clock.now_s)]


def test_an_alarm_about_a_model_ends_with_its_pools(clock: ManualClock) -> None:
    policy = policy_of("a=m", "b=n", clock=clock, config=KNOBS)
    bench(policy, "a-0")
    assert [(alarm.about, policy.alarms.count(alarm.kind)) for alarm in policy.alarms.raised()] == [("m", 1)]
    policy.publish(Catalog(pools("b=n")))
    assert policy.alarms.raised() == ()


def test_a_trial_of_a_frontend_that_left_ends_quietly(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "a-0")
    clock.now_s += 5
    loop = trials(policy) << connect("a-0", 5.25)
    policy.publish(Catalog(pools("b")))
    assert loop >> None << probe("a-0", 6) >> "ok" << wait(NEVER)
    assert asked(policy) << send("b-0")


def test_an_effect_shows_what_is_tried(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "a-0")
    clock.now_s += 5
    loop = trials(policy)
    assert isinstance(loop.step, Connect)
    assert [repr(loop.step), repr((loop >> None).step)] == ["Connect(a-0)", "Probe(a-0)"]
    assert [repr(Fetch("pools", 1.0)), repr(Failed("timeout"))] == ["Fetch(pools)", "<Failed timeout>"]
