"""A share of the calls of the last seconds, on top of a floor for services with few calls (Finagle, Linkerd, tower).

Deposits and withdrawals both expire after `ttl_s`, in tenths of it; so the floor is there again in every window.
"""

from dataclasses import dataclass

from router.core.budgets.retry_budget import MILLI, Call, Ending, milli, positive_s
from router.core.budgets.sliding import SlidingSum


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKnobs:
    """Knobs of a window, in the names of Linkerd."""

    retry_ratio: float = 0.2
    """Retries for each call of the window, in steps of 0.001."""
    min_retries_per_second: float = 10.0
    """Retries a second that are allowed whatever the calls."""
    ttl_s: float = 10.0
    """How long a deposit counts."""

    def __post_init__(self) -> None:
        milli("retry_ratio", self.retry_ratio)
        milli("min_retries_per_second", self.min_retries_per_second)
        positive_s("ttl_s", self.ttl_s)


class Window:
    """Deposits and withdrawals of the last seconds."""

    __slots__ = ("_deposit", "_reserve", "_tokens")

    def __init__(self, knobs: WindowKnobs) -> None:
        self._deposit = milli("retry_ratio", knobs.retry_ratio)
        self._reserve = int(milli("min_retries_per_second", knobs.min_retries_per_second) * knobs.ttl_s)
        self._tokens = SlidingSum(knobs.ttl_s)

    def deposit(self, _call: Call, now: float) -> None:
        """Add what a call is worth."""
        self._tokens.add(self._deposit, now)

    def try_withdraw(self, _call: Call, now: float) -> bool:
        """Take a retry out of the window, if its sum and the floor have it."""
        if self._left(now) < MILLI:
            return False
        self._tokens.add(-MILLI, now)
        return True

    def ended(self, _call: Call, _ending: Ending, _now: float) -> None:
        """Nothing is learned."""

    def balance(self, now: float) -> float:
        """Return the retries that could be made now."""
        return self._left(now) / MILLI

    def _left(self, now: float) -> int:
        return self._tokens.sum(now) + self._reserve
