"""What the layers above a router have spent, and what it tells them: on real sockets, with the stock SDK."""

import asyncio
import json
from pathlib import Path

import openai
import pytest

from router.core.chain import WhenUnknown
from router.core.config import RouterConfig
from tests.router import raw_pool
from tests.router.live import Live, Seen, live
from tests.router.raw_pool import Call, RawPool, Refusing, head, ok

MESSAGES = [{"role": "user", "content": "hi"}]
BODY = json.dumps({"model": "m", "messages": MESSAGES}).encode()


def rules(**knobs: object) -> RouterConfig:
    base = {"connect_timeout_s": 0.3, "deadline_s": 10.0, "idle_timeout_s": 10.0, "patience_s": 0.2}
    return RouterConfig(**{**base, **knobs})  # type: ignore[arg-type]  # the dataclass checks its knobs


async def asked(router: Live, **headers: str) -> Seen:
    return await router.post(BODY, headers={name.replace("_", "-"): value for name, value in headers.items()})


def _made(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def told(seen: Seen) -> tuple[str | None, str | None]:
    return seen.headers.get("x-pooldrill-retries-left"), seen.headers.get("x-should-retry")


async def fails(call: Call) -> None:
    await call.say(head(500, "Content-Length: 2", "x-should-retry: true") + b"no")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ("2", None)),
        ({"x_stainless_retry_count": "1"}, ("1", None)),
        ({"x_stainless_retry_count": "1", "x_envoy_attempt_count": "2"}, ("0", None)),
        ({"x_pooldrill_retries_left": "0"}, ("0", None)),
        ({"x_pooldrill_retries_left": "7"}, ("2", None)),
    ],
)
async def test_a_good_answer_says_what_is_left(
    headers: dict[str, str], expected: tuple[str, str | None], tmp_path: Path
) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        assert told(await asked(router, **headers)) == expected


async def test_a_pools_own_word_can_only_be_lowered(tmp_path: Path) -> None:
    async with RawPool(fails) as pool, live(tmp_path, pool.url) as router:
        assert told(await asked(router)) == ("2", "true")
        assert told(await asked(router, x_stainless_retry_count="2")) == ("0", "false")


async def test_what_may_be_running_is_forbidden_or_left_to_the_client(tmp_path: Path) -> None:
    async with RawPool(raw_pool.close) as pool:
        async with live(_made(tmp_path, "1"), pool.url) as router:
            assert told(await asked(router)) == ("2", "false")
        lenient = rules(when_unknown=WhenUnknown.LEAVE_TO_CLIENT)
        async with live(_made(tmp_path, "2"), pool.url, rules=lenient) as router:
            assert told(await asked(router)) == ("2", None)
            assert told(await asked(router, x_stainless_retry_count="2")) == ("0", "false")


async def test_a_failover_is_free_unless_it_spends(tmp_path: Path) -> None:
    async with Refusing() as dead, RawPool(ok) as pool:
        async with live(_made(tmp_path, "1"), dead.url, pool.url) as router:
            seen = await asked(router, x_stainless_retry_count="2")
            assert (seen.status, seen.headers["x-pooldrill-attempts"], told(seen)) == (200, "2", ("0", None))
        async with live(_made(tmp_path, "2"), dead.url, pool.url, rules=rules(failover_spends=True)) as router:
            seen = await asked(router, x_stainless_retry_count="2")
            assert (seen.status, seen.code, told(seen)) == (503, "budget_spent", ("0", "false"))
            assert seen.headers["x-pooldrill-delivery"] == "unsent"


async def test_an_extra_budget_forbids_failovers(tmp_path: Path) -> None:
    async with Refusing() as dead, Refusing() as other:
        budget = rules(failover_budget="token_bucket:tokens_start=1,ratio=0", cooldown=False)
        async with live(tmp_path, dead.url, other.url, rules=budget) as router:
            codes = [(await asked(router)).code for _ in range(3)]
            metrics = await _metrics(router)
        assert codes == ["pool_unreachable", "budget_spent", "budget_spent"]
        assert router.app.policy.tally.failovers_refused == {"two_sends": 1, "budget": 2}
        assert "pooldrill_router_budget_balance 0.0" in metrics


async def _metrics(router: Live) -> str:
    assert router.app.admin is not None
    async with router.session.get(router.app.admin.url + "/metrics") as response:
        return await response.text()


async def test_garbage_is_ignored_counted_and_explained(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        assert told(await asked(router, x_stainless_retry_count="-1", x_envoy_attempt_count="2")) == ("1", None)
    assert router.app.policy.tally.headers_ignored == {"x-stainless-retry-count": 1}
    (event,) = [event for event in router.events if event["event"] == "headers_ignored"]
    assert event["headers"] == {"x-stainless-retry-count": "'-1' is not a whole number of at most 15 digits"}


async def test_a_refusal_before_any_pool_says_it_too(tmp_path: Path) -> None:
    async with live(tmp_path) as router:
        seen = await router.post(b"{}", headers={"x-stainless-retry-count": "2"})
    assert (seen.status, told(seen)) == (400, ("0", "false"))


async def silent(call: Call) -> None:
    await asyncio.sleep(5)


async def test_the_sdk_is_answered_before_it_gives_up(tmp_path: Path) -> None:
    """Else it would send again what a pool is running."""
    async with RawPool(silent) as pool, RawPool(ok) as other, live(tmp_path, pool.url, other.url) as router:
        async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="k", max_retries=2, timeout=2.0) as client:
            with pytest.raises(openai.InternalServerError) as raised:
                await client.chat.completions.create(model="m", messages=MESSAGES)  # type: ignore[arg-type]
        assert raised.value.code == "pool_timeout"
        assert (len(pool.bodies), len(other.bodies)) == (1, 0)


async def test_the_cap_of_the_chain_bounds_an_sdk_that_would_go_on(tmp_path: Path) -> None:
    async with RawPool(fails_plainly) as pool, live(tmp_path, pool.url) as router:
        async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="k", max_retries=5, timeout=5.0) as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(model="m", messages=MESSAGES)  # type: ignore[arg-type]
        assert len(pool.bodies) == 3


async def fails_plainly(call: Call) -> None:
    await call.say(head(500, "Content-Length: 2", "retry-after-ms: 10") + b"no")
