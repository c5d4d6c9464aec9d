"""Retries while at least half of the tokens are there; failures take tokens away, successes bring them (gRPC).

From gRFC A6, `retryThrottling`: a retry itself costs nothing, so the budget is open or shut, and it shuts once more
than ratio / (1 + ratio) of the attempts fail.
"""

from dataclasses import dataclass

from router.core.budgets.retry_budget import MILLI, BudgetError, Call, Ending, milli


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcKnobs:
    """Knobs in the names of gRPC."""

    max_tokens: float = 10.0
    """Tokens at the start, and most tokens."""
    token_ratio: float = 0.1
    """Tokens that a success brings, in steps of 0.001; a failure takes one."""

    def __post_init__(self) -> None:
        for name, value in (("max_tokens", self.max_tokens), ("token_ratio", self.token_ratio)):
            if milli(name, value) == 0:
                raise BudgetError(f"{name} must be above 0, got {value:g}")


class Grpc:
    """Tokens, kept in thousandths."""

    __slots__ = ("_ratio", "_tokens", "_tokens_max")

    def __init__(self, knobs: GrpcKnobs) -> None:
        self._ratio = milli("token_ratio", knobs.token_ratio)
        self._tokens = self._tokens_max = milli("max_tokens", knobs.max_tokens)

    def deposit(self, _call: Call, _now: float) -> None:
        """Only how attempts end counts."""

    def try_withdraw(self, _call: Call, _now: float) -> bool:
        """Allow it above half of the tokens."""
        return 2 * self._tokens > self._tokens_max

    def ended(self, _call: Call, ending: Ending, _now: float) -> None:
        """Bring or take tokens; a departure does neither."""
        if ending is Ending.SUCCESS:
            self._tokens = min(self._tokens + self._ratio, self._tokens_max)
        elif ending is not Ending.LEFT:
            self._tokens = max(self._tokens - MILLI, 0)

    def balance(self, _now: float) -> float:
        """Return the tokens."""
        return self._tokens / MILLI
