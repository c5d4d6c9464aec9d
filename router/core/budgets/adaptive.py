"""Refuse by chance, the more likely the more the far side has refused (SRE book, "Handling Overload").

Over the last two minutes: requests = all that were wanted, those refused here included; accepts = those that succeeded.
One is refused with the chance max(0, (requests - K * accepts) / (requests + 1)). Used as a gate for every attempt it
lets about K times as much through as the far side accepts.
"""

from dataclasses import dataclass

from router.core.budgets.retry_budget import Call, Ending, at_least, positive_s
from router.core.budgets.sliding import SlidingSum
from router.core.random_source import RandomSource


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveKnobs:
    """Knobs of adaptive throttling."""

    k: float = 2.0
    """How many times as much as is accepted goes out; 1 or more."""
    window_s: float = 120.0
    """How long requests and accepts count."""

    def __post_init__(self) -> None:
        at_least("k", self.k, 1)
        positive_s("window_s", self.window_s)


class Adaptive:
    """What was wanted and what was accepted of late."""

    __slots__ = ("_accepts", "_k", "_requests", "_rng")

    def __init__(self, knobs: AdaptiveKnobs, rng: RandomSource) -> None:
        self._k = knobs.k
        self._rng = rng
        self._requests = SlidingSum(knobs.window_s)
        self._accepts = SlidingSum(knobs.window_s)

    def deposit(self, _call: Call, now: float) -> None:
        """Count a first attempt that goes out unasked."""
        self._requests.add(1, now)

    def try_withdraw(self, _call: Call, now: float) -> bool:
        """Let an attempt through, or refuse it by chance; it was wanted either way."""
        allowed = self._rng.random() >= self.refusal_chance(now)
        self._requests.add(1, now)
        return allowed

    def ended(self, _call: Call, ending: Ending, now: float) -> None:
        """Count what was accepted."""
        if ending is Ending.SUCCESS:
            self._accepts.add(1, now)

    def balance(self, now: float) -> float:
        """Return the chance that an attempt is let through now."""
        return 1 - self.refusal_chance(now)

    def refusal_chance(self, now: float) -> float:
        """Return the chance that an attempt is refused now."""
        requests, accepts = self._requests.sum(now), self._accepts.sum(now)
        return max(0.0, (requests - self._k * accepts) / (requests + 1))
