"""Retries in flight below a share of all that is active, on top of a floor (Envoy's `retry_budget`).

Active are the attempts under way, retries included, and what is still waiting for a connection; an attempt that has
ended is no longer active when its retry asks.
"""

from dataclasses import dataclass

from router.core.budgets.retry_budget import Call, Ending, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyKnobs:
    """Knobs in the names of Envoy."""

    budget_percent: float = 20.0
    """Most retries in flight, in percent of what is active."""
    min_retry_concurrency: int = 3
    """Retries in flight that are allowed whatever is active."""

    def __post_init__(self) -> None:
        at_least("budget_percent", self.budget_percent, 0)
        at_least("min_retry_concurrency", self.min_retry_concurrency, 0)


class Envoy:
    """Counts what is active, and how much of it are retries."""

    __slots__ = ("_floor", "_share", "active", "retries")

    def __init__(self, knobs: EnvoyKnobs) -> None:
        self._share = knobs.budget_percent / 100
        self._floor = knobs.min_retry_concurrency
        self.active = 0
        """Attempts under way."""
        self.retries = 0
        """How many of them are retries."""

    def deposit(self, _call: Call, _now: float) -> None:
        """Count a first attempt."""
        self.active += 1

    def try_withdraw(self, call: Call, _now: float) -> bool:
        """Count a retry, if fewer than allowed are under way."""
        if self.retries >= self._retries_max():
            return False
        call.retries += 1
        self.active += 1
        self.retries += 1
        return True

    def ended(self, call: Call, _ending: Ending, _now: float) -> None:
        """Take an attempt out of the counts; every attempt of a call but its first is a retry."""
        self.active -= 1
        self.retries -= call.retries > 0

    def balance(self, _now: float) -> float:
        """Return how many more retries could be under way now."""
        return self._retries_max() - self.retries

    def _retries_max(self) -> int:
        return max(int(self._share * self.active), self._floor)
