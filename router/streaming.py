"""Passing an answer on: byte for byte, nothing kept, and never an end that looks better than it was.

Laws
1. Every byte that was read reaches the client before the break does, a slow client's bytes included.
2. An answer that the pool cut short is cut short for the client too: the connection breaks off, and no final chunk, no
   error frame of the router's own, no clean end takes its place.
3. What is held at any time is bounded: while the client does not read, nothing is read from the pool.
4. A client that leaves is never the pool's fault, nor the other way round.

A piece goes from the pool's socket to the client's in one call of the event loop (router/upstream/connection.py); the
request's task sleeps meanwhile, and is woken when the answer has ended or the client is behind. aiohttp's own response
objects are passed by: the head goes out in the pool's own bytes, with the first piece of the body if that is there.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping

from aiohttp import HttpVersion11, web

from router.core.bounds import end_of
from router.core.clock import Clock
from router.core.delivery import Cause
from router.core.effects import End
from router.headers import HOP_BY_HOP
from router.upstream.answer import Head
from router.upstream.causes import cause_of, text_of
from router.upstream.connection import Connection
from router.upstream.faults import Lost

DONE = (b"data: [DONE]", b"data:[DONE]")
"""What a whole stream of server-sent events ends with."""
_TAIL_BYTES = 64
FLUSH_MAX_S = 30.0
"""How long a client may take to read what was written before a break."""
_LAST_CHUNK = b"0\r\n\r\n"
_FRAMING = frozenset(("content-length",))


class ClientLeft(Exception):
    """The client is gone, or has stopped reading; there is nobody to answer."""


class PassedOn(web.StreamResponse):
    """What aiohttp's server is told of an answer that was passed on: it has been written already.

    `framed` tells that the client can see from the answer where it should end.
    """

    def __init__(self, *, keep_alive: bool, framed: bool) -> None:
        # Not aiohttp's own: it would make headers and a state that nobody will ask for.
        self._keep_alive = keep_alive
        self.framed = framed

    @property
    def prepared(self) -> bool:
        """Tell that nothing can be changed any more."""
        return True

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing."""


