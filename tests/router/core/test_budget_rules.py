# ruff: noqa: ARG002  # every statement is told the same, whether its rule needs it or not
"""Every kind of retry budget equals, after each of 10,000 random calls, a direct statement of its rule.

The statements know nothing of the budgets: they keep the whole history, or exact fractions, and say the rule in a line.
"""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

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

STEPS = 10_000


class Told:
    """One call as an onlooker sees it: which retries it made, and how its attempts ended."""

    def __init__(self) -> None:
        self.call = Call()
        self.retries = 0
        self.endings: list[Ending] = []
        self.under_way = True


class Statement(Protocol):
    """A rule, told of everything that happened; `may` says whether a retry is allowed, `left` what is left."""

    def began(self, told: Told, now: float) -> None: ...
    def retried(self, told: Told, now: float) -> None: ...
    def refused(self, told: Told, now: float) -> None: ...
    def ended(self, told: Told, now: float) -> None: ...
    def may(self, told: Told, now: float) -> bool: ...
    def left(self, now: float) -> float: ...


class Says:
    """A statement that is told of nothing yet."""

    def began(self, told: Told, now: float) -> None: ...
    def retried(self, told: Told, now: float) -> None: ...
    def refused(self, told: Told, now: float) -> None: ...
    def ended(self, told: Told, now: float) -> None: ...


class SaysFixed(Says):
    def may(self, told: Told, now: float) -> bool:
        return told.retries < 3

    def left(self, now: float) -> float:
        return 3


class SaysBucket(Says):
    """Tokens: never more than 5; +1/10 for each call or success; -1 for each retry."""

    def __init__(self, *, on_call: bool) -> None:
        self.on_call = on_call
        self.tokens = Fraction(2)

    def began(self, told: Told, now: float) -> None:
        self.tokens = min(Fraction(5), self.tokens + Fraction(1, 10) * self.on_call)

    def ended(self, told: Told, now: float) -> None:
        good = not self.on_call and told.endings[-1] is Ending.SUCCESS
        self.tokens = min(Fraction(5), self.tokens + Fraction(1, 10) * good)

    def retried(self, told: Told, now: float) -> None:
        self.tokens -= 1

    def may(self, told: Told, now: float) -> bool:
        return self.tokens >= 1

    def left(self, now: float) -> float:
        return float(self.tokens)


def _within(times: list[float], now: float, window_s: float) -> int:
    """Count the times in the tenth of a window that `now` is in and in the nine before it."""
    tenth_s = window_s / 10
    while times and now // tenth_s - times[0] // tenth_s >= 10:
        times.pop(0)
    return len(times)


class SaysWindow(Says):
    """Within the last 4 s: calls / 5 - retries + 4 s x 0.5/s."""

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.retries: list[float] = []

    def began(self, told: Told, now: float) -> None:
        self.calls.append(now)

    def retried(self, told: Told, now: float) -> None:
        self.retries.append(now)

    def may(self, told: Told, now: float) -> bool:
        return self._left(now) >= 1

    def left(self, now: float) -> float:
        return float(self._left(now))

    def _left(self, now: float) -> Fraction:
        return Fraction(_within(self.calls, now, 4.0), 5) - _within(self.retries, now, 4.0) + Fraction(4, 2)


