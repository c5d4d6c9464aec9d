"""Kinds of faults that people who run such routers have reported; tests/field_reports.md has the list and its sources.

What other playbooks show already stays there; here are the kinds that had none named after them.
"""

import random
from itertools import pairwise

import pytest

from router.core.config import RouterConfig, Selection
from router.core.delivery import Cause
from router.core.effects import PROBE_OK, End, Relay, Send, Wait
from router.core.health import HealthConfig, HealthTable, ProbeOutcome
from router.core.policy import build_policy
from router.core.topology import Catalog
from tests.router.core.playbook import (
    LOST,
    REFUSED,
    START_S,
    ManualClock,
    after,
    answer_all,
    answered,
    asked,
    bench,
    connect,
    policy_of,
    pools,
    probe,
    relay,
    replied,
    send,
    state_of,
    trials,
    unknown,
    unsent,
    wait,
)

HUNG = unsent(Cause.CONNECT_TIMEOUT)
SILENT = unknown(Cause.FIRST_BYTE_TIMEOUT)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


# ---- sent again


def test_a_long_request_that_a_read_timeout_ended_is_not_posted_again(clock: ManualClock) -> None:
    policy = policy_of("a", "b", clock=clock)
    assert (
        asked(policy) << send("a-0") >> after(clock, 480, SILENT) << replied("maybe_sent", code="pool_timeout", sends=1)
    )
    assert policy.tally.failovers == {}
    assert policy.tally.failovers_refused == {"maybe_sent": 1}


def test_a_silent_route_costs_one_deadline_and_not_one_for_each_try(clock: ManualClock) -> None:
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(deadline_s=30.0))
    playbook = asked(policy) << send("a-0", until_s=30)
    assert playbook >> after(clock, 30, unknown(Cause.DEADLINE)) << replied("maybe_sent", code="pool_timeout", sends=1)
    assert clock.now_s == START_S + 30


@pytest.mark.parametrize("outcome", [REFUSED, HUNG, answered(503), LOST], ids=str)
def test_an_hour_of_outage_lets_no_request_outlive_its_deadline_or_make_a_third_send(
    clock: ManualClock, outcome: object
) -> None:
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(deadline_s=5.0, connect_timeout_s=1.0))
    while clock.now_s < START_S + 3600:
        began_s, playbook = clock.now_s, asked(policy)
        while isinstance(playbook.step, Send | Wait | Relay):
            match playbook.step:
                case Wait() as waiting:
                    clock.now_s = waiting.until_s
                    playbook >>= None
                case Relay():
                    playbook >>= End.COMPLETE
                case Send() as sent:
                    clock.now_s = sent.connect_until_s if outcome is HUNG else clock.now_s + 0.01
                    playbook >>= outcome
        assert playbook.reply.sends <= 2
        assert clock.now_s <= began_s + 5
        clock.now_s += 20


def test_an_overload_that_is_told_by_status_is_not_answered_with_more_load() -> None:
    policy = policy_of("a", "b")
    for status in (429, 500, 503, 529):
        playbook = asked(policy)
        assert playbook >> answered(status) << relay(status) >> End.COMPLETE << replied("answered", sends=1)
    assert sum(policy.tally.sends.values()) == 4


# ---- who gets the second send, and the next request


def test_a_session_whose_pool_is_dead_is_not_sent_there_again_by_the_same_request(clock: ManualClock) -> None:
    policy = policy_of("a:8", "b", clock=clock, config=RouterConfig(cooldown_failures=1000))
    assert asked(policy, session="s") << send("a-0") >> answered(200) >> End.COMPLETE << replied("answered", sends=1)
    assert asked(policy, session="s") << send("a-1") >> REFUSED << send("b-0") >> answered(200) << relay(200)


def test_a_session_of_a_dead_pool_moves_at_once_and_stays_where_it_landed_when_the_pool_is_back() -> None:
    policy = policy_of("a", "b")
    assert asked(policy, session="s") << send("a-0") >> answered(200) >> End.COMPLETE << replied("answered", sends=1)
    assert asked(policy, session="s") << send("a-0") >> REFUSED << send("b-0") >> answered(200) >> End.COMPLETE
    assert all(asked(policy, session="s").sent_to.name == "b-0" for _ in range(5))


def test_which_pool_works_is_remembered_and_not_found_out_anew_by_every_request() -> None:
    policy = policy_of("a", "b", config=RouterConfig(selection=Selection.PRIMARY_BACKUP, primary="a"))
    assert asked(policy) << send("a-0") >> SILENT << replied("maybe_sent", code="pool_timeout", sends=1)
    assert answer_all(policy, 50) == {"b-0": 50}


# ---- cooldown


