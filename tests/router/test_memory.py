"""What bodies cost in memory, measured at a router process of its own.

Bounds above the idle router: while a body is being admitted twice its size and 16 MiB, once it has been the size and
16 MiB, and 16 MiB when it is written, however long the answer takes.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.router.raw_pool import BlackHole, Call, RawPool, Refusing, head
from tests.router.test_cli import ROOT, START_S
from tests.router.test_uploads import body_of
from tests.router.wire import Wire

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc, which only Linux has")

MIB = 2**20
MARGIN = 16 * MIB
SIZE = 20 * MIB


class Router:
    """A process under measurement."""

    def __init__(self, pid: int, port: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        self.port = port

    @property
    def now_bytes(self) -> int:
        return self._status("VmRSS")

    @property
    def peak_bytes(self) -> int:
        """Most memory since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        (self._proc / "clear_refs").write_text("5")

    def _status(self, key: str) -> int:
        (line,) = [row for row in (self._proc / "status").read_text().splitlines() if row.startswith(key)]
        return int(line.split()[1]) * 1024


@asynccontextmanager
async def router_of(*urls: str) -> AsyncIterator[Router]:
    pools = [part for name, url in zip("ab", urls, strict=False) for part in ("--pool", f"{name}={url}")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "router", "--port", "0", "--connect-timeout-s", "30", "--patience-s", "30", *pools,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = json.loads(await asyncio.wait_for(process.stdout.readline(), START_S))
        yield Router(line["pid"], int(line["url"].rpartition(":")[2]))
    finally:
        process.kill()
        await process.communicate()


@asynccontextmanager
async def upload(router: Router, body: bytes, *, chunked: bool = False) -> AsyncIterator[Wire]:
    """Send a whole request and give its connection back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\n" + framing + b"\r\n\r\n")
    for at in range(0, len(body), 65_536):
        piece = body[at : at + 65_536]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        await writer.drain()
    writer.write(b"0\r\n\r\n" if chunked else b"")
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_that_waits_for_a_pool(chunked: bool) -> None:
    """A connect hangs: the body is admitted, and nobody has it yet."""
    async with BlackHole() as hole, router_of(hole.url) as router:
        async with upload(router, b'{"model": "m"}'):
            await asyncio.sleep(0.2)
        idle = router.now_bytes
        router.forget_peak()
        async with upload(router, body_of(SIZE), chunked=chunked):
            await settled(router, at_least=idle + SIZE // 2)
            assert router.peak_bytes - idle <= 2 * SIZE + MARGIN
            assert router.now_bytes - idle <= SIZE + MARGIN


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_that_goes_to_the_second_pool(chunked: bool) -> None:
    may_answer = asyncio.Event()

    async def waits(call: Call) -> None:
        await may_answer.wait()
        await call.say(head(200, "Content-Length: 2") + b"{}")

    async with Refusing() as refusing, RawPool(waits) as pool, router_of(refusing.url, pool.url) as router:
        may_answer.set()
        async with upload(router, b'{"model": "m"}') as client:
            assert (await client.answer() or client).status == 200  # type: ignore[union-attr]
        may_answer.clear()
        idle = router.now_bytes
        router.forget_peak()
        async with upload(router, body_of(SIZE), chunked=chunked) as client:
            while len(pool.bodies) < 2:  # noqa: ASYNC110  (it is in a test's list)
                await asyncio.sleep(0.01)
            assert router.peak_bytes - idle <= 2 * SIZE + MARGIN
            await settled(router)
            assert router.now_bytes - idle <= MARGIN  # freed, though the answer has not begun
            may_answer.set()
            assert (await client.answer() or client).status == 200  # type: ignore[union-attr]


async def test_a_body_that_is_refused_costs_nothing() -> None:
    async with BlackHole() as hole, router_of(hole.url) as router:
        async with upload(router, b'{"model": "m"}'):
            await asyncio.sleep(0.2)
        idle = router.now_bytes
        router.forget_peak()
        async with upload(router, b"x" * (100 * MIB)) as client:
            answer = await client.answer()
            assert answer is not None
            assert answer.named == "413 body_too_large"
        assert router.peak_bytes - idle <= MARGIN


async def test_a_client_that_never_reads_a_stream_of_200_mb() -> None:
    written = 0

    async def pours(call: Call) -> None:
        nonlocal written
        await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        for _ in range(200 * 16):
            await call.chunk(b"data: " + b"x" * (MIB // 16 - 8) + b"\n\n")
            written += MIB // 16

    async with RawPool(pours) as pool, router_of(pool.url) as router:
        async with upload(router, b'{"model": "m"}') as client:
            await client.reader.readuntil(b"data: ")
        idle = router.now_bytes
        router.forget_peak()
        written = 0
        async with upload(router, b'{"model": "m"}'):
            await settled(router)
            before = -1
            while written != before:  # until the pool has to wait
                before = written
                await asyncio.sleep(0.3)
            assert 0 < written < 100 * MIB
            assert router.peak_bytes - idle < 8 * MIB


async def settled(router: Router, *, at_least: int = 0) -> None:
    """Wait until the process's memory does not change any more."""
    before = -1
    for _ in range(200):
        now = router.now_bytes
        if now == before and now >= at_least:
            return
        before = now
        await asyncio.sleep(0.1)
    raise TimeoutError("the router's memory does not settle")
