"""Closed forms against numbers that were published, or found by an independent simulation of events."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.budgets.aws import AwsKnobs
from router.core.budgets.kinds import budget_of, knobs_of
from router.core.budgets.retry_budget import Call, Ending
from scenarios.theory.amplification import (
    Traffic,
    binding_rate_rps,
    burst_retries,
    floor_retries,
    mean_amplification,
    worst_amplification,
)
from scenarios.theory.attempts import attempts_product, capped, expected_attempts, expected_success
from scenarios.theory.latency import (
    Patience,
    exponential_sleeps_s,
    worst_by_layer_s,
    worst_first_request_s,
    worst_under_cap_s,
)
from scenarios.theory.queueing import (
    always_safe_utilisation,
    backlog,
    drain_s,
    queue_bound,
    recovery_s,
    utilisation_without_largest,
)

ANY = Traffic()


@pytest.mark.parametrize(("failure_p", "attempts"), [(0.1, 1.11111), (0.5, 1.99951), (0.9, 7.17570), (1.0, 12)])
def test_nested_layers_telescope(failure_p: float, attempts: float) -> None:
    assert expected_attempts(failure_p, attempts_product([3, 2])) == pytest.approx(attempts, rel=1e-5)


@pytest.mark.parametrize(
    ("failure_p", "attempts", "success"), [(0.1, 1.11, 0.999), (0.5, 1.75, 0.875), (0.9, 2.71, 0.271), (1.0, 3, 0.0)]
)
def test_a_cap_bounds_the_whole_chain(failure_p: float, attempts: float, success: float) -> None:
    n = capped(attempts_product([3, 2]), 2)
    assert expected_attempts(failure_p, n) == pytest.approx(attempts)
    assert expected_success(failure_p, n) == pytest.approx(success)


def test_deep_stacks_multiply() -> None:
    assert attempts_product([2] * 5) == 243
    assert attempts_product([3] * 3) == 64
    assert attempts_product([2, 2, 4]) == 45
    assert attempts_product([]) == 1


@given(st.lists(st.integers(0, 3), max_size=3), st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_the_product_law_is_what_nested_loops_do(retries: list[int], failure_p: float, seed: int) -> None:
    """The bound that no run may pass, and the mean of many."""
    draws = Random(seed)
    sends = 0

    def layer(depth: int) -> bool:
        nonlocal sends
        if depth == len(retries):
            sends += 1
            return draws.random() >= failure_p
        return any(layer(depth + 1) for _ in range(retries[depth] + 1))

    before = 0
    for _ in range(50):
        layer(0)
        assert sends - before <= attempts_product(retries)
        before = sends


@pytest.mark.parametrize(
    ("budget", "failure_p", "attempts_max", "rate_rps", "expected"),
    [
        ("token_bucket:ratio=0.1", 0.2, 4, None, 1.1),
        ("token_bucket:ratio=0.1", 1.0, 4, None, 1.1),
        ("token_bucket:ratio=0.1,deposit_on=success", 0.5, 4, None, 1.05263),
        ("token_bucket:ratio=0.1,deposit_on=success", 0.9, 4, None, 1.01010),
        ("grpc", 0.02, 4, None, 1.0204),
        ("grpc", 0.2, 4, None, 1.0),
        ("window", 1.0, 26, 1000, 1.21),
        ("window", 1.0, 26, 100, 1.30),
        ("window", 1.0, 26, 20, 1.70),
        ("window", 1.0, 26, 5, 3.2),
        ("none", 0.05, 4, None, 1.0526),
        ("none", 0.2, 4, None, 1.248),
        ("none", 0.75, 4, None, 2.7344),
        ("fixed:max_retries=1", 1.0, 12, None, 2.0),
        ("gateway_api", 1.0, 4, 1000, 1.25),
        ("gateway_api", 1.0, 4, 10, 2.0),
        ("aws", 0.5, 3, None, 1.2),
        ("aws", 1.0, 3, None, 1.0),
    ],
)
def test_mean_amplification_by_kind(
    budget: str, failure_p: float, attempts_max: int, rate_rps: float | None, expected: float
) -> None:
    traffic = Traffic(rate_rps=rate_rps)
    got = mean_amplification(knobs_of(budget), failure_p=failure_p, attempts_max=attempts_max, traffic=traffic)
    assert got == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("budget", "traffic", "expected"),
    [
        ("none", ANY, 4),
        ("token_bucket:ratio=0.1", ANY, 1.1),
        ("token_bucket:ratio=0.1,deposit_on=success", ANY, 1.1),
        ("grpc", ANY, 1.1),
        ("window", ANY, 4),
        ("window", Traffic(rate_rps=20), 1.7),
        ("envoy", Traffic(rate_rps=20), 4),
        ("envoy", Traffic(rate_rps=20, attempt_s=1.0), 1.25),
        ("envoy", Traffic(rate_rps=2, attempt_s=1.0), 2.5),
        ("adaptive", ANY, 4),
        ("adaptive", Traffic(rate_rps=30, capacity_rps=30), 2),
    ],
)
def test_worst_amplification_of_four_attempts(budget: str, traffic: Traffic, expected: float) -> None:
    got = worst_amplification(knobs_of(budget), attempts_max=4, traffic=traffic)
    assert got == pytest.approx(expected, rel=0.01)


def test_the_quota_of_aws_is_worst_where_retries_still_pay_for_themselves() -> None:
    old = worst_amplification(knobs_of("aws"), attempts_max=3, traffic=ANY)
    new = worst_amplification(knobs_of("aws-2026"), attempts_max=3, traffic=ANY)
    assert (round(old, 2), round(new, 2)) == (1.42, 1.26)
    assert burst_retries(AwsKnobs()) == 100
    assert burst_retries(AwsKnobs.of_2026()) == 35


def test_a_floor_counts_for_each_budget_by_itself() -> None:
    """Finagle's default at 5 operations a second allows two retries each: its share of 20 % says nothing."""
    window = knobs_of("window")
    assert floor_retries(window, Traffic(rate_rps=5)) == 2.0
    assert floor_retries(window, ANY) == math.inf
    assert floor_retries(knobs_of("token_bucket"), ANY) == 0
    assert binding_rate_rps(window, attempts_max=3, traffic=ANY) == pytest.approx(10 / 1.8)
    assert binding_rate_rps(knobs_of("gateway_api"), attempts_max=3, traffic=ANY) == pytest.approx(5)
    assert binding_rate_rps(knobs_of("envoy"), attempts_max=3, traffic=Traffic(attempt_s=0.5)) == pytest.approx(3)
    assert binding_rate_rps(knobs_of("window:retry_ratio=3"), attempts_max=3, traffic=ANY) == math.inf
    assert binding_rate_rps(knobs_of("token_bucket"), attempts_max=3, traffic=ANY) == 0


