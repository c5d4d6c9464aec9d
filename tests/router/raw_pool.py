"""A pool's frontend on a bare socket, which does exactly one thing wrong."""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

TOKENS = [b"data: token %d\n\n" % n for n in range(4)]
DONE = b"data: [DONE]\n\n"
STREAM = b"".join([*TOKENS, DONE])
PLAIN = b'{"object": "chat.completion"}'


class Call:
    """One connection of a client, after its request was read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pool: "RawPool") -> None:
        self.reader = reader
        self.writer = writer
        self.pool = pool
        self.head = b""
        self.body = b""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.say(b"%x\r\n%b\r\n" % (len(data), data))

    def reset(self) -> None:
        peer: socket.socket = self.writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_client_leaves(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass
        self.pool.departures += 1


Behaviour = Callable[[Call], Awaitable[None]]


class RawPool:
    """Counts connections and whole bodies. `behave` is called for each whole request; then the connection is closed
    unless `keep` is set.
    """

    def __init__(
        self, behave: Behaviour, *, keep: bool = False, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.behave = behave
        self.keep = keep
        self.host = host
        self.tls = tls
        self.bodies: list[bytes] = []
        self.heads: list[bytes] = []
        self.connections = 0
        self.departures = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def header(self, name: str, request: int = -1) -> list[str]:
        """Values of a header of one request, in the order in which they came."""
        lines = self.heads[request].decode("latin-1").split("\r\n")[1:]
        pairs = [line.partition(":") for line in lines if line]
        return [value.strip() for key, _, value in pairs if key.lower() == name]

    async def __aenter__(self) -> "RawPool":
        self._server = await asyncio.start_server(self._connection, self.host, 0, ssl=self.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections that were closed get to be forgotten by the event loop

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._requests(Call(reader, writer, self))
        finally:
            self._tasks.discard(task)
            if task.cancelling():
                writer.transport.abort()
            writer.close()

    async def _requests(self, call: Call) -> None:
        while True:
            call.head = await call.reader.readuntil(b"\r\n\r\n")
            self.heads.append(call.head)
            length = self.header("content-length")
            call.body = await call.reader.readexactly(int(length[0])) if length else b""
            self.bodies.append(call.body)
            await self.behave(call)
            if not self.keep:
                return


def head(status: int, *headers: str) -> bytes:
    return "".join([f"HTTP/1.1 {status} Whatever\r\n", *(f"{line}\r\n" for line in headers), "\r\n"]).encode()


async def ok(call: Call) -> None:
    """Answer in the way the request asks for."""
    if json.loads(call.body).get("stream"):
        await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        for event in (*TOKENS, DONE, b""):
            await call.chunk(event)
    else:
        await call.say(head(200, "Content-Type: application/json", f"Content-Length: {len(PLAIN)}") + PLAIN)


async def listing(call: Call) -> None:
    """Answer in the way the request asks for, one for the models included."""
    if call.head.startswith(b"GET /v1/models "):
        body = b'{"object": "list", "data": [{"id": "m"}]}'
        await call.say(head(200, "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
    else:
        await ok(call)


def status(number: int) -> Behaviour:
    async def behave(call: Call) -> None:
        body = b'{"error": {"message": "said by the pool", "code": "of_the_pool"}}'
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Retry-After: 7", "X-Of-Pool: yes")
        await call.say(head(number, *lines) + body)

    return behave


async def close(_: Call) -> None:
    """Close without an answer."""


async def reset(call: Call) -> None:
    call.reset()


async def silent(call: Call) -> None:
    await call.until_client_leaves()


async def garbage(call: Call) -> None:
    await call.say(b"220 mail.example ESMTP\r\n\r\n")


def cut(*, stream: bool, by_reset: bool) -> Behaviour:
    """Send half of an answer in one piece, then end the connection."""

    async def behave(call: Call) -> None:
        if stream:
            lines = ("Content-Type: text/event-stream", "Transfer-Encoding: chunked")
            half = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in TOKENS)
        else:
            lines = ("Content-Type: application/json", f"Content-Length: {len(PLAIN)}")
            half = PLAIN[: len(PLAIN) // 2]
        await call.say(head(200, *lines) + half)
        if by_reset:
            call.reset()

    return behave


async def endless(call: Call) -> None:
    """Stream tokens until the client leaves."""
    await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
    leaving = asyncio.ensure_future(call.until_client_leaves())
    with contextlib.suppress(ConnectionError):
        while not leaving.done():
            await call.chunk(TOKENS[0])
            await asyncio.sleep(0.01)
    await leaving


class Refusing:
    """An address where every connect is refused: bound by us, so that nobody else can listen there."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._socket.getsockname())

    async def __aenter__(self) -> "Refusing":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._socket.close()


class BlackHole(Refusing):
    """An address where every connect hangs: its accept queue is full and nobody accepts."""

    async def __aenter__(self) -> "BlackHole":
        self._socket.listen(0)
        self._filling = [socket.socket() for _ in range(3)]
        for client in self._filling:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(self._socket.getsockname())
        await asyncio.sleep(0.05)
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._filling:
            client.close()
        self._socket.close()


class AcceptingAndClosing(RawPool):
    """A frontend whose process is dead behind something that still accepts."""

    def __init__(self) -> None:
        super().__init__(close)

    async def _requests(self, _: Call) -> None:
        await asyncio.sleep(0)


Faulty = RawPool | Refusing
