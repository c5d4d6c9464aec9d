"""The same on asyncio's event loop and on uvloop. POOLDRILL_TEST_LOOP=uvloop runs all other live tests there too."""

import asyncio
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest
import trustme

from router.cli import serve
from router.clock import LoopClock
from router.core.config import RouterConfig
from router.event_loop import NoUvloop, loop_maker
from router.settings import ShellConfig
from router.tls import PoolTls, context_for
from tests.router import raw_pool
from tests.router.live import CHAT, client, live, seen, until
from tests.router.raw_pool import STREAM, TOKENS, RawPool, Refusing, cut, endless, ok
from tests.router.test_cli import GIVEN, ended, process, ready

on_both = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])


@on_both
async def test_the_loop_is_the_one_that_is_meant(request: pytest.FixtureRequest) -> None:
    ours = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    assert ours in request.node.callspec.id


@on_both
async def test_a_failover_and_a_stream(tmp_path: Path) -> None:
    async with Refusing() as a, RawPool(ok) as b:
        async with live(tmp_path, a.url, b.url) as router:
            told = await router.ask(stream=True)
        assert (told.status, told.body, told.broken) == (200, STREAM, False)
        first, second = router.rows()
        assert (first.outcome, second.outcome) == (("unsent", "refused", None), ("answered", "", 200))
        assert first.t_start <= first.t_end <= second.t_start < second.t_end


@on_both
@pytest.mark.parametrize("by_reset", [False, True], ids=["fin", "rst"])
async def test_a_cut_stream_is_a_visible_break(by_reset: bool, tmp_path: Path) -> None:
    async with RawPool(cut(stream=True, by_reset=by_reset)) as a, live(tmp_path, a.url) as router:
        told = await router.ask(stream=True)
    assert told.broken
    assert told.body == (b"".join(TOKENS) if not by_reset else told.body)  # a reset may overtake what it follows


@on_both
async def test_a_large_body_goes_to_the_second_pool_whole(tmp_path: Path) -> None:
    body = b'{"model": "m", "messages": "' + b"x" * 8 * 2**20 + b'"}'
    async with Refusing() as a, RawPool(ok) as b, live(tmp_path, a.url, b.url) as router:
        assert (await router.post(body)).status == 200
        assert b.bodies == [body]


@on_both
@pytest.mark.parametrize("stage", [raw_pool.silent, endless], ids=["before the first byte", "in the stream"])
async def test_a_client_that_leaves_ends_the_pools_work(stage: raw_pool.Behaviour, tmp_path: Path) -> None:
    async with RawPool(stage) as pool, live(tmp_path, pool.url) as router:
        async with client(router) as reader:
            if stage is endless:
                await reader.readuntil(TOKENS[0])
            else:
                await until(lambda: pool.bodies)
        await until(lambda: pool.departures == 1)


@on_both
async def test_a_client_that_does_not_read_stops_the_pool(tmp_path: Path) -> None:
    said = 0

    async def floods(call: raw_pool.Call) -> None:
        nonlocal said
        await call.say(raw_pool.head(200, f"Content-Length: {64 * 2**20}"))
        for _ in range(64):
            await call.say(b"x" * 2**20)
            said += 1

    async with RawPool(floods) as pool, live(tmp_path, pool.url) as router:
        async with client(router) as reader:
            await reader.read(1)
            await asyncio.sleep(0.5)
            assert said < 32
        await router.settled()


@on_both
async def test_a_silent_stream_ends_after_the_idle_time(tmp_path: Path) -> None:
    async def falls_silent(call: raw_pool.Call) -> None:
        await call.say(raw_pool.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.chunk(TOKENS[0])
        await call.until_client_leaves()

    rules = RouterConfig(connect_timeout_s=1.0, idle_timeout_s=0.3)
    async with RawPool(falls_silent) as pool:
        async with live(tmp_path, pool.url, rules=rules) as router:
            told = await router.ask(stream=True)
        assert (told.broken, told.body) == (True, TOKENS[0])
        assert router.rows()[0].cause == "idle"


@on_both
async def test_running_streams_end_whole_in_a_drain(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(call: raw_pool.Call) -> None:
        await call.say(raw_pool.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.chunk(TOKENS[0])
        await go_on.wait()
        await call.chunk(raw_pool.DONE)
        await call.chunk(b"")

    async with RawPool(waits) as pool, live(tmp_path, pool.url, shell=ShellConfig(drain_timeout_s=10)) as router:
        async with router.session.post(router.url + CHAT, data=b'{"model": "m"}') as answer:
            await answer.content.readany()
            draining = asyncio.ensure_future(router.app.drain(asyncio.Event()))
            await until(lambda: router.app.public.front.draining)
            go_on.set()
            assert not (await seen(answer)).broken
        await draining


@on_both
@pytest.mark.parametrize("reuse_idle_s", [4.0, 0.0], ids=["reuse", "no reuse"])
async def test_https(reuse_idle_s: float, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    body = b'{"model": "m", "stream": true, "messages": "' + b"x" * 2**20 + b'"}'
    shell = ShellConfig(reuse_idle_s=reuse_idle_s)
    tls = {"a": PoolTls(context_for(tmp_path / "ca.pem", verify=True))}
    async with RawPool(ok, keep=True, tls=server) as pool:
        async with live(tmp_path, pool.url, shell=shell, tls=tls) as router:
            for _ in range(3):
                assert (await router.post(body)).body == STREAM
        assert pool.connections == (1 if reuse_idle_s else 3)
        assert pool.bodies == [body] * 3


@on_both
async def test_the_clock_runs_between_two_turns_of_the_loop() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)
    assert len(set(readings)) > 10


async def test_a_process_on_uvloop_with_several_workers(tmp_path: Path) -> None:
    for more in ([], ["--workers", "2"]):
        async with RawPool(ok) as pool:
            argv = ["--port", "0", "--uvloop", "--pool", f"a={pool.url}", *more]
            async with process(*argv, log=tmp_path / "log") as router, aiohttp.ClientSession() as session:
                line = await ready(router)
                async with session.post(line["url"] + CHAT, data=b'{"model": "m", "stream": true}') as answer:
                    assert (await seen(answer)).body == STREAM
                router.terminate()
                assert await ended(router) == 0


def test_without_uvloop_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    for argv in (["--uvloop"], ["--uvloop", "--workers", "2"]):
        assert serve([*GIVEN, *argv]) == 3
        assert capsys.readouterr().err == (
            "pooldrill serve: --uvloop: the package uvloop is not installed;"
            " remedy: pip install uvloop, or leave --uvloop out\n"
        )
    with pytest.raises(NoUvloop):
        loop_maker(uvloop=True)