def test_the_closed_form_of_a_window_is_what_the_budget_does() -> None:
    """One call in 50 ms for 100 s, all attempts fail, at most 25 retries each."""
    budget = budget_of("window", Random(1))
    assert budget is not None
    attempts = 0
    for turn in range(2000):
        now, call = turn * 0.05, Call()
        budget.deposit(call, now)
        attempts += 1
        for _ in range(25):
            budget.ended(call, Ending.FAILURE, now)
            if not budget.try_withdraw(call, now):
                break
            attempts += 1
    assert attempts / 2000 == pytest.approx(1.70, rel=0.07), "100 s hold eleven windows of 10 s at its edges"


def test_the_longest_wait_of_the_drill_article() -> None:
    """SDK 3 x gateway 2 retries, every connect hangs for 1.5 s: 12 time-outs and 3.5 s of sleep, twice the SDK's."""
    sdk = Patience(retries=3, attempt_timeout_s=600, sleeps_s=exponential_sleeps_s(0.5, 8, 3))
    gateway = Patience(retries=2, attempt_timeout_s=1.5)
    assert sdk.sleeps_s == (0.5, 1.0, 2.0)
    assert worst_first_request_s([sdk, gateway]) == pytest.approx(21.5)
    assert worst_by_layer_s([sdk, gateway]) == pytest.approx([21.5, 4.5])
    assert worst_first_request_s([Patience(), Patience(retries=1, attempt_timeout_s=1.5)]) == pytest.approx(3.0)


def test_deadlines_bound_what_time_outs_add_up_to() -> None:
    assert worst_first_request_s([Patience(deadline_s=5), Patience(retries=9, attempt_timeout_s=1)]) == 5
    assert worst_first_request_s([Patience(attempt_timeout_s=2, retries=1), Patience(retries=9)]) == 4
    assert worst_first_request_s([Patience()]) == math.inf
    assert worst_first_request_s([Patience(retries=1)], hang_s=3) == 6
    assert worst_first_request_s([], hang_s=3) == 3