class SaysEnvoy(Says):
    """Retries under way < max(40 % of attempts under way, 2)."""

    def __init__(self) -> None:
        self.calls: list[Told] = []

    def began(self, told: Told, now: float) -> None:
        self.calls.append(told)

    def may(self, told: Told, now: float) -> bool:
        return self.left(now) > 0

    def left(self, now: float) -> float:
        active = [told for told in self.calls if told.under_way]
        retries = sum(1 for told in active if told.retries)
        return max(len(active) * 2 // 5, 2) - retries


class SaysGrpc(Says):
    """From 10 tokens: +0.1 a success up to 10, -1 a failure down to 0; retries above 5."""

    def __init__(self) -> None:
        self.tokens = Fraction(10)

    def ended(self, told: Told, now: float) -> None:
        if told.endings[-1] is Ending.SUCCESS:
            self.tokens = min(Fraction(10), self.tokens + Fraction(1, 10))
        elif told.endings[-1] is not Ending.LEFT:
            self.tokens = max(Fraction(0), self.tokens - 1)

    def may(self, told: Told, now: float) -> bool:
        return self.tokens > 5

    def left(self, now: float) -> float:
        return float(self.tokens)


class SaysAws(Says):
    """From 60: a price by what failed; a success brings back the last price, or 1 if nothing was paid; 3 attempts."""

    def __init__(self, cost: int, timeout: int, throttling: int) -> None:
        self.prices = {Ending.FAILURE: cost, Ending.TIMEOUT: timeout, Ending.THROTTLED: throttling}
        self.tokens = 60
        self.last_price: dict[Told, int] = {}

    def retried(self, told: Told, now: float) -> None:
        price = self._price(told)
        self.tokens -= price
        self.last_price[told] = price

    def ended(self, told: Told, now: float) -> None:
        if told.endings[-1] is Ending.SUCCESS:
            self.tokens = min(60, self.tokens + self.last_price.get(told, 1))

    def may(self, told: Told, now: float) -> bool:
        return len(told.endings) < 3 and self._price(told) <= self.tokens

    def left(self, now: float) -> float:
        return self.tokens

    def _price(self, told: Told) -> int:
        return self.prices.get(told.endings[-1], self.prices[Ending.FAILURE])


class SaysAdaptive(Says):
    """Refuse with max(0, (requests - 2 accepts) / (requests + 1)) of the last 6 s; the dice are thrown here too."""

    def __init__(self) -> None:
        self.requests: list[float] = []
        self.accepts: list[float] = []
        self.dice = random.Random(5)

    def began(self, told: Told, now: float) -> None:
        self.requests.append(now)

    def retried(self, told: Told, now: float) -> None:
        self.requests.append(now)

    def refused(self, told: Told, now: float) -> None:
        self.requests.append(now)

    def ended(self, told: Told, now: float) -> None:
        if told.endings[-1] is Ending.SUCCESS:
            self.accepts.append(now)

    def may(self, told: Told, now: float) -> bool:
        return self.dice.random() >= 1 - self.left(now)

    def left(self, now: float) -> float:
        requests, accepts = _within(self.requests, now, 6.0), _within(self.accepts, now, 6.0)
        return 1 - max(0.0, (requests - 2 * accepts) / (requests + 1))


class SaysGatewayApi(Says):
    """Retries of 5 s < 30 % of requests of 5 s, or fewer than 1 retry within 2 s."""

    def __init__(self) -> None:
        self.requests: list[float] = []
        self.retries: list[float] = []
        self.late_retries: list[float] = []

    def began(self, told: Told, now: float) -> None:
        self.requests.append(now)

    def retried(self, told: Told, now: float) -> None:
        for times in (self.requests, self.retries, self.late_retries):
            times.append(now)

    def may(self, told: Told, now: float) -> bool:
        share = Fraction(30, 100) * _within(self.requests, now, 5.0)
        return _within(self.retries, now, 5.0) < share or _within(self.late_retries, now, 2.0) < 1

    def left(self, now: float) -> float:
        share = Fraction(30, 100) * _within(self.requests, now, 5.0) - _within(self.retries, now, 5.0)
        return float(max(share, Fraction(1 - _within(self.late_retries, now, 2.0))))


def bucket(deposit_on: DepositOn) -> TokenBucket:
    return TokenBucket(TokenBucketKnobs(deposit_on=deposit_on, ratio=0.1, tokens_max=5, tokens_start=2))


def gateway_api() -> GatewayApi:
    return GatewayApi(
        GatewayApiKnobs(percent=30, interval_s=5.0, min_retry_rate_count=1, min_retry_rate_interval_s=2.0)
    )


Made = Callable[[], tuple[RetryBudget, Statement]]
KINDS: dict[str, Made] = {
    "fixed": lambda: (Fixed(FixedKnobs(max_retries=3)), SaysFixed()),
    "token bucket per call": lambda: (bucket(DepositOn.CALL), SaysBucket(on_call=True)),
    "token bucket per success": lambda: (bucket(DepositOn.SUCCESS), SaysBucket(on_call=False)),
    "window": lambda: (Window(WindowKnobs(retry_ratio=0.2, min_retries_per_second=0.5, ttl_s=4.0)), SaysWindow()),
    "envoy": lambda: (Envoy(EnvoyKnobs(budget_percent=40, min_retry_concurrency=2)), SaysEnvoy()),
    "grpc": lambda: (Grpc(GrpcKnobs()), SaysGrpc()),
    "aws": lambda: (Aws(AwsKnobs(quota=60)), SaysAws(5, 10, 5)),
    "aws 2026": lambda: (
        Aws(AwsKnobs(quota=60, retry_cost=14, timeout_cost=14, throttling_cost=5)),
        SaysAws(14, 14, 5),
    ),
    "adaptive": lambda: (Adaptive(AdaptiveKnobs(window_s=6.0), random.Random(5)), SaysAdaptive()),
    "gateway api": lambda: (gateway_api(), SaysGatewayApi()),
}


def compare(made: Made, seed: int = 1, steps: int = STEPS) -> tuple[int, int]:
    """Call a budget at random and compare it with its statement each time; returns how often it said yes and no."""
    budget, statement = made()
    draws, now, said = random.Random(seed), 1000.0, [0, 0]
    calls: list[Told] = []
    for step in range(steps):
        now += draws.choice((0.0, 0.01, 0.1, draws.expovariate(2.0)))
        idle = [told for told in calls if not told.under_way]
        busy = [told for told in calls if told.under_way]
        # Bad and good times in turn, so that every budget is both empty and full now and then.
        good = draws.random() < (0.98 if step // 500 % 2 else 0.2)
        what = draws.random()
        if (what < 0.3 and len(calls) < 25) or not calls:
            calls.append(told := Told())
            budget.deposit(told.call, now)
            statement.began(told, now)
        elif what < 0.6 and busy:
            told = draws.choice(busy)
            ending = Ending.SUCCESS if good else draws.choice(list(Ending))
            told.under_way = False
            told.endings.append(ending)
            budget.ended(told.call, ending, now)
            statement.ended(told, now)
            if ending is Ending.SUCCESS:
                calls.remove(told)
        elif idle:
            told = max(draws.choices(idle, k=3), key=lambda one: one.retries)
            expected = statement.may(told, now)
            assert budget.try_withdraw(told.call, now) == expected, f"step {step}"
            said[expected] += 1
            if expected:
                told.retries += 1
                told.under_way = True
                statement.retried(told, now)
            else:
                statement.refused(told, now)
                calls.remove(told)
        assert math.isclose(budget.balance(now), statement.left(now), abs_tol=1e-9), f"step {step}"
    return said[True], said[False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_equals_its_rule_after_every_call(kind: str) -> None:
    yes, no = compare(KINDS[kind])
    assert min(yes, no) > 50, "both answers must have been tried often"
