"""Writing requests to one connection: each as fast as the connection takes it, and freed as it goes."""

import asyncio
import os
import socket
from collections.abc import Callable

PIECE_BYTES = 256 * 2**10
"""A request is written in pieces of this size, each when the connection has taken the one before."""

LAST_WORDS_BYTES_MAX = 256 * 2**10
"""So much is read of an answer that came before its pool hung up on the request."""


class Upload:
    """What has not gone yet of the request that a connection sends."""

    __slots__ = ("_left_bytes", "_on_gone", "_paused", "_rest", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._paused = False
        self._rest: memoryview | None = None
        self._on_gone: Callable[[], None] | None = None
        self._left_bytes = 0

    def begin(self, head: bytes, body: bytes, on_gone: Callable[[], None] | None) -> None:
        """Write a request; `on_gone` is called once nothing of it is left here."""
        self._on_gone = on_gone
        if len(body) <= PIECE_BYTES:
            self._transport.write(head + body)
        else:
            self._rest = memoryview(body)  # first: uvloop's TLS pauses and resumes inside of `write`
            self._transport.write(head)
        self._go_on()
        if not self.gone:
            self._left_bytes = self._left()

    @property
    def gone(self) -> bool:
        """Tell whether the kernel has the whole request."""
        return self._rest is None and not self._paused

    def drop(self) -> None:
        """Throw away what is left."""
        self._rest = None

    def pause(self) -> None:
        """Write no more."""
        self._paused = True

    def resume(self) -> None:
        """Write the next piece: everything before it has gone."""
        self._paused = False
        self._go_on()

    def has_progressed(self) -> bool:
        """Tell whether anything has gone since the last call, or since the beginning."""
        before, self._left_bytes = self._left_bytes, self._left()
        return self._left_bytes != before

    def _go_on(self) -> None:
        # A write that fails pauses nothing, and asyncio warns of each one after it.
        while self._rest is not None and not self._paused and not self._transport.is_closing():
            piece, rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
            self._rest = rest if len(rest) else None
            self._transport.write(piece)
        if self._on_gone is not None and self.gone:
            told, self._on_gone = self._on_gone, None
            told()

    def _left(self) -> int:
        return self._transport.get_write_buffer_size() + (0 if self._rest is None else len(self._rest))


def last_words(transport: asyncio.Transport) -> bytes:
    """Return what the other side said before it hung up on an upload; b"" where nobody can tell.

    A write that fails ends a transport of asyncio without another read (CPython 3.11), though an answer may be there: a
    pool that refuses a request by its head answers and closes, with the body unread, which resets the connection. Ask
    it in `connection_lost`, while the socket is still open.
    """
    peer = transport.get_extra_info("socket")
    if peer is None or peer.fileno() < 0 or transport.get_extra_info("ssl_object") is not None:
        return b""
    try:
        with socket.socket(fileno=os.dup(peer.fileno())) as rest:
            return rest.recv(LAST_WORDS_BYTES_MAX, socket.MSG_DONTWAIT)
    except OSError:
        return b""
