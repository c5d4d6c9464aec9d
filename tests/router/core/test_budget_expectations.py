"""Attempts a call that theory expects of each budget, from a small simulation in pure code with fixed seeds."""

import itertools
import random
from collections import deque

import pytest

from router.core.budgets.adaptive import Adaptive, AdaptiveKnobs
from router.core.budgets.aws import Aws, AwsKnobs
from router.core.budgets.envoy import Envoy, EnvoyKnobs
from router.core.budgets.fixed import Fixed, FixedKnobs
from router.core.budgets.gateway_api import GatewayApi, GatewayApiKnobs
from router.core.budgets.grpc import Grpc, GrpcKnobs
from router.core.budgets.retry_budget import Call, Ending, RetryBudget
from router.core.budgets.token_bucket import DepositOn, TokenBucket, TokenBucketKnobs
from router.core.budgets.window import Window, WindowKnobs

CALLS = 100_000


def attempts_a_call(
    budget: RetryBudget, failing: float, *, retries_max: int = 3, rate: float = 100.0, calls: int = CALLS, seed: int = 1
) -> float:
    """Make calls one after the other, `rate` a second, each attempt failing with a chance; returns the mean."""
    dice = random.Random(seed)
    attempts = 0
    for number in range(calls):
        now, call = number / rate, Call()
        budget.deposit(call, now)
        for retry in itertools.count():
            attempts += 1
            failed = dice.random() < failing
            budget.ended(call, Ending.FAILURE if failed else Ending.SUCCESS, now)
            if not failed or retry >= retries_max or not budget.try_withdraw(call, now):
                break
    return attempts / calls


def layered_sends(layers: tuple[int, ...], failing: float, dice: random.Random) -> tuple[int, bool]:
    """Make one call through layers of fixed budgets, outermost first; returns the sends and whether it went well."""
    if not layers:
        return 1, dice.random() >= failing
    budget, call, sends = Fixed(FixedKnobs(max_retries=layers[0])), Call(), 0
    while True:
        more, well = layered_sends(layers[1:], failing, dice)
        sends += more
        if well or not budget.try_withdraw(call, 0.0):
            return sends, well


@pytest.mark.parametrize(("failing", "expected"), [(0.1, 1.11111), (0.5, 1.99951), (0.9, 7.17570), (1.0, 12.0)])
def test_layers_of_retries_multiply(failing: float, expected: float) -> None:
    dice = random.Random(3)
    calls = 1000 if failing == 1.0 else CALLS
    mean = sum(layered_sends((3, 2), failing, dice)[0] for _ in range(calls)) / calls
    assert mean == pytest.approx(expected, rel=0 if failing == 1.0 else 0.005)


@pytest.mark.parametrize(("layers", "sends"), [((2, 2, 2, 2, 2), 243), ((3, 3, 3), 64)])
def test_deep_layers_multiply_exactly(layers: tuple[int, ...], sends: int) -> None:
    assert layered_sends(layers, 1.0, random.Random(1)) == (sends, False)


@pytest.mark.parametrize("failing", [0.2, 0.5, 1.0])
def test_a_deposit_for_each_call_bounds_the_attempts_by_its_ratio(failing: float) -> None:
    bucket = TokenBucket(TokenBucketKnobs(ratio=0.1))
    assert attempts_a_call(bucket, failing) == pytest.approx(1.1, rel=0.005)


@pytest.mark.parametrize(("failing", "expected"), [(0.5, 1.05263), (0.9, 1.01010)])
def test_a_deposit_for_each_success_allows_less_the_more_fails(failing: float, expected: float) -> None:
    bucket = TokenBucket(TokenBucketKnobs(deposit_on=DepositOn.SUCCESS, ratio=0.1))
    assert attempts_a_call(bucket, failing) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize(("failing", "expected"), [(0.02, 1.0204), (0.2, 1.0)])
def test_grpc_throttling_is_open_below_its_threshold_and_shut_above(failing: float, expected: float) -> None:
    assert attempts_a_call(Grpc(GrpcKnobs()), failing) == pytest.approx(expected, rel=0.005)


