"""Drives a station on the loop's clock: one timer for its server, and a wake-up for whoever's time has changed."""

import asyncio
from collections.abc import Callable, Sequence
from math import inf

from scenarios.world.condition import Condition
from scenarios.world.job import REJECTED
from scenarios.world.station import Entry, Note, Station


class Desk:
    """The requests of one frontend that has slots, on the loop's clock. `write` is told of everything beforehand."""

    def __init__(self, station: Station, write: Callable[[Note], None]) -> None:
        self._station = station
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_s = inf
        self._waiting: dict[Entry, asyncio.Future[None]] = {}
        self._retimes = station.pool.service.load_factor > 1

    @property
    def in_flight(self) -> int:
        """Requests that wait or are worked on, whether or not anybody still waits for them."""
        return self._station.server.in_flight

    def arrive(self, entry: Entry, now_s: float) -> bool:
        """Offer a request that came this very moment; false if it was rejected."""
        self._take(self._station.arrive(entry, now_s))
        return entry.state is not REJECTED

    def leave(self, entry: Entry) -> None:
        """Hear that a client has gone. Nothing where its request is over."""
        self._take(self._station.leave(entry, self._loop.time()))

    def set_condition(self, condition: Condition) -> None:
        """Let a fault of the pool come or go."""
        self._take(self._station.set_condition(condition, self._loop.time()), all_moved=True)

    async def out(self, entry: Entry, index: int) -> None:
        """Wait until the token of this index is out."""
        while True:
            self._catch_up()
            due_s = self._station.due_s(entry, index)
            if due_s <= self._loop.time():
                return
            await self._woken(entry, due_s)

    def close(self) -> None:
        """Let nothing happen any more."""
        if self._timer is not None:
            self._timer.cancel()

    async def _woken(self, entry: Entry, until_s: float) -> None:
        """Wait until then, or until something has moved the entry's time."""
        woken = self._waiting[entry] = self._loop.create_future()
        timer = None if until_s == inf else self._loop.call_at(until_s, _wake, woken)
        try:
            await woken
        finally:
            self._waiting.pop(entry, None)
            if timer is not None:
                timer.cancel()

    def _catch_up(self) -> None:
        now_s = self._loop.time()
        if self._station.server.next_s <= now_s:
            self._take(self._station.advance(now_s))

    def _take(self, notes: Sequence[Note], *, all_moved: bool = False) -> None:
        for note in notes:
            self._write(note)
        every = all_moved or (self._retimes and notes)
        for entry in self._waiting if every else [note.entry for note in notes]:
            if (waiting := self._waiting.get(entry)) is not None:
                _wake(waiting)
        self._arm()

    def _arm(self) -> None:
        next_s = self._station.server.next_s
        if next_s == self._armed_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_s = next_s
        self._timer = None if next_s == inf else self._loop.call_at(next_s, self._ring)

    def _ring(self) -> None:
        self._timer, self._armed_s = None, inf
        self._take(self._station.advance(self._loop.time()))


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
