"""The failover rule as playbooks: what comes in, which effect goes out."""

import pytest

from router.core.config import RouterConfig
from router.core.delivery import Cause
from router.core.effects import End, Request
from router.core.policy import Policy
from tests.router.core.playbook import (
    LOST,
    REFUSED,
    START_S,
    ManualClock,
    after,
    answered,
    asked,
    policy_of,
    relay,
    replied,
    send,
    unknown,
    unsent,
    wait,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def policy(clock: ManualClock) -> Policy:
    config = RouterConfig(connect_timeout_s=5.0, deadline_s=30.0, patience_s=2.0)
    return policy_of("a", "b", "c", clock=clock, config=config)


def test_an_answer_is_passed_on(policy: Policy) -> None:
    assert asked(policy) << send("a-0") >> answered(200) << relay(200) >> End.COMPLETE << replied("answered", sends=1)


@pytest.mark.parametrize(
    "cause",
    [Cause.REFUSED, Cause.UNREACHABLE, Cause.CONNECT_TIMEOUT, Cause.NAME_LOOKUP, Cause.TLS, Cause.STALE, Cause.LOST],
)
def test_a_send_that_never_left_goes_to_another_pool_whatever_the_cause(policy: Policy, cause: Cause) -> None:
    assert (
        asked(policy)
        << send("a-0")
        >> unsent(cause)
        << send("b-0")
        >> answered(200)
        << relay(200)
        >> End.COMPLETE
        << replied("answered", sends=2)
    )


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Cause.LOST, "maybe_running"),
        (Cause.RESET, "maybe_running"),
        (Cause.PROTOCOL, "maybe_running"),
        (Cause.CONNECT_TIMEOUT, "maybe_running"),
        (Cause.REFUSED, "maybe_running"),
        (Cause.FIRST_BYTE_TIMEOUT, "pool_timeout"),
        (Cause.UPLOAD_TIMEOUT, "pool_timeout"),
        (Cause.TOTAL_TIMEOUT, "pool_timeout"),
        (Cause.DEADLINE, "pool_timeout"),
    ],
)
def test_what_a_pool_may_be_running_is_never_sent_again_whatever_the_cause(
    policy: Policy, cause: Cause, code: str
) -> None:
    assert asked(policy) << send("a-0") >> unknown(cause) << replied("maybe_sent", code=code, sends=1)


@pytest.mark.parametrize("status", [200, 307, 400, 404, 408, 429, 500, 502, 503, 504, 529])
def test_any_status_is_the_answer(policy: Policy, status: int) -> None:
    assert (
        asked(policy)
        << send("a-0")
        >> answered(status)
        << relay(status)
        >> End.COMPLETE
        << replied("answered", sends=1)
    )


@pytest.mark.parametrize("end", End)
def test_nothing_follows_a_relay_however_it_ends(policy: Policy, end: End) -> None:
    playbook = asked(policy) << send("a-0") >> answered(200) << relay(200) >> end << replied("answered", sends=1)
    assert playbook.reply.end is end


def test_at_most_two_sends(policy: Policy) -> None:
    assert (
        asked(policy)
        << send("a-0")
        >> REFUSED
        << send("b-0")
        >> REFUSED
        << replied("two_sends", code="pool_unreachable", sends=2)
    )


def test_a_second_send_that_may_be_running_is_told_as_such(policy: Policy) -> None:
    assert (
        asked(policy)
        << send("a-0")
        >> REFUSED
        << send("b-0")
        >> LOST
        << replied("maybe_sent", code="maybe_running", sends=2)
    )


def test_a_single_pool_with_many_frontends_is_one_fate() -> None:
    assert (
        asked(policy_of("a:3")) << send("a-0") >> REFUSED << replied("no_other_pool", code="pool_unreachable", sends=1)
    )


def test_a_spent_budget_forbids_the_failover(policy: Policy) -> None:
    request = Request("m", START_S + 30, retries_left=0)
    assert asked(policy, request) << send("a-0") >> REFUSED << replied("budget", code="budget_spent", sends=1)


