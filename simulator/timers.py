"""Bounds on waiting that can be called off.

simpy keeps every timeout in its heap until it is due, so a bound of 30 s on each of 50 requests a second would leave
1,500 dead entries there. Here they live in a heap of their own, which is rebuilt once more than half of it is dead, and
simpy holds only the next wake-up.
"""

from collections.abc import Generator
from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

import simpy

DEAD_MIN: Final = 64
"""So many dead entries are always tolerated; rebuilding a small heap more often would cost more than it frees."""


class Late(Enum):
    """What an event that was waited for brings when its bound came first."""

    LATE = "late"


LATE: Final = Late.LATE


class _Bound:
    """One entry: the event to trigger, or None once it was called off."""

    __slots__ = ("event",)

    def __init__(self, event: simpy.Event) -> None:
        self.event: simpy.Event | None = event


class Timers:
    """All bounds of one model."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._turns = count()
        self._heap: list[tuple[float, int, _Bound]] = []
        self._dead = 0
        # Each wake-up is armed only when it is earlier than the last one, so the last one is the next.
        self._wake_ups: list[float] = []

    def __len__(self) -> int:
        """Entries held, dead ones included."""
        return len(self._heap)

    def wait(self, event: simpy.Event, until_s: float) -> Generator[simpy.Event, Any, Any]:
        """Wait for the event, at most until `until_s` on the model's clock; returns its value, or LATE."""
        bound = _Bound(event)
        heappush(self._heap, (until_s, next(self._turns), bound))
        self._arm()
        try:
            return (yield event)
        finally:
            self._call_off(bound)

    def sleep(self, until_s: float) -> Generator[simpy.Event, Any, None]:
        """Wait until `until_s` on the model's clock; no time at all if that is past."""
        if until_s > self._env.now:
            yield from self.wait(self._env.event(), until_s)

    def _call_off(self, bound: _Bound) -> None:
        if bound.event is None:
            return
        bound.event = None
        self._dead += 1
        if self._dead > DEAD_MIN and 2 * self._dead > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].event is not None]
            heapify(self._heap)
            self._dead = 0

    def _arm(self) -> None:
        if not self._heap:
            return
        due_s = self._heap[0][0]
        if self._wake_ups and self._wake_ups[-1] <= due_s:
            return
        self._wake_ups.append(due_s)
        wake_up = self._env.timeout(max(0.0, due_s - self._env.now))
        assert wake_up.callbacks is not None
        wake_up.callbacks.append(self._ring)

    def _ring(self, _: simpy.Event) -> None:
        self._wake_ups.pop()
        while self._heap and self._heap[0][0] <= self._env.now:
            bound = heappop(self._heap)[2]
            if bound.event is None:
                self._dead -= 1
            else:
                self._trigger(bound)
        self._arm()

    @staticmethod
    def _trigger(bound: _Bound) -> None:
        event, bound.event = bound.event, None
        if event is not None and not event.triggered:
            event.succeed(LATE)
