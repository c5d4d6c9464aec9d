"""A client that sends bytes as they are and reads answers strictly."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.router.live import Live

BOUND_S = 10.0
"""Longest wait for anything that the router must do; what takes longer hangs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it came; `named` is its status and, for the router's own, the code."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def named(self) -> str:
        if "x-of-the-pool" in self.headers or self.status < 400:
            return str(self.status)
        return f"{self.status} {json.loads(self.body)['error']['code']}"


class Wire:
    """One connection to a router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, pieces: Iterable[bytes]) -> float:
        """Send pieces, each on its own way; what the router does not take any more is not sent.

        Returns the longest time between two pieces, in seconds: on a busy machine the client itself may be slow.
        """
        now = asyncio.get_running_loop().time
        longest_s, last_s = 0.0, now()
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()
                await asyncio.sleep(0)
                longest_s, last_s = max(longest_s, now() - last_s), now()
        return longest_s

    async def answer(self) -> Answer | None:
        """Read one answer; None: the router has closed. Raises ValueError for what is none."""
        async with asyncio.timeout(BOUND_S):
            while True:
                answer = await self._read()
                if answer is None or answer.status >= 200:
                    return answer

    async def closed(self) -> bool:
        """Tell whether the router closes the connection and says nothing before."""
        async with asyncio.timeout(BOUND_S):
            return await self.reader.read(1) == b""

    async def closed_after_all(self) -> None:
        """Wait until the router closes the connection, in whatever way and after whatever it says."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(BOUND_S):
                await self.reader.read(-1)

    async def _read(self) -> Answer | None:
        head = await self.reader.readline()
        if not head:
            return None
        version, status, _ = head.decode("ascii").split(" ", 2)
        if version not in {"HTTP/1.1", "HTTP/1.0"} or not head.endswith(b"\r\n"):
            raise ValueError(head)
        headers: dict[str, str] = {}
        while (line := await self.reader.readline()) != b"\r\n":
            name, colon, value = line.decode().partition(":")
            if not colon or not line.endswith(b"\r\n"):
                raise ValueError(line)
            headers[name.lower()] = value.strip()
        return Answer(int(status), headers, await self._body(int(status), headers))

    async def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if status < 200:
            return b""
        if headers.get("transfer-encoding") == "chunked":
            pieces = []
            while size := int(await self.reader.readline(), 16):
                pieces.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            return b"".join(pieces)
        if "content-length" not in headers:  # HTTP/1.0: the end of the connection is the end
            return await self.reader.read(-1)
        return await self.reader.readexactly(int(headers["content-length"]))


@asynccontextmanager
async def wire(router: Live) -> AsyncIterator[Wire]:
    """Open a connection, and leave it without a word."""
    host, port = router.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**20)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)
