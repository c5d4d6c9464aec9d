"""Passing an answer on: byte for byte, nothing kept, and never an end that looks better than it was.

Laws
1. Every byte that was read reaches the client before the break does, a slow client's bytes included.
2. An answer that the pool cut short is cut short for the client too: the connection breaks off, and no final chunk, no
   error frame of the router's own, no clean end takes its place.
3. What is held at any time is bounded: while the client does not read, nothing is read from the pool.
4. Reading from the pool and writing to the client fail apart. The same class of error means two different things.

aiohttp's StreamReader raises a loss before it gives out what it still holds. So nothing may stay in it: the reader is
always back before the event loop reads the next piece, and wherever the client makes it wait, the pool's connection is
paused first, which leaves the rest, the loss included, in the kernel. Nor does StreamReader say that a chunk was not
HTTP (aiohttp 3.14.5); there the closed connection is what ends the wait.
"""

import asyncio
import socket
import struct
from typing import cast

from aiohttp import ClientError, ClientResponse, web
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import StreamWriter

from router.core.delivery import Cause
from router.core.effects import End

DONE = b"data: [DONE]"
"""What a whole stream of server-sent events ends with."""
_TAIL_BYTES = 64
FLUSH_MAX_S = 30.0
"""How long a client may take to read what was written before a break."""


class ClientLeft(Exception):
    """The client is gone, or has stopped reading; there is nobody to answer."""


class PoolSilent(Exception):
    """The pool's connection stands, but nothing has come for the idle time-out."""


class PoolGarbled(Exception):
    """What came in the middle of the answer is not HTTP."""


class IdleWatch:
    """Raises PoolSilent in the reader of an answer when nothing came for `idle_s`.

    One timer an answer, not one a piece: a piece only leaves its time, and the timer looks when it fires.
    """

    __slots__ = ("_idle_s", "_loop", "_response", "_timer", "last_s")

    def __init__(self, response: ClientResponse, idle_s: float, loop: asyncio.AbstractEventLoop) -> None:
        self._response = response
        self._idle_s = idle_s
        self._loop = loop
        self.last_s = loop.time()
        self._timer = loop.call_at(self.last_s + idle_s, self._look)

    def stop(self) -> None:
        """End the watch."""
        self._timer.cancel()

    def _look(self) -> None:
        due_s = self.last_s + self._idle_s
        if self._loop.time() < due_s:
            self._timer = self._loop.call_at(due_s, self._look)
        else:
            self._response.content.set_exception(PoolSilent(f"nothing came for {self._idle_s:g} s"))


class PassedOn(web.StreamResponse):
    """Status and headers of a pool's answer. They leave with the first piece, or alone if it is not there yet."""

    _send_headers_immediately = False  # aiohttp's own switch, which its Response turns off in the same way

    async def _prepare_headers(self) -> None:
        """Take back what aiohttp (3.14.5) says in the pool's name where the pool said nothing."""
        missing = [name for name in ("Content-Type", "Server") if name not in self.headers]
        await super()._prepare_headers()
        for name in missing:
            self.headers.pop(name, None)


