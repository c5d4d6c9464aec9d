"""So many retries for each call, whatever happens to other calls: layers of these multiply."""

from dataclasses import dataclass

from router.core.budgets.retry_budget import Call, Ending, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedKnobs:
    """Knobs of a fixed number of retries."""

    max_retries: int = 2
    """Retries after the first attempt; 0: none."""

    def __post_init__(self) -> None:
        at_least("max_retries", self.max_retries, 0)


class Fixed:
    """A fixed number of retries a call."""

    __slots__ = ("_retries_max",)

    def __init__(self, knobs: FixedKnobs) -> None:
        self._retries_max = knobs.max_retries

    def deposit(self, _call: Call, _now: float) -> None:
        """Nothing is shared between calls."""

    def try_withdraw(self, call: Call, _now: float) -> bool:
        """Allow it while the call has made fewer retries than it may."""
        allowed = call.retries < self._retries_max
        call.retries += allowed
        return allowed

    def ended(self, _call: Call, _ending: Ending, _now: float) -> None:
        """Nothing is learned."""

    def balance(self, _now: float) -> float:
        """Return the retries of a fresh call."""
        return self._retries_max
