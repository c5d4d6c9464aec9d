"""What every retry budget answers to: deposit, try_withdraw, balance, as in Finagle; the clock is an argument.

Laws
1. `deposit` once at the begin of each call, with its first attempt; `ended` once for each attempt that was made.
2. `try_withdraw` before each attempt after the first: True takes the price, False changes nothing that a later call
   sees (adaptive throttling alone counts what it refuses, since that is its rule).
3. Times are monotonic seconds that never go back.
"""

from enum import Enum
from typing import Protocol

from router.core.delivery import Cause, Delivery, Outcome

MILLI = 1000
"""Tokens are kept in thousandths, as Finagle and gRPC do, so that sums are exact."""


class BudgetError(ValueError):
    """A budget is described wrongly; the text names the knob and the remedy."""


class Ending(Enum):
    """What the end of an attempt means to a budget."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    THROTTLED = "throttled"  # the far side said "not now"
    LEFT = "left"  # the client went away: says nothing


class Call:
    """What a budget remembers of one call; made by its caller, one for each operation or request."""

    __slots__ = ("ending", "paid", "retries")

    def __init__(self) -> None:
        self.retries = 0
        """Retries made so far."""
        self.paid = 0
        """Price of the last retry."""
        self.ending = Ending.SUCCESS
        """How its last attempt ended."""


class RetryBudget(Protocol):
    """Decides whether one more attempt may be made."""

    def deposit(self, call: Call, now: float, /) -> None:
        """Take in that a call begins with its first attempt."""
        ...

    def try_withdraw(self, call: Call, now: float, /) -> bool:
        """Return whether the call may make one more attempt, and take its price."""
        ...

    def ended(self, call: Call, ending: Ending, now: float, /) -> None:
        """Take in how the last attempt of a call ended."""
        ...

    def balance(self, now: float, /) -> float:
        """Return what is left, in the unit of its kind; for metrics and for people."""
        ...


_TIMEOUTS = frozenset(
    (
        Cause.CONNECT_TIMEOUT,
        Cause.UPLOAD_TIMEOUT,
        Cause.FIRST_BYTE_TIMEOUT,
        Cause.IDLE_TIMEOUT,
        Cause.TOTAL_TIMEOUT,
        Cause.DEADLINE,
    )
)
_NOT_NOW = frozenset((429, 503, 529))


def ending_of(outcome: Outcome | None) -> Ending:
    """Say what the outcome of a send means to a budget; None: the client left before there was one."""
    if outcome is None or outcome.cause is Cause.CLIENT_LEFT:
        return Ending.LEFT
    if outcome.delivery is not Delivery.ANSWERED:
        return Ending.TIMEOUT if outcome.cause in _TIMEOUTS else Ending.FAILURE
    assert outcome.status is not None
    if outcome.status in _NOT_NOW:
        return Ending.THROTTLED
    return Ending.FAILURE if outcome.status >= 500 else Ending.SUCCESS


def milli(name: str, value: float) -> int:
    """Return a knob in thousandths. Raises BudgetError if it is negative, infinite or finer than that."""
    scaled = round(value * MILLI) if 0 <= value < float("inf") else -1
    if scaled < 0 or abs(value * MILLI - scaled) > 1e-6:
        raise BudgetError(f"{name} must be 0 or more in steps of 0.001, got {value}")
    return scaled


def at_least(name: str, value: float, least: float) -> None:
    """Check a knob. Raises BudgetError."""
    if not least <= value < float("inf"):
        raise BudgetError(f"{name} must be at least {least:g} and finite, got {value}")


def positive_s(name: str, value: float) -> None:
    """Check a duration. Raises BudgetError."""
    if not 0 < value < float("inf"):
        raise BudgetError(f"{name} must be a positive number of seconds, got {value}")
