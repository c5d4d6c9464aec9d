"""Which pool a session prefers: a pin, kept where its requests land.

Laws
1. A pin is a preference among the pools that could take the send, never a reason to wait: a pool that is benched,
   drained, full or gone holds no session.
2. From the choice on the pin is hoped for, so that a session's requests that arrive together stay together, the
   failover included; it is kept where a request lands, and what was kept stays when it lands nowhere.
3. A pool that says "not now" (429, 503, 529) holds nobody: the session's next request may go elsewhere.
4. The table is bounded; a session that was idle for too long is forgotten.
"""

from collections import OrderedDict

from router.core.cooldown import NOT_NOW
from router.core.delivery import Outcome

SESSION_LENGTH_MAX = 256
"""Longer names of sessions are not remembered: clients choose them."""

Key = tuple[str, str]
"""Session and model: the pools of one model need not serve the other."""


class _Pin:
    __slots__ = ("hoped", "kept", "used_s")

    def __init__(self, used_s: float) -> None:
        self.kept: str | None = None
        self.hoped: str | None = None
        self.used_s = used_s


class Pins:
    """The pins of one router."""

    __slots__ = ("_idle_s", "_pins", "_pins_max")

    def __init__(self, *, idle_s: float, sessions_max: int) -> None:
        self._idle_s = idle_s
        self._pins_max = sessions_max
        self._pins: OrderedDict[Key, _Pin] = OrderedDict()

    def preferred(self, key: Key, now: float) -> tuple[str, ...]:
        """Return the pools that a session prefers, the better first."""
        pin = self._pins.get(key)
        if pin is None:
            return ()
        if now - pin.used_s > self._idle_s:
            del self._pins[key]
            return ()
        return tuple(pool for pool in (pin.hoped, pin.kept) if pool is not None)

    def chosen(self, key: Key, pool: str, now: float) -> None:
        """Note where a request of the session goes."""
        if len(key[0]) > SESSION_LENGTH_MAX:
            return
        pin = self._pins.get(key)
        if pin is None:
            pin = self._pins[key] = _Pin(now)
            if len(self._pins) > self._pins_max:
                self._pins.popitem(last=False)
        pin.used_s = now
        pin.hoped = None if pool == pin.kept else pool
        self._pins.move_to_end(key)

    def ended(self, key: Key, pool: str, outcome: Outcome) -> None:
        """Note how a send of the session ended at a pool."""
        pin = self._pins.get(key)
        if pin is None:
            return
        if pin.hoped == pool:
            pin.hoped = None
        if outcome.status is not None:
            # Answered: the request has landed, unless the pool sent it away.
            sent_away = outcome.status in NOT_NOW
            if not sent_away:
                pin.kept = pool
            elif pin.kept == pool:
                pin.kept = None

    def __len__(self) -> int:
        """Sessions remembered now."""
        return len(self._pins)