class Passage:
    """One answer on its way from the pool to the client."""

    __slots__ = ("_answer", "_chunked", "_connection", "_idle_s", "_now", "_protocol", "_request", "_tail",
                 "_transport", "first_byte_s", "lost", "out")  # fmt: skip

    def __init__(
        self, request: web.BaseRequest, connection: Connection, answer: Head, idle_s: float, clock: Clock
    ) -> None:
        if request.transport is None:
            raise ClientLeft("the client closed the connection")
        self._now = clock.monotonic
        self._request = request
        self._transport = request.transport
        self._protocol = request.protocol
        self._connection = connection
        self._answer = answer
        self._idle_s = idle_s
        self._tail = b""
        sized = answer.empty or (answer.sized and not answer.chunked)
        self._chunked = not sized and request.version >= HttpVersion11
        framed = sized or self._chunked
        self.out = PassedOn(keep_alive=request.keep_alive and framed, framed=framed)
        self.first_byte_s: float | None = None
        """When the first byte of the body was passed on; None: none was."""
        self.lost: tuple[Cause, str] | None = None
        """Why the pool's side broke off, and in which words; None while it has not."""

    async def run(self, own: Mapping[str, str], defaults: Mapping[str, str]) -> End:
        """Pass everything on, with headers of the router's `own`. Raises ClientLeft.

        Names of headers are in lower case; `defaults` give way to the pool's.
        """
        connection = self._connection
        if self._transport.is_closing():
            raise ClientLeft("the client closed the connection")
        if not self.out.framed:
            self._ends_by(reset=True)
        held = connection.pass_to(self)
        self._request.writer.output_size += 1  # by this aiohttp's server is told that an answer has begun
        self._transport.write(self._head(own, defaults) + self._noted(held, last=connection.whole))
        while not (connection.whole or connection.closed):
            if self._transport.is_closing():
                raise ClientLeft("the client closed the connection")
            if self._protocol.writing_paused:
                await self._wait_for_client()
            elif connection.stopped:
                connection.read_on()
            else:
                await connection.changed()
        self.lost = self._loss()
        if self.lost is not None:
            return end_of(self.lost[0])
        if self._chunked and not connection.whole:
            self._transport.write(_LAST_CHUNK)
        if not self.out.framed:
            self._transport.set_write_buffer_limits(high=0)  # its end may be a clean one once all has gone
        while self._protocol.writing_paused:
            await self._wait_for_client()
        if not self.out.framed:
            self._ends_by(reset=False)
        return End.COMPLETE

    def _ends_by(self, *, reset: bool) -> None:
        """Say how the client's connection ends from now on, whoever ends it.

        For HTTP/1.0 the end of the connection is a clean end of the answer; only a reset can be told from it.
        """
        peer = self._transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", reset, 0))

    def take(self, data: bytes, *, last: bool) -> bool:
        """Write a piece to the client; True: it is behind, or gone."""
        if self._transport.is_closing():
            return True
        self._transport.write(self._noted(data, last=last))
        return self._protocol.writing_paused

    def _noted(self, data: bytes, *, last: bool) -> bytes:
        """Return a piece as it goes out."""
        if data:
            if self.first_byte_s is None:
                self.first_byte_s = self._now()
            if not self._answer.framed:
                self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if not self._chunked:
            return data
        framed = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        return framed + _LAST_CHUNK if last else framed

    async def _wait_for_client(self) -> None:
        """Wait until the client has made room; nothing is read from the pool meanwhile.

        Raises ClientLeft after the idle time-out. Returns early when the send's own bounds are reached.
        """
        connection = self._connection
        connection.stop_reading()
        try:
            async with asyncio.timeout_at(min(self._now() + self._idle_s, connection.over_s)):
                await self._request.writer.drain()
        except TimeoutError:
            connection.look()
            if connection.whole or not connection.closed:
                raise ClientLeft("the client has stopped reading") from None
        except ConnectionError as error:
            raise ClientLeft(str(error)) from error

    def _loss(self) -> tuple[Cause, str] | None:
        """Say why an answer whose bytes have ended is not complete; None: it is."""
        connection, answer = self._connection, self._answer
        if connection.whole:
            return None
        failure = connection.failure
        if failure is None and answer.framed:
            failure = Lost("the connection was cut")
        if failure is None and _is_events(answer) and not self._tail.rstrip().endswith(DONE):
            failure = Lost("the connection was closed before data: [DONE]")
        return None if failure is None else (cause_of(failure, connected=True, reused=False), text_of(failure))

    def _head(self, own: Mapping[str, str], defaults: Mapping[str, str]) -> bytes:
        """Return the status line and the headers: the pool's as they came, then ours."""
        answer, version = self._answer, self._request.version
        dropped = HOP_BY_HOP
        if "connection" in answer.names:
            dropped |= _named_by_connection(answer) - _FRAMING  # without it nobody finds the end of the answer
        if answer.chunked:
            dropped |= {"content-length"}
        lines = [b"HTTP/%d.%d %d %b\r\n" % (version.major, version.minor, answer.status, answer.reason)]
        passed = zip(answer.names, answer.headers, strict=True)
        lines += [b"%b: %b\r\n" % header for name, header in passed if name not in dropped and name not in own]
        ours = [f"{name}: {value}\r\n" for name, value in own.items()]
        for name, value in defaults.items():
            if name not in answer.names or name in dropped:
                ours.append(f"{name}: {value}\r\n")
        if self._chunked:
            ours.append("transfer-encoding: chunked\r\n")
        if not self.out.keep_alive:
            ours.append("connection: close\r\n")
        elif version < HttpVersion11:
            ours.append("connection: keep-alive\r\n")
        ours.append("\r\n")
        return b"".join(lines) + "".join(ours).encode("utf-8", "surrogateescape")


def break_off(request: web.BaseRequest, out: PassedOn) -> None:
    """End the client's connection so that the break can be seen, after what was written before has gone out."""
    transport = request.transport
    out.force_close()
    if transport is None:
        return
    request.protocol.force_close()
    if transport.get_write_buffer_size():
        asyncio.get_running_loop().call_later(FLUSH_MAX_S, _give_up, transport)


def _give_up(transport: asyncio.Transport) -> None:
    """Throw away what a client has not read; a transport that has ended meanwhile cannot be aborted (asyncio 3.11)."""
    if transport.get_write_buffer_size():
        transport.abort()


def _named_by_connection(answer: Head) -> frozenset[str]:
    """Return what Connection says is for this hop only, in lower case."""
    tokens = b",".join(answer.values("connection")).split(b",")
    return frozenset(token.strip().lower().decode("latin-1") for token in tokens)


def _is_events(answer: Head) -> bool:
    content_type = (answer.values("content-type") or [b""])[0]
    return content_type.partition(b";")[0].strip().lower() == b"text/event-stream"
