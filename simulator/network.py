"""The way from the router to a pool's frontends: one door each, where a proxy stands in a real run.

An obstacle in a door refuses connects or lets them hang. Whoever comes while none is there gets in; what is already in
when one comes is cut, as disabling a proxy cuts it.
"""

from collections.abc import Generator
from itertools import chain
from typing import Any, Final

import simpy

from router.core.delivery import Cause
from simulator.connection import Connection
from simulator.timers import Timers

CONNECT_S: Final = 0.0005
"""Seconds until a connect has succeeded or was refused, on the same machine."""
SYN_RESENDS_S: Final = (1, 2, 3, 4, 5, 7, 11, 19, 35, 67)
"""Seconds after its start at which the kernel makes a hanging connect again: Linux 6.5 and later with their default
`tcp_syn_linear_timeouts = 4`; the first six measured on loopback. After the last the connect hangs to its bound."""


class Obstacle:
    """What stands in doors, and what has met it. `hangs`: connects hang, else they are refused."""

    __slots__ = ("connects", "cuts", "hangs")

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.connects = 0
        self.cuts = 0


class Limit:
    """Lets `events` events of a streamed answer pass, then cuts its connection. `cuts` counts how often."""

    __slots__ = ("cuts", "events")

    def __init__(self, events: int) -> None:
        self.events = events
        self.cuts = 0

    def hit(self) -> None:
        """Count one connection that is cut now."""
        self.cuts += 1


class Door:
    """The address of one frontend."""

    def __init__(self, env: simpy.Environment, timers: Timers) -> None:
        self._env = env
        self._timers = timers
        self._inside: dict[Connection, None] = {}  # a set that keeps its order
        self.obstacle: Obstacle | None = None
        self.limit: Limit | None = None

    def put(self, obstacle: Obstacle) -> None:
        """Put an obstacle in the door and cut what is inside."""
        self.obstacle = obstacle
        for connection in tuple(self._inside):
            obstacle.cuts += 1
            connection.cut()

    def connect(self, until_s: float, *, event_bytes: int) -> Generator[simpy.Event, Any, Connection | Cause]:
        """Connect, at most until `until_s`; returns the connection, or why there is none.

        `event_bytes` is the size of one event of the answer, by which a limit is counted.
        """
        start_s = self._env.now
        met: Obstacle | None = None
        for made_s in (start_s + after_s for after_s in chain((0,), SYN_RESENDS_S)):
            if made_s + CONNECT_S > until_s:
                break
            yield from self._timers.sleep(made_s + CONNECT_S)
            if self.obstacle is None:
                return self._enter(event_bytes)
            if self.obstacle is not met:  # a connect that is made again meets the same obstacle once
                met = self.obstacle
                met.connects += 1
            if not met.hangs:
                return Cause.REFUSED
        yield from self._timers.sleep(until_s)
        return Cause.CONNECT_TIMEOUT

    def _enter(self, event_bytes: int) -> Connection:
        connection = Connection(self._env, self._timers)
        self._inside[connection] = None
        connection.on_end = self._inside.pop
        if self.limit is not None:
            connection.bytes_left = self.limit.events * event_bytes
            connection.on_limit = self.limit.hit
        return connection

    def __len__(self) -> int:
        """Connections inside."""
        return len(self._inside)
