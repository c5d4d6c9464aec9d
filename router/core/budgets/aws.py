"""A quota, a price for each retry by how the attempt before it failed, and refunds (AWS SDKs, `standard` mode).

A call that succeeds after a retry brings back what that retry cost; one that succeeds at once brings 1. The knobs'
defaults are botocore's up to 1.43; `AwsKnobs.of_2026()` is botocore's from 1.44 on.
"""

from dataclasses import dataclass

from router.core.budgets.retry_budget import Call, Ending, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKnobs:
    """Knobs of the retry quota."""

    quota: int = 500
    """Tokens at the start, and most tokens."""
    retry_cost: int = 5
    """Price of a retry."""
    timeout_cost: int = 10
    """Price of a retry after a time-out."""
    throttling_cost: int = 5
    """Price of a retry after "not now"."""
    no_retry_increment: int = 1
    """What a call brings that succeeds without a retry."""
    max_attempts: int = 3
    """Attempts of one call, the first included."""

    def __post_init__(self) -> None:
        for name in ("quota", "retry_cost", "timeout_cost", "throttling_cost", "max_attempts"):
            at_least(name, getattr(self, name), 1)
        at_least("no_retry_increment", self.no_retry_increment, 0)

    @classmethod
    def of_2026(cls) -> "AwsKnobs":
        """Return botocore's prices from 1.44 on."""
        return cls(retry_cost=14, timeout_cost=14, throttling_cost=5)


class Aws:
    """The quota that all calls of one client share."""

    __slots__ = ("_knobs", "_price", "_tokens")

    def __init__(self, knobs: AwsKnobs) -> None:
        self._knobs = knobs
        self._tokens = knobs.quota
        self._price = {Ending.TIMEOUT: knobs.timeout_cost, Ending.THROTTLED: knobs.throttling_cost}

    def deposit(self, _call: Call, _now: float) -> None:
        """Only how attempts end counts."""

    def try_withdraw(self, call: Call, _now: float) -> bool:
        """Pay the price of a retry, if the call has an attempt left and the quota has the price."""
        price = self._price.get(call.ending, self._knobs.retry_cost)
        if call.retries + 1 >= self._knobs.max_attempts or price > self._tokens:
            return False
        call.retries += 1
        call.paid = price
        self._tokens -= price
        return True

    def ended(self, call: Call, ending: Ending, _now: float) -> None:
        """Bring back, on success, what the last retry cost, or a little if there was none."""
        call.ending = ending
        if ending is Ending.SUCCESS:
            back = call.paid if call.retries else self._knobs.no_retry_increment
            self._tokens = min(self._tokens + back, self._knobs.quota)

    def balance(self, _now: float) -> float:
        """Return the tokens."""
        return self._tokens
