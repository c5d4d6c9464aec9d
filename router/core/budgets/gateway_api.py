"""Retries below a share of all requests of an interval, on top of a least rate (Gateway API, GEP-3388).

Requests are all attempts of the interval, retries included: "200 of 1000 may be retries" at 20 percent.
"""

from dataclasses import dataclass

from router.core.budgets.retry_budget import Call, Ending, at_least, positive_s
from router.core.budgets.sliding import SlidingSum


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayApiKnobs:
    """Knobs in the names of `retryConstraint`: budget {percent, interval} and minRetryRate {count, interval}."""

    percent: int = 20
    """Most retries, in percent of the requests of the interval."""
    interval_s: float = 10.0
    """How long a request counts."""
    min_retry_rate_count: int = 10
    """Retries that are allowed in each `min_retry_rate_interval_s` whatever the requests."""
    min_retry_rate_interval_s: float = 1.0
    """Length over which the least rate is counted."""

    def __post_init__(self) -> None:
        at_least("percent", self.percent, 0)
        positive_s("interval_s", self.interval_s)
        at_least("min_retry_rate_count", self.min_retry_rate_count, 0)
        positive_s("min_retry_rate_interval_s", self.min_retry_rate_interval_s)


class GatewayApi:
    """Requests and retries of late."""

    __slots__ = ("_floor", "_floor_retries", "_percent", "_requests", "_retries")

    def __init__(self, knobs: GatewayApiKnobs) -> None:
        self._percent = knobs.percent
        self._floor = knobs.min_retry_rate_count
        self._requests = SlidingSum(knobs.interval_s)
        self._retries = SlidingSum(knobs.interval_s)
        self._floor_retries = SlidingSum(knobs.min_retry_rate_interval_s)

    def deposit(self, _call: Call, now: float) -> None:
        """Count a first attempt."""
        self._requests.add(1, now)

    def try_withdraw(self, _call: Call, now: float) -> bool:
        """Count a retry, if the share or the least rate allows it."""
        if self.balance(now) <= 0:
            return False
        for counted in (self._requests, self._retries, self._floor_retries):
            counted.add(1, now)
        return True

    def ended(self, _call: Call, _ending: Ending, _now: float) -> None:
        """Nothing is learned."""

    def balance(self, now: float) -> float:
        """Return how far retries are below the more generous of both bounds; 0 or less: none is allowed."""
        by_share = self._percent * self._requests.sum(now) / 100 - self._retries.sum(now)
        return max(by_share, self._floor - self._floor_retries.sum(now))
