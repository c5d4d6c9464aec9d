"""A client that leaves takes its send with it, at every stage, and leaves nothing behind."""

import asyncio
import contextlib
from pathlib import Path

from router.core.config import RouterConfig
from tests.router import raw_pool
from tests.router.live import CHAT, SETTLE_S, Live, client, live, until
from tests.router.raw_pool import BlackHole, RawPool, Refusing, endless, ok, silent

LONG = RouterConfig(connect_timeout_s=30.0, deadline_s=60.0, idle_timeout_s=60.0)
LEAVES_WITHIN_S = 1.0


def left(router: Live, sends: int) -> bool:
    return router.app.policy.tally.client_requests == {("client_left", sends): 1}


async def test_while_the_connect_hangs(tmp_path: Path) -> None:
    async with BlackHole() as hole, RawPool(ok) as other:
        async with live(tmp_path, hole.url, other.url, rules=LONG) as router:
            async with client(router):
                await until(lambda: router.app.policy.in_flight()["a"])
            await until(lambda: left(router, 1), LEAVES_WITHIN_S)
            await router.settled()
        (row,) = router.rows()
        assert row.outcome == ("unsent", "client_left", None)
        assert (row.blame, row.slot_taken, row.t_connected) == ("client", False, None)
        assert other.connections == 0


async def test_while_the_second_connect_hangs(tmp_path: Path) -> None:
    async with Refusing() as refusing, BlackHole() as hole:
        async with live(tmp_path, refusing.url, hole.url, rules=LONG) as router:
            async with client(router):
                await until(lambda: router.app.policy.in_flight()["b"])
            await until(lambda: left(router, 2), LEAVES_WITHIN_S)
        assert [row.outcome for row in router.rows()] == [("unsent", "refused", None), ("unsent", "client_left", None)]


async def test_before_the_first_byte(tmp_path: Path) -> None:
    async with RawPool(silent) as pool:
        async with live(tmp_path, pool.url, rules=LONG) as router:
            async with client(router):
                await until(lambda: pool.bodies)
            await until(lambda: pool.departures, LEAVES_WITHIN_S)
            await until(lambda: left(router, 1), LEAVES_WITHIN_S)
        (row,) = router.rows()
        assert row.outcome == ("unknown", "client_left", None)
        assert (row.blame, row.slot_taken) == ("client", True)
        assert router.app.policy.tally.sends == {("a", "no_response"): 1}


async def test_while_its_next_requests_wait_in_the_connection(tmp_path: Path) -> None:
    """The next one's body is more than is read ahead, so the connection would not be read any more."""
    following = f"POST {CHAT} HTTP/1.1\r\nHost: router\r\nContent-Length: 2000000\r\n\r\n".encode() + bytes(900_000)
    small = b"GET /healthz HTTP/1.1\r\nHost: router\r\n\r\n" * 100
    for ahead in (following, small):
        async with RawPool(silent) as pool, live(tmp_path, pool.url, rules=LONG) as router:
            async with client(router, ahead=ahead):
                await until(lambda: pool.bodies)
                await asyncio.sleep(0.2)
            await until(lambda: pool.departures, LEAVES_WITHIN_S)
            await until(lambda: left(router, 1), LEAVES_WITHIN_S)


async def test_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    async with RawPool(endless) as pool:
        async with live(tmp_path, pool.url, rules=LONG) as router:
            async with client(router) as reader:
                await reader.readuntil(raw_pool.TOKENS[0])
            await until(lambda: pool.departures, LEAVES_WITHIN_S)
            await until(lambda: left(router, 1), LEAVES_WITHIN_S)
        (row,) = router.rows()
        assert row.outcome == ("answered", "client_left", 200)
        assert row.blame == "client"
        assert router.app.policy.tally.sends == {("a", "2xx"): 1}


async def test_while_it_waits_for_a_pool(tmp_path: Path) -> None:
    patient = RouterConfig(patience_s=30.0)
    async with live(tmp_path, rules=patient) as router:
        async with client(router):
            await until(lambda: router.app.policy.waiting)
        await until(lambda: left(router, 0), LEAVES_WITHIN_S)
    assert router.rows() == []


async def test_during_its_own_upload(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url, rules=LONG) as router:
        async with client(router, b'{"model": "m"', declared=1_000):
            await until(lambda: router.app.public.front.busy)
        await until(lambda: left(router, 0), LEAVES_WITHIN_S)
        assert pool.connections == 0


async def test_while_a_pool_reads_nothing_of_a_large_body(tmp_path: Path) -> None:
    """What is left of an upload must not linger in the connection's buffer until the pool reads."""
    gone = asyncio.Event()

    async def reads_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(0.01)
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # fails once the other side is gone
                await writer.drain()
        gone.set()

    server = await asyncio.start_server(reads_nothing, "127.0.0.1", 0, limit=1024)
    async with server:
        host, port = server.sockets[0].getsockname()
        async with live(tmp_path, f"http://{host}:{port}", rules=LONG) as router:
            async with client(router, b'{"model": "m", "text": "' + b"x" * 30_000_000 + b'"}'):
                await until(lambda: router.app.policy.in_flight()["a"])
                await asyncio.sleep(0.1)
            await until(lambda: left(router, 1), LEAVES_WITHIN_S)
            async with asyncio.timeout(SETTLE_S):
                await gone.wait()
        (row,) = router.rows()
        assert row.outcome == ("unknown", "client_left", None)


async def test_while_it_reads_nothing_of_its_answer(tmp_path: Path) -> None:
    """The pool's connection is paused then, so nothing that happens there could tell."""

    async def endless_bytes(call: raw_pool.Call) -> None:
        leaving = asyncio.ensure_future(call.until_client_leaves())
        with contextlib.suppress(ConnectionError):
            await call.say(raw_pool.head(200, "Content-Type: text/plain", "Transfer-Encoding: chunked"))
            while True:
                await call.chunk(bytes(2**18))
        await leaving

    async with RawPool(endless_bytes) as pool, live(tmp_path, pool.url, rules=LONG) as router:
        async with client(router, limit=1024):
            server = router.app.public._server
            assert server is not None
            await until(lambda: any(connection.writing_paused for connection in server.connections))
        await until(lambda: pool.departures, LEAVES_WITHIN_S)
        await until(lambda: left(router, 1), LEAVES_WITHIN_S)
    (row,) = router.rows()
    assert row.outcome == ("answered", "client_left", 200)


async def test_between_the_head_of_an_answer_and_its_body(tmp_path: Path) -> None:
    async def head_alone(call: raw_pool.Call) -> None:
        await call.say(raw_pool.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.until_client_leaves()

    async with RawPool(head_alone) as pool, live(tmp_path, pool.url, rules=LONG) as router:
        async with client(router) as reader:
            await reader.readuntil(b"\r\n\r\n")
        await until(lambda: pool.departures, LEAVES_WITHIN_S)
        await until(lambda: left(router, 1), LEAVES_WITHIN_S)
    assert [row.outcome for row in router.rows()] == [("answered", "client_left", 200)]
