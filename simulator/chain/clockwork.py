"""simpy's heap and clock for callbacks: one small event per wake-up, and timers that leave nothing dead in the heap.

A process and a Timeout for each attempt are what makes a model slow, and a Timeout that is no longer wanted stays in
the heap until it is due. Here each kind of bound keeps its entries to itself, and simpy holds one wake-up for the
first of them. Dead entries are swept whenever there could be more of them than live ones.
"""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Protocol

import simpy

from simulator.clock import WALL_START_S

SWEEP_MIN: Final = 64
"""Below so many entries nothing is swept: it would cost more than it frees."""

_AT_ONCE: Final = 0  # simpy's URGENT
_IN_TURN: Final = 1  # simpy's NORMAL


class Live(Protocol):
    """Whatever may be waited for: `live` as long as somebody does."""

    live: bool


class Begun(Live, Protocol):
    """What knows when it began."""

    t_start_s: float


class Wake:
    """A call that is due at a time; one that has been made can be armed again."""

    __slots__ = ("callback",)

    def __init__(self, callback: "Callable[[Wake], None]") -> None:
        self.callback = callback


class News:
    """Results that came at once: told in their order when whoever asked is done, so that no call nests in another."""

    __slots__ = ("_clockwork", "_queue", "_tell_")

    def __init__(self, clockwork: "Clockwork") -> None:
        self._clockwork = clockwork
        self._queue: deque[tuple[Callable[[Any, Any], None], Any, Any]] = deque()
        self._tell_ = self._tell

    def add(self, told: Callable[[Any, Any], None], child: Any, result: Any) -> None:
        """Tell `told` of it in this very moment, but not now."""
        if not self._queue:
            self._clockwork.soon(self._tell_)
        self._queue.append((told, child, result))

    def _tell(self, _: object) -> None:
        queue = self._queue
        while queue:
            told, child, result = queue[0]
            told(child, result)
            queue.popleft()


class Clockwork(simpy.Environment):
    """A simpy environment that also calls back at absolute times."""

    def __init__(self) -> None:
        super().__init__()
        self.news = News(self)

    def monotonic(self) -> float:
        """Return the time as decisions ask for it: it is their clock too."""
        return self._now

    def wall(self) -> float:
        """Return seconds since the Unix epoch, at a fixed moment of which every run starts."""
        return WALL_START_S + self._now

    def step(self) -> None:
        """Do what is due next: events of simpy as simpy does, calls by calling."""
        queue: list[Any] = self._queue
        if queue and queue[0][3].__class__ is Wake:
            self._now, _, _, wake = heappop(queue)
            wake.callback(wake)
        else:
            super().step()

    def run_out(self, until_s: float | None = None) -> None:
        """Do what `run` does, without a call for each event: all that is due, or all that is due before a time."""
        queue: list[Any] = self._queue
        while queue and (until_s is None or queue[0][0] < until_s):
            entry = heappop(queue)
            wake = entry[3]
            if wake.__class__ is Wake:
                self._now = entry[0]
                wake.callback(wake)
            else:
                heappush(queue, entry)
                super().step()
        if until_s is not None and self._now < until_s:
            self._now = until_s

    def at(self, when_s: float, callback: Callable[[Wake], None]) -> Wake:
        """Call back at a time that is not past; a delay from now could miss it by a hair."""
        wake = Wake(callback)
        heappush(self._queue, (when_s, _IN_TURN, next(self._eid), wake))  # type: ignore[misc]
        return wake

    def again(self, when_s: float, wake: Wake) -> None:
        """Arm a call again that has been made."""
        heappush(self._queue, (when_s, _IN_TURN, next(self._eid), wake))  # type: ignore[misc]

    def soon(self, callback: Callable[[Wake], None]) -> None:
        """Call back in this very moment, before all else that is due in it."""
        heappush(self._queue, (self._now, _AT_ONCE, next(self._eid), Wake(callback)))  # type: ignore[misc]

    @property
    def entries(self) -> int:
        """Entries in simpy's heap."""
        return len(self._queue)


class FifoTimers:
    """Bounds of one length on what begins in the moment it is added: who begins first is due first.

    `fire` is called with what is still live then. What is bounded tells itself when it began (`t_start_s`).
    """

    __slots__ = ("_armed", "_clockwork", "_entries", "_fire", "_length_s", "_ring_", "_sweep_at")

    def __init__(self, clockwork: Clockwork, length_s: float, fire: Callable[[Any], None]) -> None:
        self._clockwork = clockwork
        self._length_s = length_s
        self._fire = fire
        self._entries: deque[Begun] = deque()
        self._armed = False
        self._sweep_at = SWEEP_MIN
        self._ring_ = self._ring

    def add(self, item: Begun) -> None:
        """Bound something that begins now."""
        entries = self._entries
        entries.append(item)
        if not self._armed:
            self._armed = True
            self._clockwork.at(item.t_start_s + self._length_s, self._ring_)
        elif len(entries) >= self._sweep_at:
            self._entries = deque(entry for entry in entries if entry.live)
            self._sweep_at = max(SWEEP_MIN, 2 * len(self._entries))

    def _ring(self, _: object) -> None:
        now_s, length_s = self._clockwork.now, self._length_s
        while self._entries:
            item = self._entries[0]
            if item.live and item.t_start_s + length_s > now_s:
                self._clockwork.at(item.t_start_s + length_s, self._ring_)
                return
            self._entries.popleft()
            if item.live:
                self._fire(item)  # which may add entries, and so sweep
        self._armed = False

    def __len__(self) -> int:
        """Entries held, dead ones included."""
        return len(self._entries)


class Timers:
    """Bounds of any length."""

    __slots__ = ("_clockwork", "_heap", "_ring_", "_sweep_at", "_turns", "_wake_ups")

    def __init__(self, clockwork: Clockwork) -> None:
        self._clockwork = clockwork
        self._heap: list[tuple[float, int, Live, Callable[[Any], None]]] = []
        self._turns = count()
        # Each wake-up is armed only when it is earlier than the last one, so the last one is the next.
        self._wake_ups: list[float] = []
        self._sweep_at = SWEEP_MIN
        self._ring_ = self._ring

    def add(self, due_s: float, item: Live, fire: Callable[[Any], None]) -> None:
        """Have `fire` called with the item at a time, if it is still live then."""
        heappush(self._heap, (due_s, next(self._turns), item, fire))
        self._arm()
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].live]
            heapify(self._heap)
            self._sweep_at = max(SWEEP_MIN, 2 * len(self._heap))

    def items(self) -> list[Live]:
        """Return what is bounded and live, the earliest first."""
        return [entry[2] for entry in sorted(self._heap, key=lambda entry: entry[:2]) if entry[2].live]

    def _arm(self) -> None:
        if not self._heap:
            return
        due_s = self._heap[0][0]
        if not self._wake_ups or due_s < self._wake_ups[-1]:
            self._wake_ups.append(due_s)
            self._clockwork.at(due_s, self._ring_)

    def _ring(self, _: object) -> None:
        now_s = self._wake_ups.pop()
        while self._heap and (not self._heap[0][2].live or self._heap[0][0] <= now_s):
            _, _, item, fire = heappop(self._heap)
            if item.live:
                fire(item)
        self._arm()

    def __len__(self) -> int:
        """Entries held, dead ones included."""
        return len(self._heap)