def test_a_lone_frontend_is_benched_too_where_another_pool_could_help() -> None:
    chosen = answer_all(policy_of("a", "b"), 100, dead=["a-0"])
    assert chosen["a-0"] == RouterConfig().cooldown_failures


@pytest.mark.parametrize("traffic", [True, False])
def test_a_quarantine_ends_by_the_clock_with_or_without_traffic(clock: ManualClock, *, traffic: bool) -> None:
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(cooldown_s=5.0, slow_start_s=0.0))
    bench(policy, "a-0")
    background = trials(policy) << wait(5)
    clock.now_s += 5
    if traffic:
        assert answer_all(policy, 10) == {"b-0": 10}, "no user's request is the trial"
    assert background >> None << connect("a-0", 5.25) >> None << probe("a-0", 10) >> PROBE_OK
    assert answer_all(policy, 10) == {"a-0": 5, "b-0": 5}


def test_after_a_good_trial_nothing_is_left_of_the_bench(clock: ManualClock) -> None:
    """One state, not a key that expires beside a flag that stays: the pools take turns again, a failure fails over."""
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(cooldown_s=5.0, slow_start_s=0.0))
    answer_all(policy, 10, dead=["a-0"])
    background = trials(policy)
    assert background >> after(clock, 5) >> None >> PROBE_OK
    firsts = [asked(policy).sent_to.name for _ in range(6)]
    assert all(one != next_one for one, next_one in pairwise(firsts))
    assert asked(policy) << send(firsts[0]) >> REFUSED << send(firsts[1])


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_mistakes_of_clients_take_no_pool_out(status: int) -> None:
    policy = policy_of("a", "b")
    for _ in range(40):
        _ = asked(policy) >> answered(status) >> End.COMPLETE
    assert answer_all(policy, 2) == {"a-0": 1, "b-0": 1}


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_full_queue_is_no_fault_and_opens_no_breaker(status: int) -> None:
    policy = policy_of("a", "b")
    for _ in range(40):
        _ = asked(policy) >> answered(status) >> End.COMPLETE
    assert not state_of(policy, "a-0").wary
    assert answer_all(policy, 2) == {"a-0": 1, "b-0": 1}


def test_half_open_lets_one_probe_in_and_not_everybody_who_waits(clock: ManualClock) -> None:
    config = RouterConfig(cooldown_s=5.0, patience_s=30.0, trial_pause_s=0.5, trials_max=4)
    policy = policy_of("a", clock=clock, config=config)
    bench(policy, "a-0")
    clock.now_s += 1
    waiting = [asked(policy) << wait(31) for _ in range(50)]
    loops = [trials(policy) for _ in range(4)]
    assert loops[0] << connect("a-0", 1.25) >> None << probe("a-0", 6)
    assert all(isinstance(loop.step, Wait) for loop in loops[1:]), "one permit"
    assert policy.in_flight() == {"a": 0}, "no user's request is the probe"
    loops[0].close()
    assert loops[1] >> after(clock, 0.5) << connect("a-0", 1.75), "a cancelled trial gives its permit back"
    assert all(isinstance(playbook.step, Wait) for playbook in waiting)


def test_when_every_pool_fails_the_last_ones_are_tried_at_once_and_who_asks_waits(clock: ManualClock) -> None:
    policy = policy_of("a", "b", "c", clock=clock, config=RouterConfig(cooldown_s=50.0, slow_start_s=0.0))
    bench(policy, "a-0", "b-0", "c-0")
    playbook = asked(policy) << wait(2)
    background = trials(policy) << connect("a-0", 0.25)
    assert background >> None << probe("a-0", 5) >> PROBE_OK
    assert playbook.woken
    assert playbook >> None << send("a-0")


def test_good_probes_do_not_keep_a_pool_whose_sends_fail(clock: ManualClock) -> None:
    table = HealthTable(HealthConfig(required=True))
    catalog = Catalog(pools("a", "b"))
    table.publish(catalog, clock.now_s)
    policy = build_policy(RouterConfig(), clock, random.Random(7), catalog, ready=table.ready)
    for check in table.checks():
        for _ in range(3):
            table.answered(check, ProbeOutcome.OK, clock.now_s)
    policy.ready_changed()
    chosen = answer_all(policy, 40, dead=["a-0"], refusal=unknown(Cause.RESET))
    assert chosen == {"a-0": 3, "b-0": 37}
    assert table.of(next(iter(catalog.pools[0].frontends))).state == "healthy"


# ---- what a refused client is told


def test_a_client_hears_when_to_come_back_where_an_overload_outlasts_its_retries(clock: ManualClock) -> None:
    policy = policy_of(
        "a", clock=clock, config=RouterConfig(cooldown_s=60.0, cooldown_s_max=60.0, retry_after_spread_s=5.0)
    )
    bench(policy, "a-0")
    playbook = asked(policy) << wait(2) >> after(clock, 2) << replied("no_pool", code="no_pool", sends=0)
    assert playbook.reply.retry_after_s is not None
    assert 58 <= playbook.reply.retry_after_s < 63