def test_the_first_connect_leaves_half_of_the_deadline_to_the_second(policy: Policy, clock: ManualClock) -> None:
    assert (
        asked(policy, Request("m", START_S + 8))
        << send("a-0", connect_until_s=4, until_s=8)
        >> after(clock, 4, unsent(Cause.CONNECT_TIMEOUT))
        << send("b-0", connect_until_s=8, until_s=8)
        >> after(clock, 4, unsent(Cause.CONNECT_TIMEOUT))
        << replied("deadline", code="deadline", sends=2)
    )


def test_a_long_deadline_leaves_the_connect_its_own_bound(policy: Policy) -> None:
    assert (
        asked(policy)
        << send("a-0", connect_until_s=5, until_s=30)
        >> REFUSED
        << send("b-0", connect_until_s=5, until_s=30)
    )


def test_no_second_send_after_the_deadline(policy: Policy, clock: ManualClock) -> None:
    assert asked(policy) << send("a-0") >> after(clock, 30, REFUSED) << replied("deadline", code="deadline", sends=1)


def test_a_timer_that_fires_a_little_early_is_the_deadline_too(policy: Policy, clock: ManualClock) -> None:
    early = after(clock, 30 - 1e-9, unsent(Cause.DEADLINE))
    assert asked(policy) << send("a-0") >> early << replied("deadline", code="deadline", sends=1)


def test_no_first_send_after_the_deadline(policy: Policy) -> None:
    assert asked(policy, Request("m", START_S)) << replied("deadline", code="deadline", sends=0)


def test_a_request_waits_its_patience_then_hears_when_to_come_back(clock: ManualClock) -> None:
    assert (
        asked(policy_of("a!", clock=clock))
        << wait(2)
        >> after(clock, 1)
        << wait(2)
        >> after(clock, 1)
        << replied("no_pool", code="no_pool", sends=0)
    )


def test_a_deadline_shorter_than_the_patience_is_the_bound_that_is_named(clock: ManualClock) -> None:
    assert (
        asked(policy_of("a!", clock=clock), Request("m", START_S + 1))
        << wait(1)
        >> after(clock, 1)
        << replied("deadline", code="deadline", sends=0)
    )


def test_a_waiter_takes_what_a_change_brings(clock: ManualClock) -> None:
    policy = policy_of("a!", clock=clock)
    playbook = asked(policy) << wait(2)
    policy.publish(policy_of("a").catalog)
    assert playbook.woken == 1
    assert playbook >> None << send("a-0")
    assert policy.waiting == 0


def test_a_model_that_nobody_serves_is_not_waited_for() -> None:
    assert asked(policy_of("a=n", "b=n")) << replied("unknown_model", code="model_not_found", sends=0)


def test_before_any_pool_is_known_no_model_is_unknown(clock: ManualClock) -> None:
    assert asked(policy_of(clock=clock)) << wait(2)


def test_a_client_may_leave_at_every_effect(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock)
    for events in ([], [answered(200)]):
        playbook = asked(policy)
        for event in events:
            playbook >>= event
        assert policy.in_flight() == {"a": 1}
        playbook.close()
        assert policy.in_flight() == {"a": 0}
    policy.publish(policy_of("a!").catalog)
    playbook = asked(policy) << wait(2)
    assert policy.queue.count == 1
    playbook.close()
    assert policy.queue.count == 0
    assert policy.tally.client_requests == {("client_left", 1): 2, ("client_left", 0): 1}
    assert policy.tally.sends == {("a", "no_response"): 1, ("a", "2xx"): 1}


def test_effects_and_replies_show_their_state(policy: Policy, clock: ManualClock) -> None:
    playbook = asked(policy)
    assert repr(playbook.step) == "Send(a-0 #1)"
    assert repr((playbook >> answered(200)).step) == "Relay(200)"
    assert repr((playbook >> End.COMPLETE).step) == "<Reply answered sends=1>"
    assert repr(asked(policy_of("a!", clock=clock)).step) == "Wait(5002)"


def test_a_driver_that_answers_with_the_wrong_thing_is_told(policy: Policy) -> None:
    with pytest.raises(AssertionError, match="answered with an Outcome"):
        _ = asked(policy) >> None
    with pytest.raises(AssertionError, match="answered with an End"):
        _ = asked(policy) << send("b-0") >> answered(200) << relay(200) >> answered(200)
    assert set(policy.in_flight().values()) == {0}
