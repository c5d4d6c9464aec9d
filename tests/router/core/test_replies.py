"""What forwarding a request says of itself: the reply, the tally, and when a refused client may come back."""

import pytest

from router.core.config import RouterConfig
from router.core.effects import End
from tests.router.core.playbook import (
    LOST,
    REFUSED,
    ManualClock,
    after,
    answered,
    asked,
    bench,
    policy_of,
    relay,
    replied,
    send,
    wait,
)


def test_a_reply_has_the_outcome_of_the_last_send() -> None:
    policy = policy_of("a", "b")
    assert asked(policy).step is not None
    answer = answered(200)
    assert (asked(policy) >> REFUSED >> answer >> End.COMPLETE).reply.outcome is answer
    assert (asked(policy) >> REFUSED >> LOST).reply.outcome is LOST
    assert asked(policy_of("a=n"), model="m").reply.outcome is None


def test_each_request_is_counted_once_by_what_it_was_told_and_its_sends() -> None:
    policy = policy_of("a", "b", config=RouterConfig(cooldown=False))
    _ = asked(policy) >> answered(200) >> End.COMPLETE
    _ = asked(policy) >> answered(503) >> End.BROKEN
    _ = asked(policy) >> REFUSED >> answered(200) >> End.COMPLETE
    _ = asked(policy) >> LOST
    _ = asked(policy) >> REFUSED >> REFUSED
    assert policy.tally.client_requests == {
        ("200", 1): 1, ("503", 1): 1, ("200", 2): 1, ("maybe_running", 1): 1, ("pool_unreachable", 2): 1,
    }  # fmt: skip


def test_the_rest_of_a_cooldown_is_that_of_the_model_that_was_asked_for() -> None:
    clock = ManualClock()
    config = RouterConfig(cooldown_s=50.0, retry_after_min_s=1.0, retry_after_spread_s=0.0)
    policy = policy_of("a=m", "b=n", clock=clock, config=config)
    bench(policy, "a-0")
    playbook = asked(policy, model="m") << wait(2) >> after(clock, 2) << replied("no_pool", code="no_pool", sends=0)
    assert playbook.reply.retry_after_s == 48


@pytest.mark.parametrize("refusal", ["two_sends", "maybe_sent", "unknown_model"])
def test_who_need_not_wait_for_a_pool_is_not_told_to_come_back_later(refusal: str) -> None:
    policy = policy_of("a=m", "b=m")
    playbook = asked(policy, model="x" if refusal == "unknown_model" else "m")
    if refusal == "maybe_sent":
        playbook >>= LOST
    elif refusal == "two_sends":
        _ = playbook >> REFUSED >> REFUSED
    assert playbook.reply.reason == refusal
    assert playbook.reply.retry_after_s is None


def test_an_answer_is_no_refusal() -> None:
    playbook = asked(policy_of("a")) << send("a-0") >> answered(429) << relay(429) >> End.COMPLETE
    assert (playbook.reply.code, playbook.reply.retry_after_s) == (None, None)