def test_no_client_is_parked_for_longer_than_the_longest_rest_and_the_spread(clock: ManualClock) -> None:
    config = RouterConfig(cooldown_s=5.0, cooldown_s_max=60.0, retry_after_spread_s=5.0)
    policy = policy_of("a", clock=clock, config=config)
    told = []
    bench(policy, "a-0")
    background = trials(policy)
    for _ in range(12):
        told.append(policy.retry_after_s("m"))
        clock.now_s = state_of(policy, "a-0").cooldown.until_s
        _ = background >> None >> Cause.REFUSED
    assert all(1 <= seconds < 65 for seconds in told)
    assert max(told) > 60, "the rest has doubled to its bound"


# ---- health and isolation


@pytest.mark.parametrize("reason", [ProbeOutcome.GENERATE_FAILED, ProbeOutcome.MODEL_MISSING, ProbeOutcome.EMPTY_LIST])
def test_a_model_that_is_listed_but_does_not_answer_gets_no_requests(clock: ManualClock, reason: ProbeOutcome) -> None:
    table = HealthTable(HealthConfig(required=True, probe_generates=True))
    catalog = Catalog(pools("a=m", "b=m"))
    table.publish(catalog, clock.now_s)
    policy = build_policy(RouterConfig(), clock, random.Random(7), catalog, ready=table.ready)
    for check in table.checks():
        for _ in range(3):
            table.answered(check, reason if check.frontend.pool == "a" else ProbeOutcome.OK, clock.now_s)
    policy.ready_changed()
    assert answer_all(policy, 10) == {"b-0": 10}


def test_health_checks_that_fail_under_load_do_not_take_the_only_pool_away(clock: ManualClock) -> None:
    table = HealthTable(HealthConfig())
    catalog = Catalog(pools("a"))
    table.publish(catalog, clock.now_s)
    policy = build_policy(RouterConfig(), clock, random.Random(7), catalog, ready=table.ready)
    for check in table.checks():
        for _ in range(10):
            table.answered(check, ProbeOutcome.TIMEOUT, clock.now_s)
    policy.ready_changed()
    assert answer_all(policy, 10) == {"a-0": 10}


def test_a_pool_that_swallows_requests_holds_up_nobody_at_the_others(clock: ManualClock) -> None:
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(in_flight_max=20))
    swallowed = []
    for _ in range(100):
        playbook = asked(policy)
        assert isinstance(playbook.step, Send), "nobody waits"
        playbook.step.lease.handed_over()
        if playbook.sent_to.pool == "a":
            swallowed.append(playbook)
        else:
            _ = playbook >> answered(200) >> End.COMPLETE
    assert len(swallowed) == 20
    assert policy.in_flight() == {"a": 20, "b": 0}


# ---- counting


def test_a_send_that_was_never_answered_is_no_success() -> None:
    policy = policy_of("a", config=RouterConfig(cooldown=False))
    for outcome in (REFUSED, HUNG, LOST, SILENT):
        _ = asked(policy) >> outcome
    assert policy.tally.sends == {("a", "no_response"): 4}
    assert {code for code, _ in policy.tally.client_requests} == {
        "pool_unreachable", "maybe_running", "pool_timeout",
    }  # fmt: skip


def test_a_hundred_streams_that_broke_leave_nothing_in_flight_also_where_the_pool_left_meanwhile() -> None:
    policy = policy_of("a", "b", config=RouterConfig(cooldown=False))
    running = [asked(policy) >> answered(200) << relay(200) for _ in range(100)]
    assert policy.in_flight() == {"a": 50, "b": 50}
    policy.publish(Catalog(pools("b")))
    policy.publish(Catalog(pools("a", "b")))
    for playbook in running:
        _ = playbook >> End.BROKEN
        assert min(policy.in_flight().values()) >= 0
    assert policy.in_flight() == {"a": 0, "b": 0}


def test_requests_and_sends_are_counted_apart_and_their_sums_agree() -> None:
    policy = policy_of("a", "b", "c")
    answer_all(policy, 200, dead=["a-0"])
    for outcome in (LOST, answered(500), answered(200)):
        playbook = asked(policy) >> outcome
        playbook.close()
    tally = policy.tally
    assert sum(sends * count for (_, sends), count in tally.client_requests.items()) == sum(tally.sends.values())
    twice = sum(count for (_, sends), count in tally.client_requests.items() if sends == 2)
    assert twice == sum(tally.failovers.values()) > 0
