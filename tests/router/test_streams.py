"""Answers pass byte for byte, bounded in memory, and end as they ended at the pool."""

import asyncio
import contextlib
import random
import socket
import tracemalloc
from pathlib import Path

import pytest

from router.core.config import RouterConfig
from tests.router import raw_pool
from tests.router.live import CHAT, SETTLE_S, client, live, until
from tests.router.raw_pool import Behaviour, Call, RawPool, head, ok

SSE = "Content-Type: text/event-stream"
CHUNKED = "Transfer-Encoding: chunked"
LARGE = random.Random(5).randbytes(256 * 1024)


def says(*pieces: bytes, pause_s: float = 0.0) -> Behaviour:
    async def behave(call: Call) -> None:
        for piece in pieces:
            await call.say(piece)
            await asyncio.sleep(pause_s)

    return behave


async def ask_of(pool: Behaviour, tmp_path: Path, *, stream: bool = False) -> tuple[int, bytes, bool]:
    async with RawPool(pool) as server, live(tmp_path, server.url) as router:
        told = await router.ask(stream=stream)
    return told.status, told.body, told.broken


@pytest.mark.parametrize("stream", [False, True])
async def test_plain_and_streamed_answers_pass_whole(stream: bool, tmp_path: Path) -> None:
    assert await ask_of(ok, tmp_path, stream=stream) == (200, raw_pool.STREAM if stream else raw_pool.PLAIN, False)


async def test_bytes_of_any_kind_pass(tmp_path: Path) -> None:
    answer = head(200, "Content-Type: application/octet-stream", f"Content-Length: {len(LARGE)}") + LARGE
    assert await ask_of(says(answer), tmp_path) == (200, LARGE, False)


async def test_an_empty_answer_passes(tmp_path: Path) -> None:
    assert await ask_of(says(head(200, "Content-Length: 0")), tmp_path) == (200, b"", False)
    assert await ask_of(says(head(204)), tmp_path) == (204, b"", False)


async def test_a_compressed_answer_is_not_opened(tmp_path: Path) -> None:
    not_gzip = b"looks like gzip to nobody"
    answer = head(200, "Content-Encoding: gzip", f"Content-Length: {len(not_gzip)}") + not_gzip
    async with RawPool(says(answer)) as pool, live(tmp_path, pool.url) as router:
        request = router.session.post(router.url + CHAT, data=b'{"model": "m"}', auto_decompress=False)
        async with request as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert await response.read() == not_gzip


async def test_neither_head_nor_tokens_are_held_back(tmp_path: Path) -> None:
    head_seen, go_on = asyncio.Event(), asyncio.Event()

    async def one_then_waits(call: Call) -> None:
        await call.say(head(200, SSE, CHUNKED))
        await head_seen.wait()
        await call.chunk(raw_pool.TOKENS[0])
        await go_on.wait()
        for event in (raw_pool.DONE, b""):
            await call.chunk(event)

    async with (
        RawPool(one_then_waits) as pool,
        live(tmp_path, pool.url) as router,
        router.session.post(router.url + CHAT, data=b'{"model": "m"}') as response,
    ):
        head_seen.set()
        assert await response.content.readany() == raw_pool.TOKENS[0]
        go_on.set()
        assert await response.read() == raw_pool.DONE


async def test_a_stream_that_only_the_connection_ends_is_whole_with_its_end_mark(tmp_path: Path) -> None:
    by_bytes = [raw_pool.STREAM[at : at + 1] for at in range(len(raw_pool.STREAM))]
    assert await ask_of(says(head(200, SSE), *by_bytes, pause_s=0.001), tmp_path) == (200, raw_pool.STREAM, False)


async def test_a_stream_that_only_the_connection_ends_is_a_break_without_its_end_mark(tmp_path: Path) -> None:
    events = b"".join(raw_pool.TOKENS)
    assert await ask_of(says(head(200, SSE) + events), tmp_path) == (200, events, True)


async def test_a_reset_of_an_answer_that_only_the_connection_ends_is_a_break(tmp_path: Path) -> None:
    async def reset_at_the_end(call: Call) -> None:
        await call.say(head(200, "Content-Type: application/json") + raw_pool.PLAIN)
        await asyncio.sleep(0.05)
        call.reset()

    assert await ask_of(reset_at_the_end, tmp_path) == (200, raw_pool.PLAIN, True)


async def test_a_clean_end_without_the_end_mark_is_the_pools_own_doing(tmp_path: Path) -> None:
    token = raw_pool.TOKENS[0]
    answer = head(200, SSE, CHUNKED) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(token), token)
    assert await ask_of(says(answer), tmp_path) == (200, token, False)


