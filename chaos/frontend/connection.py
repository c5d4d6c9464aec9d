"""HTTP/1.1 on one socket, as a server: h11 parses and frames, asyncio moves the bytes.

Laws
1. A call is answered once its whole body is there; one call at a time, in order.
2. When the peer is gone, the answer's task is cancelled at once.
3. Bodies, heads and what a peer sends ahead of its turn are bounded.
"""

import asyncio
import contextlib
from typing import Protocol

import h11

from chaos.frontend.wire import REQUEST_ID_MAX, Headers, common_headers
from scenarios.world.answers import error_body

KEEP_ALIVE_S = 5.0
"""Idle time after which a connection is closed; the default of uvicorn, and so of vLLM."""
HEAD_BYTES_MAX = 65_536
BODY_BYTES_MAX = 64 * 2**20
AHEAD_BYTES_MAX = 65_536
"""What a peer may send ahead while its last call is being answered."""


class Call:
    """One HTTP call and the means to answer it. `body` is whole when the service is asked to answer."""

    __slots__ = ("_connection", "body", "close", "headers", "method", "path")

    def __init__(self, request: h11.Request, connection: "Connection") -> None:
        self.method = request.method.decode("ascii")
        self.path = request.target.partition(b"?")[0].decode("ascii")
        self.headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
        tokens = self.headers.get("connection", "").lower().replace(" ", "").split(",")
        self.close = request.http_version < b"1.1" or "close" in tokens
        self.body = bytearray()
        self._connection = connection

    @property
    def request_id(self) -> str | None:
        """The id that the harness gave the HTTP request; what could not be echoed is none."""
        request_id = self.headers.get("x-request-id", "")
        return request_id if request_id.isascii() and 0 < len(request_id) <= REQUEST_ID_MAX else None

    async def head(self, status: int, headers: Headers, *pieces: bytes) -> None:
        """Send an answer's head together with the first pieces of its body, in one write."""
        head = h11.Response(status_code=status, reason=_REASONS.get(status, b""), headers=headers)
        await self._connection.send(head, *(h11.Data(data=piece) for piece in pieces))

    async def pieces(self, *pieces: bytes, last: bool = False) -> None:
        """Send pieces of the body in one write, each framed by itself; `last` ends the answer in the same write."""
        end = [h11.EndOfMessage()] if last else []
        await self._connection.send(*(h11.Data(data=piece) for piece in pieces), *end)

    async def whole(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """Send a whole JSON answer in one write."""
        described = [("content-type", "application/json"), ("content-length", str(len(body)))]
        fields = [*described, *common_headers(self.request_id, close=self.close), *(headers or [])]
        head = h11.Response(status_code=status, reason=_REASONS.get(status, b""), headers=fields)
        await self._connection.send(head, h11.Data(data=body), h11.EndOfMessage())

    async def error(self, status: int, code: str, message: str, headers: Headers | None = None) -> None:
        """Send an error in the shape of OpenAI's API."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        await self.whole(status, error_body(code, message, kind), headers)

    def drop(self) -> None:
        """Close the connection without an answer."""
        self._connection.drop()


class Service(Protocol):
    """What stands behind the connections."""

    def opened(self, call: Call) -> None:
        """Take notice of a call whose head has arrived."""
        ...

    async def answer(self, call: Call) -> None:
        """Answer a call; cancelled when its peer has gone."""
        ...


class Connection(asyncio.Protocol):
    """One accepted socket."""

    def __init__(self, service: Service, connections: set["Connection"], answers: "set[asyncio.Task[None]]") -> None:
        self._service = service
        self._connections = connections
        self._answers = answers
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        self._call: Call | None = None
        self._answering: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and act on every event that they complete."""
        self._stop_idling()
        self._parser.receive_data(data)
        if self._answering is not None and len(self._parser.trailing_data[0]) > AHEAD_BYTES_MAX:
            self._transport.abort()
            return
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - how it was lost makes no difference
        """Cancel what the peer no longer waits for."""
        self._stop_idling()
        self._connections.discard(self)
        self._writable.set()
        if self._answering is not None:
            self._answering.cancel()

    def pause_writing(self) -> None:
        """Hold answers back: the peer reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let answers flow again."""
        self._writable.set()

    async def send(self, *events: h11.Event) -> None:
        """Write events in one go, and wait while the peer reads too slowly."""
        self._transport.write(b"".join(self._parser.send(event) or b"" for event in events))
        await self._writable.wait()

    def drop(self) -> None:
        """Close at once; the kernel sends FIN, since everything that came was read."""
        self._transport.abort()

    def _advance(self) -> None:
        try:
            while self._take(self._parser.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _take(self, event: object) -> bool:
        """Act on one event; false when there is nothing more to take for now."""
        if isinstance(event, h11.Request):
            self._call = Call(event, self)
            self._service.opened(self._call)
            if self._parser.they_are_waiting_for_100_continue:
                self._transport.write(self._parser.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        elif isinstance(event, h11.Data):
            return self._take_body(event.data)
        elif isinstance(event, h11.EndOfMessage):
            self._answering = self._loop.create_task(self._answer())
            self._answers.add(self._answering)
            self._answering.add_done_callback(self._answered)
        else:
            return False
        return True

    def _take_body(self, data: bytes) -> bool:
        assert self._call is not None, "h11 gives a body only after its head"
        self._call.body += data
        if len(self._call.body) > BODY_BYTES_MAX:
            self._refuse(413, f"a body may have {BODY_BYTES_MAX} bytes at most")
            return False
        return True

    async def _answer(self) -> None:
        assert self._call is not None, "an answer needs its call"
        await self._service.answer(self._call)

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self._answering = None
        self._answers.discard(task)
        if task.cancelled() or self._transport.is_closing():
            return
        if (error := task.exception()) is not None:
            self._transport.abort()
            raise error  # reported by the loop's handler, with its traceback
        if self._parser.our_state is not h11.DONE or self._parser.their_state is not h11.DONE:
            self._transport.close()
            return
        self._parser.start_next_cycle()
        self._idle = self._loop.call_later(KEEP_ALIVE_S, self._transport.close)
        self._advance()

    def _refuse(self, status: int, message: str) -> None:
        """Answer what cannot be understood or taken, and close."""
        body = error_body("bad_request", message, "invalid_request_error")
        headers = [("content-length", str(len(body))), ("content-type", "application/json"), ("connection", "close")]
        events = (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        with contextlib.suppress(h11.LocalProtocolError):  # an answer is already under way: closing says enough
            self._transport.write(b"".join(self._parser.send(event) or b"" for event in events))
        self._transport.close()

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


class Listener:
    """A listening socket and its connections, on 127.0.0.1 only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connections: set[Connection] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Start to accept. Raises OSError."""
        self._server = await asyncio.get_running_loop().create_server(self._make, host, port)

    async def close(self) -> None:
        """Stop accepting, drop every connection, and wait until their answers have noticed."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.drop()
        await asyncio.gather(*self._answers, return_exceptions=True)

    def _make(self) -> Connection:
        return Connection(self._service, self._connections, self._answers)


_REASONS = {200: b"OK", 400: b"Bad Request", 404: b"Not Found", 405: b"Method Not Allowed"}
