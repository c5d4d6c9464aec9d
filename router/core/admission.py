"""Requests that wait for a send: a queue bounded in number and in bytes.

Laws
1. Nobody waits beyond a bound: a request that does not fit is refused at once, or with LIFO the first come gives way.
2. Each model has its own line, so that what one model waits for holds up no other.
3. A change wakes only who is next in a line; whoever takes a send, or leaves, passes the wake-up on.
"""

import itertools
from collections.abc import Iterator

from router.core.config import QueueOrder, RouterConfig
from router.core.effects import Waiting


class WaitQueue:
    """Who waits, line by line."""

    __slots__ = ("_arrivals", "_bytes_max", "_count_max", "_lifo", "_lines", "body_bytes", "count")

    def __init__(self, config: RouterConfig) -> None:
        self._count_max = config.queue_max
        self._bytes_max = config.queue_bytes_max
        self._lifo = config.queue_order is QueueOrder.LIFO
        self._lines: dict[str, dict[Waiting, int]] = {}
        """Model -> who waits for it, in the order of arrival, with its number in that order over all lines."""
        self._arrivals = itertools.count(1)
        self.count = 0
        """Requests that wait now."""
        self.body_bytes = 0
        """Bytes of their bodies."""

    def must_join(self, model: str) -> bool:
        """Tell whether a request that arrives now would overtake those that wait for the model."""
        return not self._lifo and model in self._lines

    def join(self, waiting: Waiting) -> bool:
        """Put a request into its line; False: the queue is full."""
        if self._lifo:
            self._give_way(waiting)
        if not self._fits(waiting):
            return False
        self._lines.setdefault(waiting.model, {})[waiting] = next(self._arrivals)
        self.count += 1
        self.body_bytes += waiting.request.body_bytes
        return True

    def leave(self, waiting: Waiting) -> None:
        """Take a request out of its line and wake whoever is next now; one that is no longer in it does no harm."""
        line = self._lines.get(waiting.model, {})
        if waiting in line:
            self._remove(waiting)
            self._wake(line)

    def is_next(self, waiting: Waiting) -> bool:
        """Tell whether it is this request's turn."""
        return self.holds(waiting) and self._next(self._lines[waiting.model]) is waiting

    def holds(self, waiting: Waiting) -> bool:
        """Tell whether a request still has its place; with LIFO it may have had to give way."""
        return waiting in self._lines.get(waiting.model, ())

    def wake(self) -> None:
        """Wake whoever is next in each line."""
        for line in list(self._lines.values()):
            self._wake(line)

    def models(self) -> Iterator[str]:
        """Return the models that somebody waits for."""
        return iter(self._lines)

    def _fits(self, waiting: Waiting) -> bool:
        return self.count < self._count_max and self.body_bytes + waiting.request.body_bytes <= self._bytes_max

    def _give_way(self, waiting: Waiting) -> None:
        """Put out the first come until the newcomer fits, if it can fit at all."""
        if not self._count_max or waiting.request.body_bytes > self._bytes_max:
            return
        while not self._fits(waiting):
            first = min((next(iter(line.items())) for line in self._lines.values()), key=lambda place: place[1])[0]
            self._remove(first)
            first.wake()

    def _remove(self, waiting: Waiting) -> None:
        line = self._lines[waiting.model]
        del line[waiting]
        if not line:
            del self._lines[waiting.model]
        self.count -= 1
        self.body_bytes -= waiting.request.body_bytes

    def _wake(self, line: dict[Waiting, int]) -> None:
        if line:
            self._next(line).wake()

    def _next(self, line: dict[Waiting, int]) -> Waiting:
        return next(reversed(line) if self._lifo else iter(line))