async def test_a_broken_chunk_is_a_break(tmp_path: Path) -> None:
    token = raw_pool.TOKENS[0]
    first, second = head(200, SSE, CHUNKED) + b"%x\r\n%b\r\n" % (len(token), token), b"not a length\r\n"
    async with RawPool(says(first, second, pause_s=0.05)) as pool, live(tmp_path, pool.url) as router:
        told = await router.ask()
        assert (told.status, told.body, told.broken) == (200, token, True)
        await router.settled()
        assert [line["cause"] for line in router.events] == ["protocol"]


async def test_a_pool_that_falls_silent_in_its_answer_ends_it_by_the_idle_time_out(tmp_path: Path) -> None:
    async def falls_silent(call: Call) -> None:
        await call.say(head(200, SSE, CHUNKED))
        for event in raw_pool.TOKENS:
            await call.chunk(event)
            await asyncio.sleep(0.1)
        await call.until_client_leaves()

    rules = RouterConfig(idle_timeout_s=0.4)
    async with RawPool(falls_silent) as pool, live(tmp_path, pool.url, rules=rules) as router:
        told = await router.ask(stream=True)
        assert (told.status, told.body, told.broken) == (200, b"".join(raw_pool.TOKENS), True)
        await router.settled()
        assert pool.departures == 1
        assert [line["cause"] for line in router.events] == ["idle"]


async def test_a_slow_client_gets_every_byte_before_the_break(tmp_path: Path) -> None:
    """Far more than all buffers hold is on its way when the pool's connection ends."""
    pieces = [bytes([65 + at % 26]) * 65_536 for at in range(256)]

    async def sixteen_mebibytes_then_gone(call: Call) -> None:
        await call.say(head(200, "Content-Type: text/plain", f"Content-Length: {len(pieces) * 65_536 + 1}"))
        for piece in pieces:
            await call.say(piece)

    async with RawPool(sixteen_mebibytes_then_gone) as pool, live(tmp_path, pool.url) as router:
        async with client(router) as reader:
            await asyncio.sleep(0.5)
            received = await reader.read(-1)
        body = received.split(b"\r\n\r\n", 1)[1]
        assert len(body) == len(pieces) * 65_536
        assert body == b"".join(pieces)
        await router.settled()
    assert [row.cause for row in router.rows()] == ["lost"]


async def test_the_last_bytes_before_a_break_wait_for_a_client_that_is_behind(tmp_path: Path) -> None:
    """A few bytes and the loss arrive while the client reads nothing: what aiohttp's reader would drop."""
    pieces: list[bytes] = []

    async def until_the_client_is_behind(call: Call) -> None:
        await call.say(head(200, "Content-Type: text/plain", "Content-Length: 100000000"))
        while not any(connection.writing_paused for connection in server.connections):
            pieces.append(bytes([65 + len(pieces) % 26]) * 65_536)
            await call.say(pieces[-1])
            await asyncio.sleep(0.002)
        pieces.append(b"the last bytes")
        await call.say(pieces[-1])

    async with RawPool(until_the_client_is_behind) as pool, live(tmp_path, pool.url) as router:
        assert router.app.public._server is not None
        server = router.app.public._server
        async with client(router, limit=1024) as reader:
            await until(lambda: pieces and pieces[-1] == b"the last bytes")
            await asyncio.sleep(0.1)
            received = await reader.read(-1)
        assert received.split(b"\r\n\r\n", 1)[1] == b"".join(pieces)
        await router.settled()
    assert [row.cause for row in router.rows()] == ["lost"]


async def test_while_the_client_does_not_read_the_pool_is_not_read(tmp_path: Path) -> None:
    sent = 0

    async def endless_bytes(call: Call) -> None:
        nonlocal sent
        await call.say(head(200, "Content-Type: text/plain", CHUNKED))
        while True:
            await call.chunk(LARGE)
            sent += len(LARGE)

    async with RawPool(endless_bytes) as pool, live(tmp_path, pool.url) as router:
        before = -1
        async with client(router, limit=1024), asyncio.timeout(10):
            while sent != before or not sent:
                before = sent
                await asyncio.sleep(0.3)
        assert sent < 32 * 2**20  # what the kernel holds for three sockets


