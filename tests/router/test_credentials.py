"""Keys of pools: each is seen by its own pool and by nobody else."""

import json
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDict

from router.core.config import RouterConfig
from router.core.cooldown import Standing
from router.credentials import Credentials, Secret
from tests.router import raw_pool
from tests.router.live import CHAT, Live, live, until
from tests.router.raw_pool import Behaviour, RawPool, Refusing, listing, ok
from tests.router.test_cli import ended, process, ready
from tests.router.test_metrics import scrape
from tests.router.test_trials import Returning, a_of, bench_a

KEYS = {"a": "Bearer canary-of-a", "c": "Basic canary-of-c"}
SECRETS: Mapping[str, Secret] = {pool: Secret(value) for pool, value in KEYS.items()}
CLIENTS = {"Authorization": "Bearer canary-of-client", "x-request-id": "r-1"}


def seen_by(pool: RawPool) -> list[list[str]]:
    """The Authorization of every request that a pool got."""
    return [pool.header("authorization", number) for number in range(len(pool.heads))]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def everything_written(router: Live, tmp_path: Path) -> str:
    metrics = repr(await scrape(router))
    return metrics + json.dumps(router.events) + (tmp_path / "sends.jsonl").read_text() + repr(router.app.settings)


async def test_each_pool_gets_its_own_or_the_clients(tmp_path: Path) -> None:
    async with RawPool(ok) as a, RawPool(ok) as b, RawPool(ok) as c:
        async with live(tmp_path, a.url, b.url, c.url, secrets=SECRETS) as router:
            for headers in (CLIENTS, {}):
                for _ in range(3):
                    assert (await router.post(b'{"model": "m"}', headers=headers)).status == 200
        assert seen_by(a) == [[KEYS["a"]], [KEYS["a"]]]
        assert seen_by(b) == [[CLIENTS["Authorization"]], []]
        assert seen_by(c) == [[KEYS["c"]], [KEYS["c"]]]


@pytest.mark.parametrize("second", ["b", "c"])
async def test_a_failover_does_not_carry_the_first_pools_key(second: str, tmp_path: Path) -> None:
    async with Refusing() as a, RawPool(ok) as other:
        secrets = {"a": SECRETS["a"], **({"b": SECRETS["c"]} if second == "c" else {})}
        async with live(tmp_path, a.url, other.url, secrets=secrets) as router:
            told = await router.post(b'{"model": "m"}', headers=CLIENTS)
            assert told.headers["x-pooldrill-attempts"] == "2"
        assert seen_by(other) == [[KEYS["c"] if second == "c" else CLIENTS["Authorization"]]]


async def test_a_client_cannot_add_its_own_to_a_pools_key(tmp_path: Path) -> None:
    two = [("Authorization", "Bearer one"), ("authorization", "Bearer two"), ("Connection", "authorization")]
    async with RawPool(ok) as a, live(tmp_path, a.url, secrets=SECRETS) as router:
        for headers in (two[:2], two[1:]):
            async with router.session.post(router.url + CHAT, data=b'{"model": "m"}', headers=headers) as answer:
                assert answer.status == 200
        assert seen_by(a) == [[KEYS["a"]]] * 2


async def test_the_list_of_models_is_asked_for_with_each_pools_own(tmp_path: Path) -> None:
    async with RawPool(listing) as a, RawPool(listing) as b, live(tmp_path, a.url, b.url, secrets=SECRETS) as router:
        async with router.session.get(router.url + "/v1/models", headers=CLIENTS) as answer:
            assert answer.status == 200
        assert seen_by(a) == [[KEYS["a"]]]
        assert seen_by(b) == [[CLIENTS["Authorization"]]]


async def test_a_trial_has_the_pools_key(tmp_path: Path) -> None:
    knobs = RouterConfig(connect_timeout_s=1.0, deadline_s=10.0, cooldown_s=0.1, slow_start_s=0.0)
    async with Returning() as a, RawPool(ok) as b:
        async with live(tmp_path, a.url, b.url, rules=knobs, secrets=SECRETS) as router:
            await bench_a(router)
            await a.begin()
            await until(lambda: a_of(router).cooldown.standing is Standing.IN_USE)
        assert a.heads
        assert a.header("authorization", 0) == [KEYS["a"]]


@pytest.mark.parametrize(
    "behave",
    [raw_pool.close, raw_pool.reset, raw_pool.garbage, raw_pool.cut(stream=True, by_reset=True), raw_pool.status(401)],
    ids=["close", "reset", "garbage", "cut", "401"],
)
async def test_no_key_is_ever_written_or_told(behave: Behaviour, tmp_path: Path) -> None:
    async with RawPool(behave) as a, Refusing() as b, Refusing() as c:
        async with live(tmp_path, a.url, b.url, c.url, secrets=SECRETS) as router:
            told = [await router.post(b'{"model": "m"}', headers=CLIENTS) for _ in range(4)]
            await router.settled()
            written = await everything_written(router, tmp_path)
        assert seen_by(a), "the key was in use"
        written += "".join(f"{dict(each.headers)} {each.body!r}" for each in told)
        assert "canary" not in written


async def test_a_process_takes_its_keys_from_the_environment_and_shows_them_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOL_A_KEY", "canary-of-a")
    log, sends = tmp_path / "log", tmp_path / "sends.jsonl"
    async with RawPool(ok) as a, Refusing() as b:
        argv = [
            "--port",
            "0",
            "--send-log",
            str(sends),
            "--pool",
            f"a={a.url};auth-env=POOL_A_KEY",
            "--pool",
            f"b={b.url}",
        ]
        async with process(*argv, log=log) as router, aiohttp.ClientSession() as session:
            line = await ready(router)
            for _ in range(2):
                async with session.post(line["url"] + CHAT, data=b'{"model": "m"}', headers=CLIENTS) as answer:
                    assert answer.status == 200
            command = command_of(router.pid)
            router.terminate()
            assert await ended(router) == 0
        assert seen_by(a) == [[KEYS["a"]]] * 2
    assert "canary" not in command + log.read_text() + sends.read_text() + json.dumps(line)


def test_what_is_made_for_one_pool_leaves_the_clients_headers_alone() -> None:
    clients = CIMultiDict([("Authorization", "Bearer client"), ("X-Other", "1")])
    credentials = Credentials(SECRETS)
    assert credentials.for_pool(clients, "b") is clients
    assert credentials.for_pool(clients, "a").getall("authorization") == [KEYS["a"]]
    assert credentials.for_pool(clients, "c").getall("authorization") == [KEYS["c"]]
    assert clients.getall("authorization") == ["Bearer client"]
    assert "canary" not in f"{credentials!r}"
