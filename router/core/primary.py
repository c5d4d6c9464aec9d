"""Which pool has all the traffic: the active one of primary and backups.

Laws
1. It moves by itself when the active pool cannot be used (benched, unhealthy, draining, gone), to the configured
   primary if that can, else to the first by name.
2. One time-out after hand-over at the active pool moves later requests at once (`switch_on_timeout`), to the next by
   name, so that every pool has its turn; the request that timed out is not sent again. No other single failure moves
   it, nor does a send that began before its pool became active.
3. It returns by itself only where that is asked for, and only after the primary has been usable for a while.
4. An operator's choice wins while it is usable: neither a time-out nor the return moves it.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from router.core.config import FailBack, RouterConfig


class Why(StrEnum):
    """Who made the active pool active."""

    CONFIGURED = "configured"
    OPERATOR = "operator"
    AUTOMATIC = "automatic"


class Primary:
    """State of primary/backup: `active` since `since_s` (monotonic seconds) for `why`; "" while no pool is usable."""

    __slots__ = ("_automatic_return", "_configured", "_hold_s", "_on_timeout", "_usable", "_usable_s", "active",
                 "on_move", "since_s", "why")  # fmt: skip

    def __init__(self, config: RouterConfig, now: float) -> None:
        self._configured = config.primary
        self._on_timeout = config.switch_on_timeout
        self._automatic_return = config.fail_back is FailBack.AUTOMATIC
        self._hold_s = config.fail_back_hold_s
        self._usable: tuple[str, ...] = ()
        self._usable_s = float("inf")
        self.active = config.primary
        self.why = Why.CONFIGURED
        self.since_s = now
        self.on_move: Callable[[Primary], None] = _nobody_listens
        """Called after every move; for logs and records."""

    @property
    def configured(self) -> str:
        """The pool that is preferred."""
        return self._configured

    def usable_changed(self, usable: Sequence[str], now: float) -> None:
        """Take in which pools can be used now, sorted by name."""
        if not self._configured and usable:
            self._configured = self.active = usable[0]
        if self._configured not in usable:
            self._usable_s = float("inf")
        elif self._configured not in self._usable:
            self._usable_s = now
        self._usable = tuple(usable)
        if self.active not in usable:
            self._move_away(now)

    def timed_out(self, pool: str, now: float, *, began_s: float) -> None:
        """Take in that a pool had a request since `began_s`, and the router's own time-out ended it."""
        if not self._on_timeout or pool != self.active or self.why is Why.OPERATOR or began_s < self.since_s:
            return
        if pool == self._configured:
            self._usable_s = now  # the hold begins anew, or an automatic return would undo this at once
        after = [other for other in self._usable if other > pool]
        before = [other for other in self._usable if other < pool]
        for other in (after + before)[:1]:
            self._go(other, Why.AUTOMATIC, now)

    def operator_chose(self, pool: str, now: float) -> None:
        """Make a pool active by hand. Raises ValueError if it cannot be used now."""
        self._must_be_usable(pool)
        self._go(pool, Why.OPERATOR, now)

    def give_back(self, pool: str, why: Why, now: float) -> None:
        """Make a pool active again as it was before an operator's choice came to nothing. Raises ValueError."""
        self._must_be_usable(pool)
        self._go(pool, why, now)

    def at(self, now: float) -> str:
        """Return the active pool, after an automatic return that is due."""
        if (
            self._automatic_return
            and self.why is Why.AUTOMATIC
            and self.active != self._configured
            and now >= self._usable_s + self._hold_s
        ):
            self._go(self._configured, Why.AUTOMATIC, now)
        return self.active

    def _move_away(self, now: float) -> None:
        others = [pool for pool in self._usable if pool != self.active]
        if others:
            self._go(self._configured if self._configured in others else others[0], Why.AUTOMATIC, now)

    def _must_be_usable(self, pool: str) -> None:
        if pool not in self._usable:
            raise ValueError(f"pool {pool!r} cannot be used now; usable: {', '.join(self._usable) or 'none'}")

    def _go(self, pool: str, why: Why, now: float) -> None:
        self.active, self.why, self.since_s = pool, why, now
        self.on_move(self)

    def __repr__(self) -> str:
        return f"<{self.active} ({self.why}), configured {self.configured}>"


def _nobody_listens(_: Primary) -> None:
    """Stand in until a driver wants to be told."""