async def test_a_client_that_reads_nothing_for_the_idle_time_out_counts_as_gone(tmp_path: Path) -> None:
    async def endless_bytes(call: Call) -> None:
        await call.say(head(200, "Content-Type: text/plain", CHUNKED))
        while True:
            await call.chunk(LARGE)

    rules = RouterConfig(idle_timeout_s=0.3)
    async with (
        RawPool(endless_bytes) as pool,
        live(tmp_path, pool.url, rules=rules) as router,
        client(router, limit=1024),
    ):
        await until(lambda: router.app.policy.tally.client_requests)
        await router.settled()
        assert router.app.public._server is not None
        server = router.app.public._server
        await until(lambda: not server.connections)
    assert router.app.policy.tally.client_requests == {("client_left", 1): 1}
    assert [row.outcome for row in router.rows()] == [("answered", "client_left", 200)]


async def test_an_early_answer_ends_the_upload_and_is_passed_on(tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def refuses_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"error": {"message": "too long", "code": "early"}}'
        writer.write(head(413, f"Content-Length: {len(body)}", "Connection: close") + body)
        await answered.wait()
        writer.close()

    server = await asyncio.start_server(refuses_early, "127.0.0.1", 0, limit=1024)
    async with server:
        host, port = server.sockets[0].getsockname()
        async with live(tmp_path, f"http://{host}:{port}") as router:
            told = await router.post(b'{"model": "m", "text": "' + b"x" * 20_000_000 + b'"}')
            answered.set()
        assert (told.status, told.code) == (413, "early")
    assert [row.outcome for row in router.rows()] == [("answered", "", 413)]


@pytest.mark.parametrize("size", [100_000, 20_000_000])
@pytest.mark.parametrize("keep_open_s", [0.0, 0.05])
async def test_an_early_answer_is_passed_on_though_the_pool_hangs_up_on_the_rest(
    keep_open_s: float, size: int, tmp_path: Path
) -> None:
    """Closing with bytes unread resets the connection; what was said before is there all the same."""

    hung_up = 0

    async def refuses_by_the_head_alone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal hung_up
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"error": {"message": "too long", "code": "early"}}'
        writer.write(head(413, f"Content-Length: {len(body)}", "Connection: close") + body)
        await asyncio.sleep(keep_open_s)
        writer.transport.abort()
        hung_up += 1

    server = await asyncio.start_server(refuses_by_the_head_alone, "127.0.0.1", 0, limit=1024)
    async with server:
        host, port = server.sockets[0].getsockname()
        async with live(tmp_path, f"http://{host}:{port}") as router:
            for _ in range(10):
                told = await router.post(b'{"model": "m", "text": "' + b"x" * size + b'"}')
                assert (told.status, told.code) == (413, "early")
            await until(lambda: hung_up == 10)
    assert [row.outcome for row in router.rows()] == [("answered", "", 413)] * 10


async def test_an_early_answer_is_passed_on_though_a_write_meets_the_reset_first(tmp_path: Path) -> None:
    """The pool runs beside the router here, so its answer and the reset come while the router writes."""
    body = b'{"error": {"message": "too long", "code": "early"}}'
    refusals = 20

    def refuses(listening: socket.socket) -> None:
        for _ in range(refusals):
            taken, _ = listening.accept()
            with taken:
                taken.recv(1024)
                taken.sendall(head(413, f"Content-Length: {len(body)}", "Connection: close") + body)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SETTLE_S)
        host, port = listening.getsockname()
        pool = asyncio.ensure_future(asyncio.to_thread(refuses, listening))
        async with live(tmp_path, f"http://{host}:{port}") as router:
            for _ in range(refusals):
                told = await router.post(b'{"model": "m", "text": "' + b"x" * 5_000_000 + b'"}')
                assert (told.status, told.code) == (413, "early")
        await pool


async def test_interim_answers_are_not_passed_on(tmp_path: Path) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    answer = head(200, f"Content-Length: {len(raw_pool.PLAIN)}") + raw_pool.PLAIN
    async with RawPool(says(interim, answer, pause_s=0.02)) as pool, live(tmp_path, pool.url) as router:
        told = await router.ask()
        assert (told.status, told.body, "Link" in told.headers) == (200, raw_pool.PLAIN, False)


async def test_interim_answers_do_not_make_a_first_byte(tmp_path: Path) -> None:
    async def continues_for_ever(call: Call) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await call.say(b"HTTP/1.1 102 Processing\r\n\r\n")
                await asyncio.sleep(0.02)

    rules = RouterConfig(first_byte_timeout_s=0.3)
    async with RawPool(continues_for_ever) as pool, live(tmp_path, pool.url, rules=rules) as router:
        told = await router.ask()
        assert (told.status, told.code) == (504, "pool_timeout")


