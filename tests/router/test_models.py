"""GET /v1/models, /healthz, /readyz."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from router.core.topology import Pool
from router.settings import ShellConfig
from tests.router.live import Live, live, until
from tests.router.raw_pool import Behaviour, BlackHole, Call, RawPool, Refusing, close, head, ok, silent


def lists(*models: str) -> Behaviour:
    async def behave(call: Call) -> None:
        data = [{"id": model, "object": "model", "of": models[0]} for model in models]
        body = json.dumps({"object": "list", "data": data}).encode()
        await call.say(head(200, f"Content-Length: {len(body)}", "Content-Type: application/json") + body)

    return behave


def says(body: bytes) -> Behaviour:
    async def behave(call: Call) -> None:
        await call.say(head(200, f"Content-Length: {len(body)}") + body)

    return behave


async def ids(router: Live) -> list[str]:
    told = await router.get("/v1/models")
    assert told.status == 200
    content = json.loads(told.body)
    assert content["object"] == "list"
    return [entry["id"] for entry in content["data"]]


async def test_the_union_without_duplicates_in_a_stable_order(tmp_path: Path) -> None:
    async with (
        RawPool(lists("m2", "m1")) as one,
        RawPool(lists("m3", "m1")) as other,
        live(tmp_path, one.url, other.url) as router,
    ):
        assert await ids(router) == ["m1", "m2", "m3"]
        told = await router.get("/v1/models")
        assert json.loads(told.body)["data"][0] == {"id": "m1", "object": "model", "of": "m2"}
        assert router.app.policy.tally.sends == {}


async def test_configured_models_are_not_asked_for(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pools=(Pool.of_urls("a", [pool.url], ["m2", "m1"]),)) as router:
        assert await ids(router) == ["m1", "m2"]
        assert pool.connections == 0


async def test_dead_pools_are_left_out_and_delay_no_longer_than_the_bound(tmp_path: Path) -> None:
    bound = ShellConfig(models_timeout_s=0.5)
    async with (
        RawPool(lists("m1")) as good,
        BlackHole() as hole,
        Refusing() as refusing,
        RawPool(silent) as mute,
        live(tmp_path, hole.url, good.url, refusing.url, mute.url, shell=bound) as router,
    ):
        started = time.monotonic()
        assert await ids(router) == ["m1"]
        assert 0.4 < time.monotonic() - started < 2.0


async def test_answers_that_are_no_list_of_models_are_left_out(tmp_path: Path) -> None:
    async with (
        RawPool(says(b"not json")) as one,
        RawPool(says(b'{"data": {}}')) as two,
        RawPool(says(b"[]")) as three,
        RawPool(says(b'{"data": [1, {"id": 2}, {"id": "m"}]}')) as four,
        live(tmp_path, one.url, two.url, three.url, four.url) as router,
    ):
        assert await ids(router) == ["m"]


async def test_what_nests_too_deep_is_left_out_and_entries_are_as_their_pool_wrote_them(tmp_path: Path) -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    odd = b'{"id": "m", "n": 1e999, "x": %b}' % (b"[" * 900 + b"]" * 900)
    async with (
        RawPool(says(b'{"data": %b}' % deep)) as one,
        RawPool(says(b'{"data": [{"id": "deep", "x": %b}]}' % deep)) as two,
        RawPool(says(b'{"x": %b, "data": []}' % deep)) as three,
        RawPool(says(b'{"data": [%b]}' % odd)) as four,
        live(tmp_path, one.url, two.url, three.url, four.url) as router,
    ):
        told = await router.get("/v1/models")
        assert told.status == 200
        assert odd in told.body
        assert b"deep" not in told.body


async def test_an_empty_list_is_an_answer_and_no_answer_is_not(tmp_path: Path) -> None:
    async with RawPool(says(b'{"object": "list", "data": []}')) as pool, live(tmp_path, pool.url) as router:
        assert await ids(router) == []
    async with Refusing() as refusing, live(tmp_path, refusing.url) as router:
        told = await router.get("/v1/models")
        assert (told.status, told.code) == (503, "pool_unreachable")


async def test_a_lost_request_is_not_repeated(tmp_path: Path) -> None:
    """aiohttp sends a GET a second time if a reused connection is lost; one question must stay one request."""

    async def first_answers_then_closes(call: Call) -> None:
        if len(pool.heads) > 1:
            pool.keep = False
            await close(call)
        else:
            await lists("m")(call)

    async with RawPool(first_answers_then_closes, keep=True) as pool, live(tmp_path, pool.url) as router:
        assert await ids(router) == ["m"]
        assert (await router.get("/v1/models")).status == 503
        assert len(pool.heads) == 2


async def test_the_clients_credentials_are_passed_on(tmp_path: Path) -> None:
    async with RawPool(lists("m")) as pool, live(tmp_path, pool.url) as router:
        async with router.session.get(router.url + "/v1/models", headers={"Authorization": "Bearer x"}) as response:
            assert response.status == 200
        assert pool.header("authorization") == ["Bearer x"]


async def test_health_and_readiness(tmp_path: Path) -> None:
    async with live(tmp_path) as router:
        assert (await router.get("/healthz")).status == 200
        assert (await router.get("/readyz")).status == 200


async def test_a_draining_router_says_so_finishes_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(call: Call) -> None:
        await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.chunk(b"data: first\n\n")
        await go_on.wait()
        await call.chunk(b"data: [DONE]\n\n")
        await call.chunk(b"")

    async with RawPool(waits) as pool, live(tmp_path, pool.url) as router:
        assert (await router.get("/readyz")).status == 200  # leaves an idle connection behind
        request = router.session.post(router.url + "/v1/chat/completions", data=b'{"model": "m"}')
        async with request as response:
            assert await response.content.readany() == b"data: first\n\n"
            draining = asyncio.ensure_future(router.app.drain(asyncio.Event()))
            await asyncio.sleep(0.05)
            assert router.app.public.front.draining
            assert not draining.done()
            host, port = router.url.removeprefix("http://").split(":")
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(host, int(port))
            go_on.set()
            assert await response.read() == b"data: [DONE]\n\n"
        async with asyncio.timeout(2):
            await draining


async def test_draining_ends_at_its_bound_or_when_hurried(tmp_path: Path) -> None:
    shell = ShellConfig(drain_timeout_s=0.2)
    async with RawPool(silent) as pool, live(tmp_path, pool.url, shell=shell) as router:
        asking = asyncio.ensure_future(router.ask())
        await until(lambda: pool.bodies)
        async with asyncio.timeout(2):
            await router.app.drain(asyncio.Event())
        hurry = asyncio.Event()
        hurry.set()
        async with asyncio.timeout(0.15):
            await router.app.drain(hurry)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
