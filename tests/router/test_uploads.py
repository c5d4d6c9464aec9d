"""How a body comes in: what is read of it, what bounds it, and that it stays whole until a pool has it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from router.core.config import RouterConfig
from router.settings import ShellConfig
from tests.router.framing_corpus import BODY, CHUNKED, HOST, LENGTH, POST, head
from tests.router.live import Live, live, until
from tests.router.raw_pool import BlackHole, RawPool, Refusing, ok, silent
from tests.router.wire import Wire, wire

SIZES = (64 * 2**10, 2**20, 20 * 2**20)
PATIENT = RouterConfig(
    connect_timeout_s=30.0, connect_slow_s=30.0, deadline_s=60.0, idle_timeout_s=60.0, patience_s=0.2
)


def body_of(size: int) -> bytes:
    start, end = b'{"model": "m", "stream": false, "image": "', b'"}'
    return start + b"0123456789abcdef" * (size // 16) + b"x" * (size % 16) + end


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_is_whole_at_the_second_pool(size: int, chunked: bool, tmp_path: Path) -> None:
    body = body_of(size)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 50_000):
            yield body[at : at + 50_000]

    async with Refusing() as refusing, RawPool(ok) as pool, live(tmp_path, refusing.url, pool.url) as router:
        told = await router.post(pieces() if chunked else body)
        assert (told.status, told.headers["x-pooldrill-pool"], told.headers["x-pooldrill-attempts"]) == (200, "b", "2")
        (received,) = pool.bodies
        assert hashlib.sha256(received).digest() == hashlib.sha256(body).digest()
        assert pool.header("content-length") == [str(len(body))]
        assert pool.header("transfer-encoding") == []


async def test_bytes_are_held_until_they_are_written_and_no_longer(tmp_path: Path) -> None:
    body = body_of(2**20)
    size = len(body)
    async with BlackHole() as hole, RawPool(silent) as pool:
        async with live(tmp_path, hole.url, rules=PATIENT) as router, wire(router) as client:
            await client.send([head(b"Content-Length: %d\r\n" % size)])
            await until(lambda: router.app.buffered.held == size)  # all of it is reserved before any of it has come
            await client.send([body])
            await until(lambda: router.app.policy.in_flight()["a"])
            assert router.app.buffered.held == size
        async with live(tmp_path, pool.url, rules=PATIENT) as router, wire(router) as client:
            await client.send([head(b"Content-Length: %d\r\n" % size), body])
            await until(lambda: pool.bodies)
            await until(lambda: not router.app.buffered.held)  # though the answer has not begun


async def test_an_undeclared_length_is_held_as_it_comes(tmp_path: Path) -> None:
    async with live(tmp_path) as router, wire(router) as client:
        await client.send([head(CHUNKED), b"100\r\n", b"x" * 256])
        await until(lambda: router.app.buffered.held == 256)
        await client.send([b"\r\n80\r\n", b"x" * 128])
        await until(lambda: router.app.buffered.held == 384)


@pytest.mark.parametrize("declared", [True, False], ids=["length", "chunked"])
async def test_a_body_that_does_not_fit_is_refused_and_the_others_go_on(declared: bool, tmp_path: Path) -> None:
    shell = ShellConfig(body_bytes_max=1_000, buffered_bytes_max=1_500)
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=shell) as router:
        async with wire(router) as first, wire(router) as second:
            await first.send([head(b"Content-Length: 900\r\n"), b'{"model": "m"'])
            await until(lambda: router.app.buffered.held == 900)
            framing, content = (b"Content-Length: 700\r\n", b"") if declared else (CHUNKED, b"300\r\n" + b"x" * 0x300)
            await second.send([head(framing), content])
            answer = await second.answer()
            assert answer is not None
            assert answer.named == "503 router_overloaded"
            assert 1 <= int(answer.headers["retry-after"]) <= 7
            assert answer.headers["x-pooldrill-delivery"] == "unsent"
            assert b"1500 bytes" in answer.body
            await first.send([b" " * 886 + b"}"])
            answer = await first.answer()
            assert answer is not None
            assert answer.status == 200
        assert len(pool.bodies) == 1
        assert router.app.policy.tally.client_requests == {("router_overloaded", 0): 1, ("200", 1): 1}
        (event,) = router.events
        assert (event["event"], event["code"]) == ("request_refused", "router_overloaded")


async def test_what_is_refused_before_it_is_whole_gives_back_what_it_held(tmp_path: Path) -> None:
    shell = ShellConfig(body_bytes_max=1_000, buffered_bytes_max=1_000, body_idle_timeout_s=0.1)
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=shell) as router:
        for data in (
            head(b"Content-Length: 900\r\n") + b"x",  # then silence
            head(CHUNKED) + b"384\r\n" + b"x" * 900 + b"\r\nz\r\n",
            head(CHUNKED) + b"384\r\n" + b"x" * 900 + b"\r\n384\r\n" + b"x" * 900,
            head(b"Content-Length: 3\r\n") + b"{}}",
        ):
            async with wire(router) as client:
                await client.send([data])
                answer = await client.answer()
                assert answer is not None
                assert answer.status in {400, 408, 413}
                await until(lambda: not router.app.buffered.held)
        async with wire(router) as client:
            await client.send([head(b"Content-Length: 900\r\n")])
            await until(lambda: router.app.buffered.held)
        await until(lambda: not router.app.buffered.held)
        assert pool.connections == 0


async def test_a_slow_body_is_ended_by_the_bound_that_comes_first(tmp_path: Path) -> None:
    bounds = {
        "nothing came for 0.1 s": (ShellConfig(body_idle_timeout_s=0.1), RouterConfig()),
        "whole within 0.3 s": (ShellConfig(body_timeout_s=0.3), RouterConfig()),
        "the deadline of 0.3 s": (ShellConfig(), RouterConfig(deadline_s=0.3)),
    }
    for word, (shell, rules) in bounds.items():
        async with live(tmp_path, shell=shell, rules=rules) as router, wire(router) as client:
            await client.send([head(b"Content-Length: 2000\r\n"), BODY[:1]])
            trickling = asyncio.ensure_future(_trickle(client, every_s=10 if "nothing" in word else 0.02))
            answer = await client.answer()
            trickling.cancel()
            assert answer is not None
            assert answer.named == "408 client_too_slow"
            assert word in answer.body.decode()
            assert router.app.policy.tally.client_requests == {("client_too_slow", 0): 1}


async def _trickle(client: Wire, *, every_s: float) -> None:
    for byte in b" " * 1_000:
        await asyncio.sleep(every_s)
        await client.send([b"%c" % byte])


@pytest.mark.parametrize("declared", [True, False], ids=["length", "chunked"])
async def test_a_client_that_goes_on_sending_sees_why_it_is_refused(declared: bool, tmp_path: Path) -> None:
    """A connection closed with bytes unread is reset, and the answer may be lost with it."""
    shell = ShellConfig(body_bytes_max=100_000)
    piece = b"x" * 50_000
    async with live(tmp_path, shell=shell) as router, wire(router) as client:
        await client.send([head(b"Content-Length: 10000000\r\n" if declared else CHUNKED)])
        for _ in range(200):  # reads nothing before it has sent everything
            await client.send([piece if declared else b"%x\r\n%b\r\n" % (len(piece), piece)])
        answer = await client.answer()
        assert answer is not None
        assert answer.named == "413 body_too_large"
        assert answer.headers["connection"] == "close"
        assert await client.closed()
        await until(lambda: not router.app.public.connections)


async def test_a_refused_client_that_stays_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.connection.LINGER_IDLE_S", 0.1)
    monkeypatch.setattr("router.connection.LINGER_S", 0.4)
    async with live(tmp_path, shell=ShellConfig(body_bytes_max=10)) as router:
        for every_s in (10.0, 0.02):  # silent; never silent
            async with wire(router) as client:
                await client.send([head(b"Content-Length: 2000\r\n")])
                answer = await client.answer()
                assert answer is not None
                assert answer.status == 413
                trickling = asyncio.ensure_future(_trickle(client, every_s=every_s))
                await until(lambda: not router.app.public.connections, 5)
                trickling.cancel()


async def test_100_continue_is_said_once_a_body_is_wanted(tmp_path: Path) -> None:
    expecting = b"Expect: 100-continue\r\n"
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=ShellConfig(body_bytes_max=1_000)) as router:
        async with wire(router) as client:
            for _ in range(2):
                await client.send([head(LENGTH, expecting)])
                assert await said(client) == b"HTTP/1.1 100 Continue\r\n\r\n"
                await client.send([BODY])
                answer = await client.answer()
                assert answer is not None
                assert answer.status == 200
        for refused in (
            head(b"Content-Length: 1001\r\n", expecting),
            head(LENGTH, expecting, b"Content-Encoding: gzip\r\n"),
            head(LENGTH, expecting, b"x-pooldrill-deadline-ms: soon\r\n"),
            head(LENGTH, expecting).replace(b"chat/", b"chats/"),
            head(LENGTH, expecting).replace(b"POST", b"PUT"),
        ):
            async with wire(router) as client:
                await client.send([refused])
                start = await client.reader.readexactly(10)
                assert start == b"HTTP/1.1 4"
        async with wire(router) as client:  # what has come already need not be asked for
            await client.send([head(LENGTH, expecting) + BODY])
            assert (await client.reader.readexactly(12)) == b"HTTP/1.1 200"
        async with wire(router) as client:  # HTTP/1.0 has no such thing
            await client.send([head(LENGTH, expecting).replace(b"HTTP/1.1", b"HTTP/1.0")])
            await asyncio.sleep(0.05)
            await client.send([BODY])
            assert (await client.reader.readexactly(12)) == b"HTTP/1.0 200"
        assert pool.header("expect") == []


async def said(client: Wire) -> bytes:
    return await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 5)


async def test_a_client_that_leaves_during_its_upload_is_counted_and_told_of_once(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        for start in (POST + HOST + LENGTH + b"x-request-id: r-1\r\n\r\n", head(CHUNKED) + b"5\r\nab"):
            async with wire(router) as client:
                await client.send([start])
                await until(lambda: router.app.public.front.busy)
        await router.settled()
        assert router.app.policy.tally.client_requests == {("client_left", 0): 2}
        assert [(event["event"], event["request_id"][:3]) for event in router.events] == [
            ("client_left", "r-1"), ("client_left", "unn"),
        ]  # fmt: skip
        assert pool.connections == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [{"content": [{"type": "text"}], "role": 7}], "model": "m", "stream": "perhaps"}',
        b'{"model": "m", "model2": {"model": 7}, "stream": 1e400}',
        b'{"model": "m", "messages": "\xff\xfe"}',
        b'\n\t {"model":\n"m"}\r\n ',
        b'{"model": "m", "messages": ' + b"[" * 400 + b"]" * 400 + b"}",
    ],
)
async def test_nothing_but_the_model_is_looked_at(body: bytes, tmp_path: Path) -> None:
    async def silently_ok(call: object) -> None:
        del call

    async with RawPool(silently_ok) as pool, live(tmp_path, pool.url) as router:
        assert (await router.post(body)).code == "maybe_running"  # the pool has closed without an answer
        assert pool.bodies == [body]


async def test_a_body_that_is_nested_beyond_all_measure_is_a_bad_request(tmp_path: Path) -> None:
    body = b'{"model": "m", "messages": ' + b"[" * 1_000_000
    async with live(tmp_path) as router:
        told = await router.post(body)
        assert (told.status, told.code) == (400, "bad_request")


async def test_many_uploads_leave_nothing_behind(tmp_path: Path) -> None:
    async with (
        Refusing() as refusing,
        RawPool(ok) as pool,
        live(tmp_path, refusing.url, pool.url, rules=PATIENT) as router,
    ):
        await asyncio.gather(*(_upload(router, number) for number in range(50)))
        assert sorted(len(body) for body in pool.bodies) == sorted(len(body_of(n * 1_000)) for n in range(50))
        assert router.app.buffered.held == 0


async def _upload(router: Live, number: int) -> None:
    assert (await router.post(body_of(number * 1_000))).status == 200