@pytest.mark.parametrize(
    "answer",
    [
        head(101, "Upgrade: websocket", "Connection: upgrade"),
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**20 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 2**17 + b"\r\n",
        head(200, "Content-Length: 2", "Content-Length: 3") + b"ok",
        head(200, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    ],
    ids=["101", "long header", "many headers", "two lengths", "odd coding"],
)
async def test_a_head_that_is_none_is_a_fault_of_protocol(answer: bytes, tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        with contextlib.suppress(ConnectionError):
            await call.say(answer)
            await call.until_client_leaves()

    async with RawPool(behave) as pool, live(tmp_path, pool.url) as router, asyncio.timeout(5):
        told = await router.ask()
        assert (told.status, told.code) == (503, "maybe_running")
    assert [row.outcome for row in router.rows()] == [("unknown", "protocol", None)]


async def test_a_head_without_an_end_is_a_fault_of_protocol(tmp_path: Path) -> None:
    async def endless_head(call: Call) -> None:
        with contextlib.suppress(ConnectionError):
            await call.say(b"HTTP/1.1 200 OK\r\n")
            while True:
                await call.say(b"X: " + b"a" * 1000 + b"\r\n")

    async with RawPool(endless_head) as pool, live(tmp_path, pool.url) as router, asyncio.timeout(5):
        assert (await router.ask()).code == "maybe_running"
    assert [row.outcome for row in router.rows()] == [("unknown", "protocol", None)]


async def test_trailers_are_dropped_and_the_connection_is_used_again(tmp_path: Path) -> None:
    async def with_trailers(call: Call) -> None:
        await call.say(head(200, CHUNKED) + b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n")

    async with RawPool(with_trailers, keep=True) as pool, live(tmp_path, pool.url) as router:
        for _ in range(2):
            assert (await router.ask()).body == b"ok"
        assert pool.connections == 1


async def test_an_answer_with_both_framings_is_read_by_its_chunks(tmp_path: Path) -> None:
    answer = head(200, "Content-Length: 5", CHUNKED) + b"2\r\nok\r\n0\r\n\r\n"
    async with RawPool(says(answer), keep=True) as pool, live(tmp_path, pool.url) as router:
        for _ in range(2):
            told = await router.ask()
            assert (told.body, "Content-Length" in told.headers) == (b"ok", False)
        assert pool.connections == 2, "such a connection is not used again"


async def test_fifty_slow_clients_get_every_byte_before_the_break(tmp_path: Path) -> None:
    events = b"".join(raw_pool.TOKENS) * 10

    async def all_at_once_then_gone(call: Call) -> None:
        await call.say(head(200, SSE, CHUNKED) + b"%x\r\n%b\r\n" % (len(events), events))

    rules = RouterConfig(cooldown=False)
    async with RawPool(all_at_once_then_gone) as pool, live(tmp_path, pool.url, rules=rules) as router:
        for _ in range(50):
            async with client(router) as reader:
                await asyncio.sleep(0.01)
                received = await reader.read(-1)
            assert received.endswith(b"\r\n\r\n%x\r\n%b\r\n" % (len(events), events))


async def test_a_client_that_never_reads_costs_little_memory(tmp_path: Path) -> None:
    """Of 200 MB that the pool would send."""
    piece, sent = bytes(2**20), 0

    async def two_hundred_megabytes(call: Call) -> None:
        nonlocal sent
        await call.say(head(200, "Content-Type: text/plain", f"Content-Length: {200 * len(piece)}"))
        for _ in range(200):
            await call.say(piece)
            sent += len(piece)

    async with RawPool(two_hundred_megabytes) as pool, live(tmp_path, pool.url) as router:
        await router.ask(path="/healthz")
        tracemalloc.start()
        try:
            async with client(router, limit=1024):
                before = -1
                while sent != before or not sent:
                    before = sent
                    await asyncio.sleep(0.3)
                held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sent < 100 * 2**20
    assert peak < 8_000_000, f"{held} bytes held, {peak} at most"


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
async def test_a_stream_of_tiny_events_leaves_nothing_behind(count: int, tmp_path: Path) -> None:
    event = b"3\r\na\n\n\r\n"

    async def tiny_events(call: Call) -> None:
        await call.say(head(200, SSE, CHUNKED))
        for _ in range(count // 100):
            await call.say(event * 100)
        await call.say(b"0\r\n\r\n")

    async with RawPool(tiny_events) as pool, live(tmp_path, pool.url) as router, client(router) as reader:
        tail = await reader.read(2**10)
        tracemalloc.start()
        try:
            begun, most = tracemalloc.get_traced_memory()[0], 0
            while not tail.endswith(b"0\r\n\r\n"):
                tail = (tail + await reader.read(2**16))[-5:]
                most = max(most, tracemalloc.get_traced_memory()[0] - begun)
        finally:
            tracemalloc.stop()
        assert most < 2_000_000
