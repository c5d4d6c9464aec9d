"""One TCP connection, seen from both of its ends.

What one end says reaches the other `HOP_S` later, in order, also when the connection ends in between: bytes that are on
their way arrive. A server is told that its client has gone by a simpy interrupt.
"""

from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Final

import simpy

from simulator.timers import Late, Timers

HOP_S: Final = 0.0005
"""Seconds from one process to another on the same machine: a message, or the news of a connection's end."""


class Head:
    """Status line and headers of an answer, as far as anybody in the model acts on them.

    `code` is the `error.code` of a router's own answer (its body is not modelled), `retry_after_s` and `should_retry`
    what an SDK reads; `delivery`, `pool` and `sends` are the router's headers about its own doing.
    """

    __slots__ = ("code", "delivery", "pool", "retry_after_s", "sends", "should_retry", "status")

    def __init__(
        self,
        status: int,
        *,
        code: str | None = None,
        delivery: str | None = None,
        pool: str | None = None,
        sends: int | None = None,
        retry_after_s: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.delivery = delivery
        self.pool = pool
        self.sends = sends
        self.retry_after_s = retry_after_s
        self.should_retry = should_retry


class Close(Enum):
    """How the server's side of a connection ended, as its client sees it."""

    WHOLE = "whole"  # the answer is complete
    BROKEN = "broken"  # it ended before that


Piece = Head | bytes | Close


class Connection:
    """A connection that stands. The client may `receive` and `leave`, the server `say` and `close`, a proxy `cut`."""

    def __init__(self, env: simpy.Environment, timers: Timers) -> None:
        self._env = env
        self._timers = timers
        self._arrived: deque[Piece] = deque()
        self._reader: simpy.Event | None = None
        self._server: simpy.Process | None = None
        self._open = True
        self.bytes_left: int | None = None
        """So many bytes of an answer may still pass before the connection is cut; None: all of them."""
        self.on_end: Callable[[Connection], None] = _nobody_cares
        self.on_limit: Callable[[], None] = _nothing_is_counted

    def ask(self, serve: Callable[["Connection"], Generator[simpy.Event, Any, None]]) -> None:
        """Send the request with its whole body: `serve` starts when it has arrived."""
        self._later(lambda: self._start(serve))

    def receive(self, until_s: float) -> Generator[simpy.Event, Any, Piece | Late]:
        """Return the next piece of the answer, or LATE at `until_s`. One reader at a time."""
        if self._arrived:
            return self._arrived.popleft()
        self._reader = self._env.event()
        try:
            piece: Piece | Late = yield from self._timers.wait(self._reader, until_s)
        finally:
            self._reader = None
        return piece

    def leave(self) -> None:
        """Close the client's end; the server learns of it. Does nothing where the connection has already ended."""
        if self._end():
            self._later(self._interrupt)

    def say(self, *pieces: Piece) -> None:
        """Send pieces of the answer, unless the connection has ended."""
        for piece in pieces:
            if not self._open:
                return
            if isinstance(piece, bytes) and self.bytes_left is not None:
                self._pass_on(piece[: self.bytes_left])
                self.bytes_left -= min(len(piece), self.bytes_left)
                if not self.bytes_left:
                    self.on_limit()
                    self.cut()
            else:
                self._pass_on(piece)

    def close(self, how: Close) -> None:
        """Close the server's end."""
        if self._end():
            self._pass_on(how)

    def cut(self) -> None:
        """End the connection in the middle: the client gets what is on its way and then a break, the server is told."""
        if self._end():
            self._pass_on(Close.BROKEN)
            self._later(self._interrupt)

    def _end(self) -> bool:
        was_open, self._open = self._open, False
        if was_open:
            self.on_end(self)
        return was_open

    def _start(self, serve: Callable[["Connection"], Generator[simpy.Event, Any, None]]) -> None:
        self._server = self._env.process(serve(self))

    def _interrupt(self) -> None:
        if self._server is not None and self._server.is_alive:
            self._server.interrupt()

    def _pass_on(self, piece: Piece) -> None:
        self._later(lambda: self._arrive(piece))

    def _arrive(self, piece: Piece) -> None:
        if self._reader is not None and not self._reader.triggered:
            self._reader.succeed(piece)
        else:
            self._arrived.append(piece)

    def _later(self, act: Callable[[], None]) -> None:
        hop = self._env.timeout(HOP_S)
        assert hop.callbacks is not None
        hop.callbacks.append(lambda _: act())


def _nobody_cares(_: Connection) -> None:
    """Stand in until somebody keeps a list of connections."""


def _nothing_is_counted() -> None:
    """Stand in until a limit is set."""
