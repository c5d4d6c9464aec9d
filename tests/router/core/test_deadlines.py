"""Two ends of one request: when its answer must have begun, and when it must have ended."""

import pytest

from router.core.bounds import Bounds, Limits
from router.core.chain import ChainBudget
from router.core.config import RouterConfig
from router.core.cooldown import Standing
from router.core.delivery import Cause, Outcome
from router.core.effects import End, Request, Send
from router.core.tally import Tally
from tests.router.core.playbook import START_S, policy_of, state_of


@pytest.mark.parametrize(
    ("headers", "within_s", "whole_within_s"),
    [
        ({}, float("inf"), float("inf")),
        ({"x-pooldrill-deadline-ms": "2000"}, 2.0, 2.0),
        ({"x-stainless-read-timeout": "2"}, 1.9, float("inf")),
        ({"x-stainless-read-timeout": "2", "x-pooldrill-deadline-ms": "5000"}, 1.9, 5.0),
        ({"x-stainless-read-timeout": "20", "x-pooldrill-deadline-ms": "5000"}, 5.0, 5.0),
    ],
)
def test_a_read_time_out_bounds_the_first_byte_and_a_deadline_the_last(
    headers: dict[str, str], within_s: float, whole_within_s: float
) -> None:
    chain = ChainBudget(headers)
    assert (chain.within_s, chain.whole_within_s) == (within_s, whole_within_s)


def test_a_send_carries_both() -> None:
    policy = policy_of("a")
    send = policy.decide(Request("m", START_S + 1.0, last_byte_until_s=START_S + 9.0))
    assert isinstance(send, Send)
    assert (send.until_s, send.last_byte_until_s) == (START_S + 1.0, START_S + 9.0)
    bounds = Bounds.of_send(Limits(RouterConfig()), send, START_S)
    assert (bounds.head_until_s, bounds.over_s) == (START_S + 1.0, START_S + 9.0)


def test_without_a_second_one_they_are_the_same() -> None:
    assert Request("m", START_S + 1.0).last_byte_until_s == START_S + 1.0


@pytest.mark.parametrize(
    ("end", "standing"),
    [
        (End.TOTAL, Standing.IN_USE),
        (End.DEADLINE, Standing.IN_USE),
        (End.IDLE, Standing.BENCHED),
        (End.BROKEN, Standing.BENCHED),
    ],
)
def test_a_bound_on_the_whole_answer_says_nothing_of_the_pool(end: End, standing: Standing) -> None:
    policy = policy_of("a", "b", config=RouterConfig(cooldown_failures=1))
    send = policy.decide(Request("m", START_S + 1.0))
    assert isinstance(send, Send)
    send.lease.handed_over()
    policy.observe(send, Outcome(slot_taken=True, status=200))
    policy.relayed(send, end)
    assert state_of(policy, send.lease.frontend.name).cooldown.standing is standing


def test_failed_sends_are_counted_by_pool_and_cause() -> None:
    tally = Tally()
    for cause in (Cause.IDLE_TIMEOUT, Cause.IDLE_TIMEOUT, Cause.LOST):
        tally.send_failed("a", cause)
    assert tally.failures == {("a", "idle"): 2, ("a", "lost"): 1}
