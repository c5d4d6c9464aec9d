"""Pools of a world: each request is answered as its own plan says, whoever gets it; what came is written down."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping

from tests.virtual.answers import Said, answer_of
from tests.virtual.network import Address, Connection
from tests.virtual.plan import Ask, Break, Kind
from tests.virtual.sockets import connection_of

MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()


class Served:
    """One request that a frontend has seen, at least its head."""

    __slots__ = (
        "answer_bytes",
        "answer_from",
        "answered",
        "body",
        "body_s",
        "broke",
        "connection",
        "frontend",
        "head",
        "head_s",
        "name",
        "pool",
    )  # fmt: skip

    def __init__(
        self, name: str, head: bytes, *, pool: str, frontend: str, connection: Connection, now_s: float
    ) -> None:
        self.name = name
        self.head = head
        self.pool = pool
        self.frontend = frontend
        self.connection = connection
        self.head_s = now_s
        self.body: bytes | None = None
        """The whole body; None: not all of it has come."""
        self.body_s = float("inf")
        self.answer_from: int | None = None
        """Bytes that went down the connection before the answer; None: it has not begun."""
        self.answer_bytes = 0
        """Bytes of the answer that were written."""
        self.answered = False
        """The whole answer was written."""
        self.broke: Break | None = None
        """How the pool stopped in the middle of its answer."""

    @property
    def arrived_bytes(self) -> int:
        """Return how many bytes of its answer have come to the router."""
        return self._of_answer(self.connection.down.arrived_bytes)

    @property
    def read_bytes(self) -> int:
        """Return how many bytes of its answer the router has read."""
        return self._of_answer(self.connection.down.read_bytes)

    def _of_answer(self, count: int) -> int:
        return 0 if self.answer_from is None else min(max(0, count - self.answer_from), self.answer_bytes)

    def __repr__(self) -> str:
        return f"<Served {self.name} at {self.frontend}>"


class Frontend:
    """One frontend of a pool: listens, and can be killed and started again."""

    def __init__(self, pool: str, name: str, address: Address, asks: Mapping[str, Ask]) -> None:
        self.pool = pool
        self.name = name
        self.address = address
        self.asks = asks
        self.served: list[Served] = []
        self.unknown: list[str] = []
        """Request ids that nobody has issued."""
        self.connections: dict[PoolConnection, None] = {}
        self._server: asyncio.Server | None = None
        self._starts = False

    @property
    def up(self) -> bool:
        """Tell whether it listens, or is about to."""
        return self._starts or self._server is not None

    async def start(self) -> None:
        """Listen, if it does not yet."""
        if self.up:
            return
        loop = asyncio.get_running_loop()
        self._starts = True
        server = await loop.create_server(lambda: PoolConnection(self), *self.address)
        if self._starts:
            self._server, self._starts = server, False
        else:  # killed meanwhile
            server.close()

    def kill(self) -> None:
        """End at once, as a killed process does."""
        self._starts = False
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.drop()

    def end_idle(self) -> None:
        """Close the connections on which nothing is under way."""
        for connection in list(self.connections):
            if connection.idle:
                connection.end(Break.FIN)

    def say_unasked(self) -> None:
        """Say something on the connections on which nothing is under way."""
        for connection in list(self.connections):
            if connection.idle:
                connection.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")


class PoolConnection(asyncio.Protocol):
    """A frontend's end of one connection."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._served: Served | None = None
        self._ask: Ask | None = None
        self._left = 0
        self._body = bytearray()
        self._pieces: list[bytes] = []
        self._written = 0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._waiting = False
        self._began = False

    # ---- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connection = connection_of(transport)
        self._frontend.connections[self] = None

    def connection_lost(self, _: Exception | None) -> None:
        self._frontend.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._waiting:
            self._waiting = False
            # Not at once: asyncio 3.11 loses its way where a transport is closed while it tells that it has room.
            self._timer = self._loop.call_later(0, self._say_next)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._read_on()

    # ---- what a frontend does

    @property
    def idle(self) -> bool:
        """Tell whether nothing is under way, the end of the connection included."""
        return self._served is None and not self._transport.is_closing()

    @property
    def served(self) -> Served | None:
        """Return the request that is under way."""
        return self._served

    def write(self, data: bytes) -> None:
        """Write something; counted, so that it is known where an answer begins."""
        self._written += len(data)
        self._transport.write(data)

    def end(self, how: Break) -> None:
        """End the connection."""
        if how is Break.FIN:
            self._transport.close()
        elif how is Break.RESET:
            peer = self._transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def drop(self) -> None:
        """End the connection as it ends with its process: what was not yet given to the kernel is lost."""
        self._transport.abort()

    def _read_on(self) -> None:
        if self._served is None and not self._read_head():
            return
        taken = self._buffer[: self._left]
        del self._buffer[: self._left]
        self._left -= len(taken)
        self._body += taken
        served, ask = self._served, self._ask
        if served is None or ask is None or served.body is not None:
            return
        limit = ask.answer.reads_bytes
        if limit is not None and len(self._body) >= limit and self._left:
            self._transport.pause_reading()
            return
        if not self._left:
            served.body, served.body_s = bytes(self._body), self._loop.time()
            if not ask.answer.early:
                self._begin(ask)

    def _read_head(self) -> bool:
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return False
        self._buffer = rest
        lines = head.decode("latin-1").split("\r\n")
        if lines[0].startswith("GET "):
            self.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
            return False
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        name = headers.get("x-request-id", "")
        ask = self._frontend.asks.get(name)
        if ask is None:
            self._frontend.unknown.append(name)
            self.end(Break.RESET)
            return False
        front = self._frontend
        self._ask, self._left, self._body = ask, int(headers["content-length"]), bytearray()
        self._served = Served(
            name,
            bytes(head),
            pool=front.pool,
            frontend=front.name,
            connection=self._connection,
            now_s=self._loop.time(),
        )
        front.served.append(self._served)
        if ask.answer.early:
            self._begin(ask)
        return True

    def _begin(self, ask: Ask) -> None:
        answer, said = ask.answer, answer_of(ask)
        if answer.kind is Kind.SILENT:
            return
        assert self._served is not None
        self._began = False
        self._pieces = list(_cut_off(said, answer.breaks_at))
        if answer.breaks_at is not None and answer.breaks_at < len(said.wire):
            self._served.broke = answer.breaks_by
        self._timer = self._loop.call_later(answer.think_s, self._say_next)

    def _say_next(self) -> None:
        served, ask = self._served, self._ask
        assert served is not None
        assert ask is not None
        if self._paused:
            self._waiting = True
            return
        if not self._began:
            self._began, served.answer_from = True, self._written
        if self._pieces:
            piece = self._pieces.pop(0)
            served.answer_bytes += len(piece)
            self.write(piece)
        if self._pieces:
            self._timer = self._loop.call_later(ask.answer.pause_s, self._say_next)
        else:
            self._finish(served, ask)

    def _finish(self, served: Served, ask: Ask) -> None:
        if served.broke is not None:
            self.end(served.broke)
            return
        kind = ask.answer.kind
        served.answered = kind not in {Kind.DROPPED, Kind.GARBAGE, Kind.BAD_CHUNK}
        if kind in {Kind.DROPPED, Kind.UNTIL_CLOSE, Kind.GARBAGE, Kind.BAD_CHUNK} or ask.answer.closes or self._left:
            self.end(Break.FIN)
        self._served = self._ask = None
        if self._buffer:
            self._read_on()


def _cut_off(said: Said, at: int | None) -> list[bytes]:
    """Return the pieces up to a byte."""
    if at is None:
        return list(said.pieces)
    pieces, left = [], at
    for piece in said.pieces:
        if left <= 0:
            break
        pieces.append(piece[:left])
        left -= len(piece)
    return pieces
