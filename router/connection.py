"""One client's connection: aiohttp's request handler, with the bounds and the answers that it has not got itself.

Laws
1. What is not HTTP/1.1 is answered once, in the shape of every other error, and the connection is closed.
2. A body whose framing breaks ends the wait for it at once (aiohttp 3.14.5 lets it wait for ever).
3. The last answer of a connection can be read, also by a client that is still sending: the writing side is closed after
   it, and what comes is thrown away for a while (RFC 9112, 9.6). A connection closed with bytes unread would be reset,
   which can take the answer back.
4. A head has a time-out and a size of its own, besides those of its single lines.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from router.answers import error, raw_error
from router.core.delivery import Delivery
from router.core.refusal import Code
from router.front import FAULT, Front
from router.headers import DELIVERY
from router.intake import BodyBroken
from router.reading import ReadsThroughOneBuffer
from router.strictness import fault_of

LINGER_S = 30.0
"""How long at most what a refused client still sends is read and thrown away."""
LINGER_IDLE_S = 2.0
"""How long at most nothing may come meanwhile."""
HEAD_BYTES_MAX = 128 * 2**10
"""Longest head that comes in more than one piece; one piece has at most 256 KiB."""
AHEAD_BYTES_MAX = 2**20
"""So many bytes may come while a request is under way whose own have all come; who sends more is cut off."""
OVERLOADED_RETRY_S = 5
"""What a client over the number of connections is told to wait."""
_LENGTH_DIGITS_MAX = 19
ITS_FRONT = web.RequestKey("its_front", Front)
NO_REQUEST = "UNKNOWN"
"""What aiohttp (3.14.5) gives as the method of bytes that are no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a listener allows its clients."""

    head_timeout_s: float
    connections_max: int
    keep_alive_s: float = 75.0


class Request(web.BaseRequest):
    """One request."""

    @property
    def keep_alive(self) -> bool:
        """Tell whether its connection may serve another one: not once the router is to end, whenever this one came."""
        return not (self._message.should_close or self[ITS_FRONT].draining)


class Server(web.Server):
    """Makes a handler for every connection."""

    def __init__(self, front: Front, bounds: Bounds, **options: Any) -> None:
        # A client that leaves ends its handler, and with it the send.
        super().__init__(
            front.handle, request_factory=self._request, handler_cancellation=True, lingering_time=0, **options
        )
        self.front = front
        self.bounds = bounds

    def __call__(self) -> "ClientConnection":
        """Return what handles one connection."""
        return ClientConnection(self, loop=self._loop, **self._kwargs)

    @property
    def crowded(self) -> bool:
        """Tell whether there are more connections than allowed."""
        return len(self._connections) > self.bounds.connections_max

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        fault = fault_of(message)
        if fault is not None or message.method == NO_REQUEST:
            message = message._replace(should_close=True, version=HttpVersion11)  # else the answer had its version
        elif _loses_its_place(message):
            message = message._replace(should_close=True)
        request = Request(message, payload, protocol, writer, task, self._loop)
        request[ITS_FRONT] = self.front
        if fault is not None:
            request[FAULT] = fault
        return request


class ClientConnection(web.RequestHandler, ReadsThroughOneBuffer):
    """Handles the requests of one connection, one after the other."""

    __slots__ = (
        "_ahead_bytes",
        "_broken",
        "_discarding",
        "_head_bytes",
        "_head_timer",
        "_heard_s",
        "_last_body",
        "_server",
    )

    def __init__(self, server: Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._discarding = False
        """Whether what comes is thrown away."""
        self._broken = False
        """Whether the framing of the body that is read now has broken."""
        self._last_body: StreamReader | None = None
        """The body of the last request whose head has come."""
        self._heard_s = 0.0
        self._ahead_bytes = 0
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    # ---- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if self._server.crowded:
            most = self._server.bounds.connections_max
            reason = f"The router is full: it takes {most} connections."
            self._refuse(Code.ROUTER_OVERLOADED, reason, f"Retry-After: {OVERLOADED_RETRY_S}")

    def data_received(self, data: bytes) -> None:
        """Take what has come; empty data means that what had come before can go on."""
        if self._discarding:
            self._heard_s = self._loop.time()
            return
        super().data_received(data)
        if self._messages:
            message, body = self._messages[-1]
            if isinstance(message, RawRequestMessage):
                self._last_body = body
            else:
                self._discarding = True
                self._break_the_body()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            self._head_goes_on(data)
        elif self._head_timer is not None:
            self._head_ends()
        elif self._current_request is not None and self._current_request.content.is_eof():
            self._comes_ahead(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget everything."""
        self._head_ends()
        super().connection_lost(exc)

    # ---- what aiohttp asks

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  (aiohttp's signature; it quotes what came)
    ) -> web.StreamResponse:
        """Return the answer to bytes that are no request, or to a request whose handler has failed."""
        if status == 400:
            code, reason = _fault_of(exc)
            self._server.front.on_refused(code, reason)
            answer = error(code, reason)
        else:
            self.log_exception("A handler has failed", exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("the answer has begun, no other can take its place")
            answer = error(Code.INTERNAL_ERROR, "The router has failed; its log says how.")
            answer.headers[DELIVERY] = Delivery.UNKNOWN
            answer.headers["x-should-retry"] = "false"
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer, and let the answer be read."""
        self._ahead_bytes = 0
        unread = not request.content.is_eof()
        if (unread or self._broken) and not resp.prepared:
            resp.force_close()
        told = await super().finish_response(request, resp, start_time)
        if not resp.keep_alive and self.transport is not None:
            await self._linger()
        return told

    # ---- inside

    def _break_the_body(self) -> None:
        """Tell who reads the body that has broken; what comes between requests waits for its turn to be answered."""
        content = self._last_body
        if content is None or content.is_eof():
            return
        self._messages.pop()
        self._broken = True
        content.set_exception(BodyBroken())
        content.feed_eof()

    def _comes_ahead(self, data: bytes) -> None:
        """Count what comes before its turn. The parser holds it, and has no bound of its own worth the name."""
        self._ahead_bytes += len(data)
        if self._ahead_bytes > AHEAD_BYTES_MAX and self.transport is not None:
            reason = f"More than {AHEAD_BYTES_MAX} bytes came while another request was under way."
            self._server.front.on_refused(Code.HEADERS_TOO_LARGE, reason)
            self.transport.abort()
        elif (self._reading_paused or self._buffer_paused) and self.transport is not None:
            self.transport.resume_reading()  # else nobody would hear that the client leaves

    def _head_goes_on(self, data: bytes) -> None:
        if self._head_timer is None:
            if not data.strip(b"\r\n"):  # empty lines before a request mean nothing (RFC 9112, 2.2)
                return
            self.keep_alive(True)  # ends the wait of an idle connection, which would close it in the middle of a head
            self._head_timer = self._loop.call_later(self._server.bounds.head_timeout_s, self._head_is_late)
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(Code.HEADERS_TOO_LARGE, f"The head is larger than {HEAD_BYTES_MAX} bytes.")

    def _head_is_late(self) -> None:
        bound_s = self._server.bounds.head_timeout_s
        self._refuse(Code.CLIENT_TOO_SLOW, f"The head did not arrive whole within {bound_s:g} s.")

    def _head_ends(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, code: Code, reason: str, *more: str) -> None:
        """Answer a connection on which no request is under way, and close it."""
        self._head_ends()
        self._server.front.on_refused(code, reason)
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._discarding = True
        transport.write(raw_error(code, reason, *more))
        _end_writing(transport)
        self._loop.call_later(LINGER_IDLE_S, self.force_close)

    async def _linger(self) -> None:
        """Throw away what comes until the client closes, which cancels this, or a bound is reached."""
        transport = self.transport
        assert transport is not None
        self._discarding = True
        transport.resume_reading()
        transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(LINGER_S):
                await self._drain_helper()
        except TimeoutError:
            transport.abort()  # the client does not read
            return
        _end_writing(transport)
        self._heard_s = self._loop.time()
        until_s = self._heard_s + LINGER_S
        left_s = LINGER_IDLE_S
        while left_s > 0:
            await asyncio.sleep(left_s)
            left_s = min(until_s, self._heard_s + LINGER_IDLE_S) - self._loop.time()


def _end_writing(transport: asyncio.Transport) -> None:
    """Close the writing side if everything is written; asyncio (3.11) cannot do it later without a risk."""
    if transport.can_write_eof() and not transport.is_closing() and not transport.get_write_buffer_size():
        with contextlib.suppress(OSError):  # the client has reset the connection, which is about to be heard
            transport.write_eof()


def _loses_its_place(message: RawRequestMessage) -> bool:
    """Tell whether aiohttp's parser (3.14.5) would not find the next request of the connection.

    What follows a request for an upgrade that is not granted is lost where it came in the same piece, and a length of
    2**64-1 counts as no body.
    """
    return message.upgrade or len(message.headers.get("Content-Length", "")) >= _LENGTH_DIGITS_MAX


def _fault_of(exc: BaseException | None) -> tuple[Code, str]:
    """Say what is wrong with bytes that are no request, and nothing of what they were."""
    if isinstance(exc, LineTooLong) or (isinstance(exc, BadHttpMessage) and exc.message.startswith("Too many headers")):
        return Code.HEADERS_TOO_LARGE, "A line of the head is too long, or it has too many."
    return Code.BAD_REQUEST, f"What came is not HTTP/1.1 ({type(exc).__name__})."
