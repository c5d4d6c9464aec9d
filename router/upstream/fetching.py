"""Getting a small document from a frontend: probes and lists of models, each one request and never a second."""

from typing import NamedTuple

from router.core.bounds import Bounds
from router.upstream.connection import Connection
from router.upstream.faults import Lost, UpstreamError


class Fetched(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


class TooLong(UpstreamError):
    """The document is longer than anybody wants to read."""


class _Collected:
    """Takes the pieces of an answer, up to a bound."""

    def __init__(self, bytes_max: int) -> None:
        self.pieces: list[bytes] = []
        self._left_bytes = bytes_max

    def take(self, data: bytes, *, last: bool) -> bool:  # noqa: ARG002  (a Taker's signature)
        """Keep a piece; True: it is too much."""
        self.pieces.append(data)
        self._left_bytes -= len(data)
        return self.too_long

    @property
    def too_long(self) -> bool:
        """Tell whether more has come than was wanted."""
        return self._left_bytes < 0


async def fetch(connection: Connection, head: bytes, bounds: Bounds, *, bytes_max: int) -> Fetched:
    """Send a request without a body and return its whole answer.

    Raises OSError or an UpstreamError.
    """
    if connection.closed:
        raise Lost("the pool closed the connection")
    connection.hand_over(head, b"", bounds)
    answer = await connection.answered()
    collected = _Collected(bytes_max)
    collected.take(connection.pass_to(collected), last=connection.whole)
    while not (connection.whole or connection.closed or collected.too_long):
        await connection.changed()
    if connection.failure is not None:
        raise connection.failure
    if collected.too_long:
        raise TooLong(f"more than {bytes_max} bytes")
    if answer is None:
        raise Lost("the connection was cut")
    return Fetched(answer.status, b"".join(collected.pieces))
