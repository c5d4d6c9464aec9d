"""Drives a station in the model: one timer for its server, and a wake-up for whoever's time has changed."""

from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Any

import simpy

from scenarios.world.condition import Condition
from scenarios.world.job import REJECTED
from scenarios.world.station import Entry, Note, Station
from simulator.timers import Timers


class Desk:
    """The requests of one frontend that has slots. `write` is told of everything beforehand."""

    def __init__(self, env: simpy.Environment, timers: Timers, station: Station, write: Callable[[Note], None]) -> None:
        self._env = env
        self._timers = timers
        self._station = station
        self._write = write
        self._armed_s = inf
        self._waiting: dict[Entry, simpy.Event] = {}
        self._retimes = station.pool.service.load_factor > 1

    def arrive(self, entry: Entry) -> bool:
        """Offer a request; false if it was rejected."""
        self._take(self._station.arrive(entry, self._env.now))
        return entry.state is not REJECTED

    def leave(self, entry: Entry) -> None:
        """Hear that a client has gone. Nothing where its request is over."""
        self._take(self._station.leave(entry, self._env.now))

    def set_condition(self, condition: Condition) -> None:
        """Let a fault of the pool come or go."""
        notes = self._station.set_condition(condition, self._env.now)
        self._take(notes, all_moved=True)

    def out(self, entry: Entry, index: int) -> Generator[simpy.Event, Any, None]:
        """Wait until the token of this index is out."""
        while True:
            self._catch_up()
            due_s = self._station.due_s(entry, index)
            if due_s <= self._env.now:
                return
            yield from self._woken(entry, due_s)

    def _woken(self, entry: Entry, until_s: float) -> Generator[simpy.Event, Any, None]:
        """Wait until then, or until something has moved the entry's time."""
        woken = self._waiting[entry] = self._env.event()
        try:
            if until_s == inf:
                yield woken
            else:
                yield from self._timers.wait(woken, until_s)
        finally:
            self._waiting.pop(entry, None)

    def _catch_up(self) -> None:
        if self._station.server.next_s <= self._env.now:
            self._take(self._station.advance(self._env.now))

    def _take(self, notes: Sequence[Note], *, all_moved: bool = False) -> None:
        for note in notes:
            self._write(note)
        # A list in a fixed order, since the order of wake-ups shows in the record.
        every = all_moved or (self._retimes and notes)
        for entry in list(self._waiting) if every else [note.entry for note in notes]:
            woken = self._waiting.get(entry)
            if woken is not None and not woken.triggered:
                woken.succeed()
        self._arm()

    def _arm(self) -> None:
        next_s = self._station.server.next_s
        if next_s == self._armed_s:
            return
        self._armed_s = next_s
        if next_s < inf:
            timer = self._env.timeout(max(0.0, next_s - self._env.now), next_s)
            assert timer.callbacks is not None
            timer.callbacks.append(self._ring)

    def _ring(self, timer: simpy.Event) -> None:
        if timer.value != self._armed_s:  # another one has been armed since
            return
        self._armed_s = inf
        self._take(self._station.advance(self._env.now))
