"""The end of a router, as whoever stands before it sees it."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from router.settings import ShellConfig
from tests.router import raw_pool
from tests.router.framing_corpus import BODY, LENGTH, head
from tests.router.live import Live, live, until
from tests.router.raw_pool import Call, RawPool, ok, silent
from tests.router.test_cli import START_S, ended, process, ready
from tests.router.wire import Answer, Wire, wire

READY = b"GET /readyz HTTP/1.1\r\nHost: r\r\n\r\n"
WHOLE = head(LENGTH) + BODY


class Stream:
    """A pool's stream that goes on when it is told."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        await call.say(raw_pool.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.chunk(raw_pool.TOKENS[0])
        await self.go_on.wait()
        await call.chunk(raw_pool.DONE)
        await call.chunk(b"")


@asynccontextmanager
async def streaming(router: Live) -> AsyncIterator[Wire]:
    """Open a stream and read its first token."""
    async with wire(router) as client:
        await client.send([WHOLE])
        await asyncio.wait_for(client.reader.readuntil(raw_pool.TOKENS[0]), 5)
        yield client


async def told(client: Wire, request: bytes) -> Answer:
    await client.send([request])
    answer = await client.answer()
    assert answer is not None
    return answer


async def test_who_is_connected_hears_of_the_end_with_the_next_answer(tmp_path: Path) -> None:
    """An idle connection that is simply closed takes the request with it that is just on its way."""
    stream = Stream()
    async with RawPool(stream) as pool, RawPool(ok) as other, live(tmp_path, pool.url, other.url) as router:
        async with streaming(router) as running, wire(router) as probe, wire(router) as busy, wire(router) as late:
            for client in (probe, busy, late):
                assert (await told(client, READY)).status == 200
            draining = asyncio.ensure_future(router.app.drain(asyncio.Event()))
            await until(lambda: router.app.public.front.draining)
            answer = await told(probe, READY)
            assert (answer.status, answer.headers["connection"]) == (503, "close")
            assert await probe.closed()
            answer = await told(busy, WHOLE)  # what is asked of an open connection is still done
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await busy.closed()
            assert not draining.done()
            stream.go_on.set()
            assert await asyncio.wait_for(running.reader.readuntil(b"0\r\n\r\n"), 5)
            assert await running.closed()
            await asyncio.wait_for(draining, 5)
            assert await late.closed()  # nothing is under way any more
        assert not router.app.public.connections


async def test_no_connection_is_taken_after_the_delay_and_until_then_each_is(tmp_path: Path) -> None:
    stream = Stream()
    async with RawPool(stream) as pool, live(tmp_path, pool.url) as router, streaming(router):
        host, port = router.url.removeprefix("http://").split(":")
        hurry = asyncio.Event()
        draining = asyncio.ensure_future(router.app.public.drain(30.0, hurry, delay_s=0.5))
        await until(lambda: router.app.public.front.draining)
        async with wire(router) as client:  # a balancer's probe
            answer = await told(client, READY)
            assert (answer.status, answer.headers["connection"]) == (503, "close")
        async with asyncio.timeout(5):
            while await connects(host, int(port)):  # noqa: ASYNC110  (the kernel sets no event)
                await asyncio.sleep(0.01)
        assert not draining.done()
        hurry.set()
        await asyncio.wait_for(draining, 5)


async def connects(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return False
    writer.transport.abort()
    return True


async def test_a_second_signal_ends_the_delay_too(tmp_path: Path) -> None:
    async with live(tmp_path) as router:
        hurry = asyncio.Event()
        draining = asyncio.ensure_future(router.app.public.drain(30.0, hurry, delay_s=30.0))
        await until(lambda: router.app.public.front.draining)
        hurry.set()
        await asyncio.wait_for(draining, 5)


async def test_an_upload_under_way_is_finished(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([head(LENGTH), BODY[:5]])
        await until(lambda: router.app.public.front.busy)
        draining = asyncio.ensure_future(router.app.drain(asyncio.Event()))
        await until(lambda: router.app.public.front.draining)
        answer = await told(client, BODY[5:])
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.closed()
        await asyncio.wait_for(draining, 5)


@pytest.mark.parametrize("by_reset", [None, True, False], ids=["whole", "reset by its pool", "closed by its pool"])
async def test_a_slow_client_gets_what_was_written_for_it(by_reset: bool | None, tmp_path: Path) -> None:
    """A request is over once its answer is written, and then the router still holds the last of it."""
    size = 50_000

    async def behave(call: Call) -> None:
        await call.say(raw_pool.head(200, f"Content-Length: {size if by_reset is None else size + 1}") + bytes(size))
        if by_reset:
            call.reset()

    async with RawPool(behave) as pool, live(tmp_path, pool.url) as router:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.setblocking(False)
            host, port = router.url.removeprefix("http://").split(":")
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (host, int(port)))
            await until(lambda: router.app.public.connections)
            server = router.app.public._server
            assert server is not None
            (connection,) = server.connections
            assert connection.transport is not None
            kernels: socket.socket = connection.transport.get_extra_info("socket")
            kernels.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
            await loop.sock_sendall(client, WHOLE)
            await until(lambda: pool.bodies and not router.app.public.front.busy)
            draining = asyncio.ensure_future(router.app.drain(asyncio.Event()))
            await asyncio.sleep(0.1)
            assert not draining.done()
            got = b""
            with contextlib.suppress(ConnectionError):
                while len(got.partition(b"\r\n\r\n")[2]) < size and (more := await loop.sock_recv(client, 2**16)):
                    got += more
            assert len(got.partition(b"\r\n\r\n")[2]) == size
            async with asyncio.timeout(2):
                await draining


async def test_who_never_ends_is_cut_at_the_bound(tmp_path: Path) -> None:
    shell = ShellConfig(drain_timeout_s=0.2)
    async with RawPool(silent) as pool:
        async with live(tmp_path, pool.url, shell=shell) as router, wire(router) as client, wire(router) as half:
            await half.send([head(LENGTH)[:30]])
            await client.send([WHOLE])
            await until(lambda: pool.bodies)
            await asyncio.wait_for(router.app.drain(asyncio.Event()), 5)
            assert await half.closed()
        await until(lambda: pool.departures)
    (row,) = router.rows()
    assert row.outcome == ("unknown", "client_left", None)


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_process_ends_with_its_streams_or_at_the_second_signal(signals: int, tmp_path: Path) -> None:
    stream = Stream()
    async with RawPool(stream) as pool:
        argv = ["--port", "0", "--pool", f"a={pool.url}", "--drain-timeout-s", "60", "--drain-delay-s", "0.3"]
        async with process(*argv, log=tmp_path / "log") as router:
            line = await ready(router)
            host, port = line["url"].removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(WHOLE)
            await asyncio.wait_for(reader.readuntil(raw_pool.TOKENS[0]), START_S)
            router.send_signal(signal.SIGTERM)
            await until(lambda: "draining" in (tmp_path / "log").read_text(), START_S)
            probe_reader, probe_writer = await asyncio.open_connection(host, int(port))
            probe_writer.write(READY)
            assert (await asyncio.wait_for(probe_reader.readline(), START_S)).startswith(b"HTTP/1.1 503 ")
            probe_writer.transport.abort()
            if signals == 2:
                router.send_signal(signal.SIGTERM)
                assert await ended(router) == 0
            else:
                stream.go_on.set()
                rest = await asyncio.wait_for(reader.read(-1), START_S)
                assert rest.endswith(b"0\r\n\r\n")
                assert await ended(router) == 0
            writer.transport.abort()