def test_grpc_throttling_shuts_at_exactly_half_of_the_tokens() -> None:
    budget, call = Grpc(GrpcKnobs(max_tokens=4)), Call()
    allowed = []
    for _ in range(3):
        budget.ended(call, Ending.FAILURE, 0.0)
        allowed.append(budget.try_withdraw(call, 0.0))
    assert allowed == [True, False, False]


@pytest.mark.parametrize(
    ("knobs", "price"), [(AwsKnobs(), 5), (AwsKnobs.of_2026(), 14)], ids=["before 1.44", "from 1.44"]
)
def test_an_aws_quota_sells_retries_for_successes(knobs: AwsKnobs, price: int) -> None:
    # Each clean success brings 1, each retry that fails takes its price: with p = 0.9 the quota is always empty.
    failing = 0.9
    mean = attempts_a_call(Aws(knobs), failing, retries_max=9)
    assert mean == pytest.approx(1 + (1 - failing) / (price * failing), rel=0.01)


@pytest.mark.parametrize("rate", [1000.0, 100.0, 20.0])
def test_a_window_allows_its_ratio_and_its_floor(rate: float) -> None:
    mean = attempts_a_call(Window(WindowKnobs()), 1.0, retries_max=25, rate=rate, calls=int(200 * rate))
    assert mean == pytest.approx(1 + 0.2 + 10 / rate, rel=0.01)


def test_a_share_of_what_is_active_bounds_envoys_attempts() -> None:
    # A thousand calls under way at all times, all failing: retries are a fifth of all attempts, so 1 / (1 - 0.2).
    budget, calls, retries = Envoy(EnvoyKnobs()), 0, 0
    under_way: deque[Call] = deque()
    for step in range(60_000):
        while len(under_way) < 1000:
            under_way.append(call := Call())
            budget.deposit(call, 0.0)
            calls += step >= 20_000  # what comes before is the way to the steady state
        budget.ended(call := under_way.popleft(), Ending.FAILURE, 0.0)
        if budget.try_withdraw(call, 0.0):
            retries += step >= 20_000
            under_way.append(call)
    assert (calls + retries) / calls == pytest.approx(1 / (1 - 0.2), rel=0.01)


def test_envoys_floor_leaves_a_small_service_three_retries() -> None:
    budget = Envoy(EnvoyKnobs())
    calls = [Call() for _ in range(4)]
    for call in calls:
        budget.deposit(call, 0.0)
        budget.ended(call, Ending.FAILURE, 0.0)
    assert [budget.try_withdraw(call, 0.0) for call in calls] == [True, True, True, False]


def test_the_gateway_apis_percent_is_of_all_requests() -> None:
    mean = attempts_a_call(GatewayApi(GatewayApiKnobs(min_retry_rate_count=0)), 1.0, retries_max=25, rate=1000.0)
    assert mean == pytest.approx(1 / (1 - 0.2), rel=0.01)


@pytest.mark.parametrize(("percent", "offered"), [(0, 10.0), (0, 50.0)])
def test_the_gateway_apis_least_rate_holds_whatever_is_asked(percent: int, offered: float) -> None:
    budget = GatewayApi(GatewayApiKnobs(percent=percent, min_retry_rate_count=5))
    mean = attempts_a_call(budget, 1.0, retries_max=25, rate=offered, calls=int(offered * 400))
    assert mean == pytest.approx(1 + 5 / offered, rel=0.02)


@pytest.mark.parametrize("times", [3, 10])
def test_adaptive_throttling_sends_twice_what_is_accepted(times: int) -> None:
    # The far side accepts 100 a second, in bursts of at most 10; every attempt asks at the gate.
    budget, per_s = Adaptive(AdaptiveKnobs(), random.Random(7)), 100
    offered, sent, accepted, room = per_s * times, 0, 0, 0.0
    for number in range(offered * 600):
        now, call = number / offered, Call()
        room = min(10.0, room + 1 / times)
        measured = now >= 240  # after two whole windows
        if not budget.try_withdraw(call, now):
            continue
        sent += measured
        if room >= 1.0 - 1e-9:
            room -= 1.0
            accepted += measured
            budget.ended(call, Ending.SUCCESS, now)
        else:
            budget.ended(call, Ending.THROTTLED, now)
    seconds = 600 - 240
    assert sent / seconds == pytest.approx(2.0 * per_s, rel=0.01)
    assert accepted / seconds == pytest.approx(1.0 * per_s, rel=0.01)
