"""Clients that cost next to nothing: fixed bytes out, and of what comes in only its end is looked for."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from router.reading import ReadsThroughOneBuffer

SETTLE_S = 60.0
"""Longest wait for anything; who needs it is broken."""
PLAIN = "plain"
OPENING_MAX = 32
"""Streams that are opened at one time."""
HEADERS = (
    "Accept: application/json\r\nContent-Type: application/json\r\nUser-Agent: OpenAI/Python 3.57.0\r\n"
    "Authorization: Bearer sk-none\r\nAccept-Encoding: gzip, deflate\r\nx-stainless-lang: python\r\n"
    "x-stainless-package-version: 3.57.0\r\nx-stainless-os: Linux\r\nx-stainless-arch: x64\r\n"
    "x-stainless-runtime: CPython\r\nx-stainless-runtime-version: 3.11.0\r\nx-stainless-async: false\r\n"
    "x-stainless-retry-count: 0\r\nx-stainless-read-timeout: 600\r\nx-request-id: req-0\r\n"
)
"""What OpenAI's client for Python sends."""

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"


class BadAnswerError(RuntimeError):
    """An answer that is none: the benchmark would measure something else."""


def request(port: int, word: str = PLAIN) -> bytes:
    """Return a chat request; for `word` see fixed_pool."""
    content = f"{word}. {'Say in one sentence what a router for inference servers does. ' * 4}"
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": content}], "stream": word != PLAIN, "seed": 1}
    )
    line = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    return f"{line}{HEADERS}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Asker(ReadsThroughOneBuffer):
    """One connection that asks again and again; `ended` is set with the seconds that each answer took."""

    def __init__(self, asked: bytes, count: int) -> None:
        self._asked = asked
        self._left = count
        self._missing: int | None = None
        self._took_s: list[float] = []
        self.ended: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the first time."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        """Say so if it came too early."""
        if not self.ended.done():
            self.ended.set_exception(BadAnswerError(f"the connection was closed ({error})"))

    def data_received(self, data: bytes) -> None:
        """Look for the end of the answer, by its length if it has one."""
        if self._missing is None:
            if not data.startswith(b"HTTP/1.1 200"):
                self._fail(data)
                return
            head = data.find(b"\r\n\r\n")
            length = _LENGTH.search(data, 0, head)
            self._missing = head + 4 + int(length[1]) if length else -1
        if self._missing >= 0:
            self._missing -= len(data)
        if self._missing == 0 or (self._missing < 0 and data.endswith(_LAST_CHUNK)):
            self._took_s.append(time.perf_counter() - self._since_s)
            self._left -= 1
            self._ask()

    def _ask(self) -> None:
        if not self._left:
            self.ended.set_result(self._took_s)
            self._transport.close()
            return
        self._missing = None
        self._since_s = time.perf_counter()
        self._transport.write(self._asked)

    def _fail(self, data: bytes) -> None:
        self.ended.set_exception(BadAnswerError(f"not a good answer: {data[:200]!r}"))
        self._transport.close()


async def ask(port: int, *, count: int, connections: int) -> list[float]:
    """Make `count` plain requests over so many connections; returns the seconds of each. Raises BadAnswerError."""
    loop, asked = asyncio.get_running_loop(), request(port)
    askers = [Asker(asked, count // connections) for _ in range(connections)]
    for asker in askers:
        await loop.create_connection(lambda asker=asker: asker, "127.0.0.1", port)  # type: ignore[misc]
    async with asyncio.timeout(SETTLE_S):
        took_s = await asyncio.gather(*(asker.ended for asker in askers))
    return [seconds for some in took_s for seconds in some]


class Stream(ReadsThroughOneBuffer):
    """One stream, read and forgotten. `events` counts what has come of it."""

    def __init__(self, asked: bytes) -> None:
        self._asked = asked
        self._answered = False
        self.events = 0
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._asked)

    def connection_lost(self, error: Exception | None) -> None:
        """Say so if it came too early."""
        self._fail(f"the connection was closed ({error})")

    def data_received(self, data: bytes) -> None:
        """Count."""
        if not self._answered:
            self._answered = True
            if not data.startswith(b"HTTP/1.1 200"):
                self._fail(f"not a good answer: {data[:400]!r}")
                self.transport.abort()
                return
        self.events += data.count(b"data: ")
        if self.events and not self.begun.done():
            self.begun.set_result(None)
        if data.endswith(_LAST_CHUNK) and not self.ended.done():
            self.ended.set_result(None)
            self.transport.close()

    def _fail(self, why: str) -> None:
        for future in (self.begun, self.ended):
            if not future.done():
                future.set_exception(BadAnswerError(why))
                future.exception()  # whoever waits still gets it; nobody may wait


@asynccontextmanager
async def streams(port: int, word: str, count: int) -> AsyncIterator[list[Stream]]:
    """Open so many streams, and give those that have begun; who was refused is not among them. Cut them at the end."""
    loop, asked = asyncio.get_running_loop(), request(port, word)
    opened: list[Stream] = []
    begun: list[Stream] = []
    opening = asyncio.Semaphore(OPENING_MAX)

    async def one() -> None:
        async with opening:
            stream = Stream(asked)
            await loop.create_connection(lambda: stream, "127.0.0.1", port)
            opened.append(stream)
            with suppress(BadAnswerError):
                await stream.begun
                begun.append(stream)

    try:
        async with asyncio.timeout(SETTLE_S), asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(one())
        yield begun
    finally:
        for stream in opened:
            stream.transport.abort()
        await asyncio.sleep(0)  # transports get to close their sockets
