"""A request's body, and the slot it waits in until an upload takes it.

Laws
1. The body is in the slot until an upload's first poll takes it; it is taken once, whatever anybody decides later.
2. aiohttp polls an upload only after its connection stands, name lookup and TLS included (from 3.12 on not even the
   request's head leaves before that). So a slot that is still full proves that no pool had the request.
3. What was taken is freed as soon as it is written.
"""

import select
from collections.abc import Callable

from aiohttp import Payload
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import StreamWriter

PIECE_BYTES = 256 * 2**10
"""An upload is written in pieces of this size, each when the connection has taken the one before."""


class BodySlot:
    """Holds one body until it is taken."""

    __slots__ = ("_body", "_on_written", "size")

    def __init__(self, body: bytes, on_written: Callable[[], None] | None = None) -> None:
        self._body: bytes | None = body
        self._on_written = on_written
        self.size = len(body)

    @property
    def full(self) -> bool:
        """Tell whether nobody has taken the body yet."""
        return self._body is not None

    def take(self) -> bytes:
        """Take the body out. Raises RuntimeError when it is gone."""
        body, self._body = self._body, None
        if body is None:
            raise RuntimeError("the body has been handed over already")
        return body

    def written(self) -> None:
        """Take in that what was taken has been written whole: nobody holds its bytes any more."""
        if self._on_written is not None:
            self._on_written()

    def __repr__(self) -> str:
        return f"<BodySlot {'full' if self.full else 'taken'}, {self.size} bytes>"


class StaleConnection(Exception):
    """A reused connection has turned out to be dead before anything was handed over."""


class Upload(Payload):
    """What aiohttp polls to send a body. `on_connected` is called before the slot is touched and may raise."""

    _autoclose = True

    def __init__(
        self, slot: BodySlot, on_connected: Callable[[StreamWriter], None], on_taken: Callable[[], None]
    ) -> None:
        super().__init__(None)
        self._size = slot.size
        self._slot = slot
        self._on_connected = on_connected
        self._on_taken = on_taken

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Take the body and write it."""
        assert isinstance(writer, StreamWriter), "aiohttp's client writes with its own writer"
        self._on_connected(writer)
        body = self._slot.take()
        self._on_taken()
        if len(body) <= PIECE_BYTES:
            await writer.write(body)
            self._slot.written()
            return
        pieces = memoryview(body)
        del body
        for start in range(0, len(pieces), PIECE_BYTES):
            await writer.write(pieces[start : start + PIECE_BYTES])
        self._slot.written()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002  (aiohttp's signature)
        """Refuse: reading a body without handing it over would break the slot's law."""
        raise TypeError("an upload can only be written")


def is_dead(writer: StreamWriter) -> bool:
    """Tell whether a connection that was idle has been closed by the other side, or has said something unasked.

    Looks at the socket itself, since the event loop may not have come round to it yet. Over TLS unasked bytes may be
    the protocol's own, so there only the end of the connection counts.
    """
    transport = writer.transport
    if transport is None or transport.is_closing():
        return True
    protocol = writer.protocol
    if (
        isinstance(protocol, ResponseHandler) and protocol.should_close
    ):  # an answer to nothing: it would be taken for ours
        return True
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return socket is not None
    poll = select.poll()
    events = getattr(select, "POLLRDHUP", 0)
    poll.register(socket, events if transport.get_extra_info("ssl_object") else events | select.POLLIN)
    return bool(poll.poll(0))
