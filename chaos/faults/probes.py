"""Probes of a target on 127.0.0.1, in raw bytes: an HTTP client would hide what they must tell apart.

Each is bounded and returns what it saw; none raises for anything that the other side does. Only `post` hands over a
body, and its model is one that no pool serves: a frontend answers it at once, without work and without a slot.
"""

import asyncio
import contextlib
import errno
import json
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from chaos.faults.fault import ProbeIds
from chaos.ports import LOOPBACK

PROBE_WAIT_S = 5.0
"""Longest wait for what a probe wants to see."""
HOLD_S = 0.05
"""How long `post` holds the last byte of its body back, to see whether the other side waits for it."""
READ_BYTES_MAX = 65_536
NO_MODEL = "pooldrill-probe"

End = Literal["fin", "reset", "refused", "open"]

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d) ")
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_GET = f"GET /v1/models HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode()


@dataclass(frozen=True, slots=True)
class Connect:
    """How a connect went, and after how many seconds."""

    kind: Literal["connected", "refused", "hung", "failed"]
    after_s: float
    error: str = ""

    def __str__(self) -> str:
        return f"connect: {self.error or self.kind} after {self.after_s * 1e3:.1f} ms"


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back on a connection.

    `end`: fin, reset, refused (no connection), or open when the probe had seen enough or its wait was over. `early`:
    the other side spoke or closed before it had the whole body.
    """

    received: int
    status: int | None
    end: End
    early: bool = False

    def __str__(self) -> str:
        status = "" if self.status is None else f"status {self.status}, "
        return f"{status}{self.received} bytes, {self.end}{' before the body was whole' if self.early else ''}"


async def connect(port: int, *, wait_s: float) -> Connect:
    """Try to connect for at most `wait_s` seconds."""
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            async with asyncio.timeout(wait_s):
                await loop.sock_connect(sock, (LOOPBACK, port))
        except TimeoutError:
            # A loop that was late may find the time-out and the connection at once: then it did not hang.
            return Connect("connected" if is_connected(sock) else "hung", loop.time() - begin_s)
        except OSError as error:
            kind: Literal["refused", "failed"] = "refused" if error.errno == errno.ECONNREFUSED else "failed"
            return Connect(kind, loop.time() - begin_s, errno.errorcode.get(error.errno or 0, str(error)))
    return Connect("connected", loop.time() - begin_s)


async def get(port: int, *, enough: int = 1, to_the_end: bool = False) -> Seen:
    """Ask for the models, again on the same connection until `enough` bytes of answers came.

    `to_the_end`: then ask no more, and read until the other side ends the connection.
    """
    received, status, answer = 0, None, b""
    try:
        async with asyncio.timeout(PROBE_WAIT_S), _connection(port) as (reader, writer):
            while received < enough or to_the_end:
                # One at a time: a close over a question that nobody read would be a reset.
                if received < enough and not answer:
                    writer.write(_GET)
                if not (data := await reader.read(READ_BYTES_MAX)):
                    return Seen(received, status, "fin")
                received += len(data)
                answer += data
                status = status or _status(answer)
                answer = b"" if _is_whole(answer) else answer
    except OSError as error:
        return Seen(received, status, _end(error))
    return Seen(received, status, "open")


async def post(port: int, ids: ProbeIds) -> Seen:
    """Send a completion request, its last byte `HOLD_S` seconds after the rest, and wait for an answer or an end."""
    request, early = _completion(ids), False
    try:
        async with asyncio.timeout(PROBE_WAIT_S), _connection(port) as (reader, writer):
            writer.write(request[:-1])
            reading = asyncio.ensure_future(reader.read(READ_BYTES_MAX))
            early = bool((await asyncio.wait([reading], timeout=HOLD_S))[0])
            writer.write(request[-1:])
            data = await reading
    except OSError as error:
        return Seen(0, None, _end(error), early)
    return Seen(len(data), _status(data), "open" if data else "fin", early)


def is_connected(sock: socket.socket) -> bool:
    """Whether a connect that was started on a non-blocking socket has succeeded."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


@contextlib.asynccontextmanager
async def _connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn


def _completion(ids: ProbeIds) -> bytes:
    body = json.dumps({"model": NO_MODEL, "messages": [], "operation_id": ids.operation_id}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Type: application/json\r\n"
        f"x-request-id: {ids.request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _status(data: bytes) -> int | None:
    found = _STATUS.match(data)
    return int(found[1]) if found else None


def _is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    length = _CONTENT_LENGTH.search(head)
    return bool(found) and length is not None and len(body) >= int(length[1])


def _end(error: OSError) -> End:
    if isinstance(error, TimeoutError):
        return "open"
    return "refused" if isinstance(error, ConnectionRefusedError) else "reset"