class Passage:
    """One answer on its way from the pool to the client."""

    __slots__ = ("_idle_s", "_loop", "_request", "_response", "first_byte_s", "lost")

    def __init__(self, request: web.BaseRequest, response: ClientResponse, idle_s: float) -> None:
        self._request = request
        self._response = response
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self.first_byte_s: float | None = None
        """When the first byte of the body was passed on; None: none was."""
        self.lost: tuple[Cause, str] | None = None
        """Why the pool's side broke off, and in which words; None while it has not."""

    async def run(self, out: web.StreamResponse) -> End:
        """Pass everything on; `out` carries status and headers. Raises ClientLeft."""
        connection = self._response.connection
        # The connection goes back to the pool of connections at the end; how it ended is asked of its protocol.
        protocol = None if connection is None else connection.protocol
        writer = await self._begin(out)
        watch = IdleWatch(self._response, self._idle_s, self._loop)
        closed = None if protocol is None else protocol.closed
        if closed is not None:
            closed.add_done_callback(self._on_closed)
        try:
            tail = await self._pump(writer, watch)
        except PoolSilent as silent:
            self.lost = Cause.IDLE_TIMEOUT, str(silent)
            return End.IDLE
        except (ClientError, OSError, PoolGarbled) as error:
            self.lost = _loss(protocol, error)
            return End.BROKEN
        finally:
            watch.stop()
            if closed is not None:
                closed.remove_done_callback(self._on_closed)
        if not self._is_whole(protocol, tail):
            return End.BROKEN
        await self._finish(writer)
        return End.COMPLETE

    @property
    def _framed(self) -> bool:
        """Tell whether the answer says where it ends; else the connection's end is its end, and proves nothing."""
        headers = self._response.headers
        return "Content-Length" in headers or "Transfer-Encoding" in headers

    async def _begin(self, out: web.StreamResponse) -> StreamWriter:
        try:
            writer = cast(StreamWriter, await out.prepare(self._request))
            if not self._response.content.total_bytes and not self._response.content.is_eof():
                writer.send_headers()
        except ConnectionError as error:
            raise ClientLeft(str(error)) from error
        return writer

    async def _pump(self, writer: StreamWriter, watch: IdleWatch) -> bytes:
        """Pass pieces on until the pool's end; returns the last bytes of an answer that nothing frames."""
        read, write, downstream, now = self._response.content.readany, writer.write, writer.protocol, self._loop.time
        tail, framed = b"", self._framed
        while True:
            try:
                piece = await read()
            except RuntimeError as error:  # aiohttp's word for: closed without an end and without an error
                raise PoolGarbled from error
            if not piece:
                return tail
            watch.last_s = now()
            try:
                await write(piece, drain=False)
            except ConnectionError as error:
                raise ClientLeft(str(error)) from error
            if self.first_byte_s is None:
                self.first_byte_s = watch.last_s
            if not framed:
                tail = (tail + piece)[-_TAIL_BYTES:]
            if downstream.writing_paused:
                await self._wait_for_client(writer)
                watch.last_s = now()

    def _on_closed(self, _: "asyncio.Future[None]") -> None:
        """Wake the reader of an answer whose connection has ended, unless aiohttp has done so."""
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(PoolGarbled())

    async def _wait_for_client(self, writer: StreamWriter) -> None:
        """Read nothing until the client has made room. Raises ClientLeft after the idle time-out."""
        connection = self._response.connection
        protocol = None if connection is None else connection.protocol
        if protocol is not None:
            protocol.pause_reading()
        try:
            async with asyncio.timeout(self._idle_s):
                await writer.drain()
        except TimeoutError:
            raise ClientLeft(f"the client read nothing for {self._idle_s:g} s") from None
        except ConnectionError as error:
            raise ClientLeft(str(error)) from error
        if protocol is not None:
            protocol.resume_reading()

    def _is_whole(self, protocol: ResponseHandler | None, tail: bytes) -> bool:
        """Tell whether an answer whose bytes have ended without an error is complete."""
        if self._framed:
            return True
        error = None if protocol is None else protocol.exception()
        if isinstance(error, OSError) and error.errno is not None:
            self.lost = _loss(protocol, error)
            return False
        if self._response.content_type == "text/event-stream" and not tail.rstrip().endswith((DONE, b"data:[DONE]")):
            self.lost = Cause.LOST, "the connection was closed before data: [DONE]"
            return False
        return True

    async def _finish(self, writer: StreamWriter) -> None:
        try:
            writer.set_eof()
        except ConnectionError as error:
            raise ClientLeft(str(error)) from error
        if writer.protocol.writing_paused:
            await self._wait_for_client(writer)


def break_off(request: web.BaseRequest, out: web.StreamResponse) -> None:
    """End the client's connection so that the break can be seen, after what was written before has gone out."""
    transport = request.transport
    out.force_close()
    if transport is None:
        return
    if "Content-Length" not in out.headers and not _chunked(request):
        # For HTTP/1.0 the end of the connection is a clean end; only a reset can be told from it.
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.protocol.force_close()
    if transport.get_write_buffer_size():
        asyncio.get_running_loop().call_later(FLUSH_MAX_S, transport.abort)


def _chunked(request: web.BaseRequest) -> bool:
    return cast(StreamWriter, request.writer).chunked


def _loss(protocol: ResponseHandler | None, error: Exception) -> tuple[Cause, str]:
    """Name the loss of a connection in the middle of an answer: by FIN, by RST, or by bytes that are not HTTP."""
    if isinstance(error, PoolGarbled):
        return Cause.PROTOCOL, "the answer goes on with bytes that are not HTTP"
    at_the_socket = None if protocol is None else protocol.exception()
    if isinstance(at_the_socket, OSError) and at_the_socket.errno is not None:
        return Cause.RESET, f"{type(at_the_socket).__name__}: {at_the_socket}"
    return Cause.LOST, f"{type(error).__name__}: {error}"