def test_a_connect_that_hangs_has_a_time_out_of_its_own() -> None:
    sdk = Patience(retries=2, attempt_timeout_s=600, connect_timeout_s=5, sleeps_s=exponential_sleeps_s(0.5, 8, 2))
    assert worst_first_request_s([sdk]) == pytest.approx(3 * 5 + 0.5 + 1.0)
    assert worst_under_cap_s([sdk], [True], 1) == [pytest.approx(2 * 5 + 0.5)]
    shorter = Patience(attempt_timeout_s=3, connect_timeout_s=5)
    assert worst_first_request_s([shorter]) == 3


def test_a_cap_over_the_chain_bounds_the_wait_too() -> None:
    """Two re-sends in all: one by the gateway, one by the SDK after its first sleep."""
    sdk = Patience(retries=2, attempt_timeout_s=600, sleeps_s=(0.5, 1.0))
    gateway = Patience(retries=1, attempt_timeout_s=1.5)
    assert worst_under_cap_s([sdk, gateway], [True, True], 2) == pytest.approx([5.0, 3.0])
    assert worst_under_cap_s([sdk, gateway], [True, True], 99) == pytest.approx(worst_by_layer_s([sdk, gateway]))
    assert worst_under_cap_s([sdk, gateway], [False, False], 0) == pytest.approx(worst_by_layer_s([sdk, gateway]))
    assert worst_under_cap_s([sdk, gateway], [False, True], 1) == pytest.approx([3 + 1.5 + 1.5 + 1.5, 3.0])
    assert worst_under_cap_s([sdk], [True], 0, hang_s=7) == [7]


def test_a_million_retries_take_no_time_to_add_up() -> None:
    endless = Patience(retries=10**6, attempt_timeout_s=1, sleeps_s=exponential_sleeps_s(1, 2, 10**6, factor=10))
    assert worst_first_request_s([endless]) == 10**6 + 1 + 1 + 2 * (10**6 - 1)
    assert worst_under_cap_s([endless, endless], [False, False], 2)[1] == worst_first_request_s([endless])
    assert worst_under_cap_s([endless, endless], [True, True], 2)[0] == 1 + (1 + 1) + (2 + 1)


def test_three_attempts_of_an_sdk_on_a_silent_route() -> None:
    """A read time-out of 30 s was 91 s for the user."""
    sdk = Patience(retries=2, attempt_timeout_s=30, sleeps_s=exponential_sleeps_s(0.5, 8, 2))
    assert worst_first_request_s([sdk]) == pytest.approx(91.5)


def test_safe_utilisation() -> None:
    assert always_safe_utilisation(12) == pytest.approx(0.083, abs=5e-4)
    assert always_safe_utilisation(3) == pytest.approx(0.333, abs=5e-4)
    assert always_safe_utilisation(1.1) == pytest.approx(0.909, abs=5e-4)


def test_recovery_in_closed_form() -> None:
    waiting = backlog(120, 2, 10)
    assert waiting == 2400
    took = recovery_s(waiting=waiting, capacity_rps=300, timeout_s=1, rate_rps=120, amplification=2)
    assert took == pytest.approx(35)
    assert recovery_s(waiting=9, capacity_rps=300, timeout_s=1, rate_rps=280, amplification=2) == 0
    assert recovery_s(waiting=5600, capacity_rps=300, timeout_s=1, rate_rps=280, amplification=2) == math.inf
    slow = recovery_s(waiting=280 * 1.05 * 10, capacity_rps=300, timeout_s=1, rate_rps=280, amplification=1.05)
    assert slow == pytest.approx(440)


def test_a_spike_drains() -> None:
    assert drain_s(rate_rps=90, spike_rps=200, spike_s=10, capacity_rps=100) == pytest.approx(100)
    assert drain_s(rate_rps=90, spike_rps=95, spike_s=10, capacity_rps=100) == 0
    assert drain_s(rate_rps=100, spike_rps=200, spike_s=10, capacity_rps=100) == math.inf


def test_bounds_of_queues_and_of_pools() -> None:
    assert queue_bound(300, 1.0) == 300
    assert utilisation_without_largest([100, 100], 150) == pytest.approx(1.5)
    assert utilisation_without_largest([100, 50, 50], 90) == pytest.approx(0.9)
    assert utilisation_without_largest([100], 10) == math.inf
