"""Edges of the policy: what it hands on to its parts, word by word and exactly at its bounds."""

import pytest

from router.core.chain import WhenUnknown
from router.core.config import RouterConfig
from router.core.cooldown import Standing
from router.core.delivery import Cause, Delivery
from router.core.effects import End, Request, Send
from tests.router.core.playbook import (
    REFUSED,
    START_S,
    ManualClock,
    after,
    answered,
    asked,
    policy_of,
    send,
    state_of,
    unsent,
)

BENCHED_AFTER = 3


def test_a_bench_says_how_the_last_send_failed() -> None:
    policy = policy_of("a", "b", config=RouterConfig(cooldown_failures=BENCHED_AFTER))
    for _ in range(2 * BENCHED_AFTER):
        playbook = asked(policy)
        playbook >>= REFUSED if playbook.sent_to.name == "a-0" else answered(200)
        playbook.close()
    assert state_of(policy, "a-0").cooldown.reason == "3 failures in a row, the last: refused"


@pytest.mark.parametrize(
    ("on_5xx", "standing", "reason"),
    [(True, Standing.BENCHED, "3 failures in a row, the last: 500"), (False, Standing.IN_USE, "")],
)
def test_whether_a_status_is_a_failure_is_a_knob(on_5xx: bool, standing: Standing, reason: str) -> None:
    policy = policy_of("a", config=RouterConfig(cooldown_failures=BENCHED_AFTER, cooldown_on_5xx=on_5xx))
    for _ in range(BENCHED_AFTER):
        _ = asked(policy) >> answered(500) >> End.COMPLETE
    cooldown = state_of(policy, "a-0").cooldown
    assert (cooldown.standing, cooldown.reason) == (standing, reason)


def test_first_and_second_sends_turn_cursors_of_their_own_over_the_frontends_too() -> None:
    policy = policy_of("a:2", "b:2", config=RouterConfig(cooldown=False))
    assert asked(policy) << send("a-0") >> REFUSED << send("b-0")
    assert asked(policy) << send("b-0")


@pytest.mark.parametrize(("more_s", "wary"), [(0.0, False), (0.01, True)])
def test_a_connect_bounded_exactly_where_it_would_be_suspect_says_nothing(*, more_s: float, wary: bool) -> None:
    clock = ManualClock()
    config = RouterConfig(connect_slow_s=0.25)
    policy = policy_of("a", "b", clock=clock, config=config)
    bound_s = 0.25 + more_s
    playbook = asked(policy, Request("m", START_S + 2 * bound_s)) << send("a-0", connect_until_s=bound_s)
    _ = playbook >> after(clock, bound_s, unsent(Cause.CONNECT_TIMEOUT))
    assert state_of(policy, "a-0").wary is wary


@pytest.mark.parametrize("shape", [("a",), ()])
def test_where_nothing_rests_the_least_time_is_told(shape: tuple[str, ...]) -> None:
    policy = policy_of(*shape, config=RouterConfig(retry_after_min_s=0.25, retry_after_spread_s=0.0))
    assert policy.retry_after_s("m") == 0.25


def test_a_budget_of_failovers_has_the_clock_and_the_source_of_chance() -> None:
    clock = ManualClock()
    config = RouterConfig(cooldown=False, failover_budget="adaptive:window_s=10")
    policy = policy_of("a", "b", clock=clock, config=config)
    assert policy.budget is not None
    for _ in range(50):
        playbook = asked(policy) >> after(clock, 0.01, REFUSED)
        if isinstance(playbook.step, Send):
            playbook >>= REFUSED
    assert policy.tally.failovers_refused["budget"] > 0
    assert policy.budget.balance(clock.now_s) < 0.2
    for _ in range(50):
        _ = asked(policy) >> answered(200) >> End.COMPLETE
    assert policy.budget.balance(clock.now_s) > 0.4
    clock.now_s += 20
    assert policy.budget.balance(clock.now_s) == 1


def test_what_is_left_of_the_chain_is_read_by_the_knobs_of_the_configuration() -> None:
    knobs = RouterConfig(chain_retries_max=3, failover_spends=True, when_unknown=WhenUnknown.LEAVE_TO_CLIENT)
    policy = policy_of("a", config=knobs)
    chain = policy.chain_of({"x-stainless-retry-count": "1", "x-envoy-attempt-count": "soon"})
    assert (chain.spent, chain.left) == (1, 2)
    assert chain.left_after(2) == 1
    assert dict(chain.headers_out(Delivery.UNKNOWN, sends=1)) == {"x-pooldrill-retries-left": "2"}
    assert policy.tally.headers_ignored == {"x-envoy-attempt-count": 1}


def test_the_chain_is_strict_where_the_configuration_is() -> None:
    chain = policy_of("a").chain_of({})
    assert chain.left_after(2) == chain.left == RouterConfig().chain_retries_max
    assert dict(chain.headers_out(Delivery.UNKNOWN, sends=1))["x-should-retry"] == "false"
