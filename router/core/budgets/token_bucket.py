"""A bucket of tokens: every call, or every success, puts a fraction of a token in, and a retry takes one out.

With a deposit of r for each call the attempts of a long failure are 1 + r a call (SRE book: 10 %); with a deposit for
each success they fall towards 1 the more fails (M. Brooker).
"""

from dataclasses import dataclass
from enum import StrEnum

from router.core.budgets.retry_budget import MILLI, BudgetError, Call, Ending, milli


class DepositOn(StrEnum):
    """What fills the bucket."""

    CALL = "call"
    SUCCESS = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucketKnobs:
    """Knobs of a token bucket."""

    deposit_on: DepositOn = DepositOn.CALL
    """What fills the bucket: every call, or every attempt that succeeds."""
    ratio: float = 0.1
    """Tokens of one deposit, in steps of 0.001; a retry costs one token."""
    tokens_max: float = 100.0
    """Most tokens in the bucket."""
    tokens_start: float = 0.0
    """Tokens at the start."""

    def __post_init__(self) -> None:
        milli("ratio", self.ratio)
        if milli("tokens_max", self.tokens_max) < MILLI:
            raise BudgetError(f"tokens_max must be at least 1, or no retry is ever made, got {self.tokens_max:g}")
        if milli("tokens_start", self.tokens_start) > milli("tokens_max", self.tokens_max):
            raise BudgetError(f"tokens_start must be at most tokens_max ({self.tokens_max:g})")


class TokenBucket:
    """A bucket of tokens, kept in thousandths."""

    __slots__ = ("_each_call", "_each_success", "_tokens", "_tokens_max")

    def __init__(self, knobs: TokenBucketKnobs) -> None:
        ratio = milli("ratio", knobs.ratio)
        self._each_call = ratio if knobs.deposit_on is DepositOn.CALL else 0
        self._each_success = ratio if knobs.deposit_on is DepositOn.SUCCESS else 0
        self._tokens_max = milli("tokens_max", knobs.tokens_max)
        self._tokens = milli("tokens_start", knobs.tokens_start)

    def deposit(self, _call: Call, _now: float) -> None:
        """Put in what a call is worth."""
        self._put(self._each_call)

    def try_withdraw(self, _call: Call, _now: float) -> bool:
        """Take one token out, if there is one."""
        if self._tokens < MILLI:
            return False
        self._tokens -= MILLI
        return True

    def ended(self, _call: Call, ending: Ending, _now: float) -> None:
        """Put in what a success is worth."""
        if ending is Ending.SUCCESS:
            self._put(self._each_success)

    def balance(self, _now: float) -> float:
        """Return the tokens in the bucket."""
        return self._tokens / MILLI

    def _put(self, tokens: int) -> None:
        self._tokens = min(self._tokens + tokens, self._tokens_max)
