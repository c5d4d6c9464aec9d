"""The stock OpenAI package through the router."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest

from scenarios.spec import Service
from scenarios.world.answers import plain_answer, stream_events
from tests.router import raw_pool
from tests.router.live import Live, live
from tests.router.raw_pool import Call, RawPool, Refusing, head

SERVICE = Service(tokens=4)
EVENTS = stream_events("r-1", "m", SERVICE)


async def speaks_openai(call: Call) -> None:
    if b'"stream":true' in call.body:
        await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        for event in (*EVENTS, b""):
            await call.chunk(event)
    else:
        body = plain_answer("r-1", "m", SERVICE)
        await call.say(head(200, "Content-Type: application/json", f"Content-Length: {len(body)}") + body)


async def breaks_off(call: Call) -> None:
    await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
    for event in EVENTS[:3]:
        await call.chunk(event)


@asynccontextmanager
async def sdk(router: Live) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="key", max_retries=2, timeout=10) as client:
        yield client


async def test_plain_and_streamed_answers_over_a_dead_pool(tmp_path: Path) -> None:
    async with Refusing() as refusing, RawPool(speaks_openai) as pool:
        async with live(tmp_path, refusing.url, pool.url) as router, sdk(router) as client:
            for _ in range(2):
                plain = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
                assert plain.choices[0].message.content is not None
                stream = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "hi"}], stream=True
                )
                words = [chunk.choices[0].delta.content async for chunk in stream]
                assert "".join(word or "" for word in words) == plain.choices[0].message.content
        assert len(pool.bodies) == 4


async def test_what_may_be_running_is_not_sent_again_by_the_sdk(tmp_path: Path) -> None:
    async with RawPool(raw_pool.close) as dropping, RawPool(speaks_openai) as other:
        async with live(tmp_path, dropping.url, other.url) as router, sdk(router) as client:
            with pytest.raises(openai.InternalServerError) as raised:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert raised.value.code == "maybe_running"
        assert (len(dropping.bodies), len(other.bodies)) == (1, 0)


async def test_what_was_not_sent_is_sent_again_by_the_sdk(tmp_path: Path) -> None:
    """The proof that the SDK would have: an UNSENT refusal leaves it its retries."""
    async with Refusing() as one, Refusing() as other:
        async with live(tmp_path, one.url, other.url) as router, sdk(router) as client:
            with pytest.raises(openai.InternalServerError) as raised:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert raised.value.code == "pool_unreachable"
        assert router.app.policy.tally.client_requests == {("pool_unreachable", 2): 3}


async def test_a_stream_that_breaks_off_raises(tmp_path: Path) -> None:
    async with RawPool(breaks_off) as breaking, RawPool(speaks_openai) as other:
        async with live(tmp_path, breaking.url, other.url) as router, sdk(router) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            for _ in range(3):
                assert (await anext(stream)).choices[0].delta.content
            with pytest.raises(openai.APIConnectionError):
                await anext(stream)
        assert (len(breaking.bodies), len(other.bodies)) == (1, 0)
