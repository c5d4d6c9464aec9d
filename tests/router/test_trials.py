"""Benched pools on real sockets: what a black hole costs, and how a pool comes back."""

import asyncio
import socket
from pathlib import Path

import pytest

from router.core.config import RouterConfig
from router.core.cooldown import Standing, Verdict
from router.core.in_flight import FrontendState
from tests.router.live import Live, live, until
from tests.router.raw_pool import BlackHole, Call, RawPool, Refusing, head, ok

LISTS = {
    "ready": (200, b'{"object": "list", "data": [{"id": "m"}]}'),
    "no such path": (404, b"{}"),
    "loading": (503, b"{}"),
    "not synced": (200, b'{"object": "list", "data": []}'),
    "nests too deep": (200, b'{"data": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
}
REASON = {"loading": "trial failed: probe: status 503", "not synced": "trial failed: probe: empty list"}


class Returning(RawPool):
    """A pool whose address refuses connections until `begin`; then it answers, and tells its models as given."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.models = LISTS["ready"]
        self.probes: list[str] = []
        self._listens = False
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._socket.getsockname())

    async def __aenter__(self) -> "Returning":
        return self

    async def __aexit__(self, *gone: object) -> None:
        if self._listens:
            await super().__aexit__(*gone)
        self._socket.close()

    async def begin(self) -> None:
        """Listen from now on."""
        self._listens = True
        self._server = await asyncio.start_server(self._connection, sock=self._socket)

    async def _answer(self, call: Call) -> None:
        if call.head.startswith(b"GET /v1/models "):
            self.probes += self.header("x-request-id")
            status, body = self.models
            await call.say(head(status, "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        else:
            await ok(call)


def rules(**knobs: float) -> RouterConfig:
    """Return knobs with short times."""
    short = {"connect_timeout_s": 1.0, "deadline_s": 10.0, "cooldown_s": 0.1, "slow_start_s": 0.0, **knobs}
    return RouterConfig(**short)  # type: ignore[arg-type]  # all of them are times


def a_of(router: Live) -> FrontendState:
    """Return what the router remembers of pool a's only frontend."""
    return next(state for frontend, state in router.app.policy.roster.states.items() if frontend.pool == "a")


async def bench_a(router: Live) -> None:
    """Ask until pool a, which refuses, is benched."""
    while a_of(router).cooldown.takes_sends:
        assert (await router.ask()).status == 200


@pytest.mark.parametrize("models", ["ready", "no such path", "nests too deep"])
async def test_a_benched_pool_comes_back_by_a_trial_and_not_by_a_request(models: str, tmp_path: Path) -> None:
    async with Returning() as a, RawPool(ok) as b, live(tmp_path, a.url, b.url, rules=rules()) as router:
        a.models = LISTS[models]
        await bench_a(router)
        refused = len(b.bodies)
        await a.begin()
        await until(lambda: a_of(router).cooldown.standing is Standing.IN_USE)
        assert a.bodies == [b""], "the probe and nothing else"
        assert a.probes == ["probe-trial-1"]
        for _ in range(2):
            assert (await router.ask()).status == 200
        assert (len(a.bodies), len(b.bodies)) == (2, refused + 1)
        told = [event["standing"] for event in router.events if event["event"] == "standing"]
        assert (told[0], told[-1]) == ("benched", "in_use")


@pytest.mark.parametrize("models", ["loading", "not synced"])
async def test_a_pool_that_is_not_ready_stays_benched_until_it_is(models: str, tmp_path: Path) -> None:
    async with Returning() as a, RawPool(ok) as b, live(tmp_path, a.url, b.url, rules=rules()) as router:
        a.models = LISTS[models]
        await a.begin()
        router.app.policy._learn(a_of(router), *_hung())
        await until(lambda: a.probes)
        await until(lambda: a_of(router).cooldown.reason == REASON[models])
        assert (await router.ask()).headers["x-pooldrill-pool"] == "b"
        a.models = LISTS["ready"]
        await until(lambda: a_of(router).cooldown.standing is Standing.IN_USE)


def _hung() -> tuple[Verdict, str]:
    return Verdict.HANGS, "hole"


async def test_the_last_pool_is_tried_while_requests_wait_for_it(tmp_path: Path) -> None:
    async with Returning() as a, live(tmp_path, a.url, rules=rules(cooldown_s=30.0, patience_s=5.0)) as router:
        codes = [(await router.ask()).code for _ in range(3)]
        assert codes == ["pool_unreachable"] * 3
        asking = [asyncio.ensure_future(router.ask()) for _ in range(5)]
        await until(lambda: router.app.policy.waiting == 5)
        await asyncio.sleep(0.3)
        await a.begin()
        async with asyncio.timeout(3):
            assert [(await told).status for told in asking] == [200] * 5


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.slow)])
async def test_a_black_hole_costs_two_connect_timeouts_at_the_most(seconds: int, tmp_path: Path) -> None:
    """At 50 requests a second; what is benched again and again meanwhile is paid by trials, not by requests."""
    async with BlackHole() as hole, RawPool(ok) as good:
        async with live(tmp_path, hole.url, good.url, rules=rules(cooldown_s=5.0)) as router:
            asking = []
            for _ in range(50 * seconds):
                asking.append(asyncio.ensure_future(router.ask()))
                await asyncio.sleep(0.02)
            assert {(await told).status for told in asking} == {200}
            assert a_of(router).cooldown.standing is Standing.BENCHED
        paid_s = [row.t_end - row.t_start for row in router.rows() if row.cause == "connect_timeout"]
        assert max(paid_s) > 0.9, "somebody has found out"
        assert sum(paid_s) <= 2.0, f"{len(paid_s)} requests paid {sum(paid_s):.2f} s"


async def test_a_router_that_stops_in_the_middle_of_a_trial_leaves_nothing_behind(tmp_path: Path) -> None:
    async with BlackHole() as hole, Refusing() as other:
        async with live(tmp_path, hole.url, other.url, rules=rules(connect_slow_s=1.0)) as router:
            router.app.policy._learn(a_of(router), *_hung())
            await until(lambda: a_of(router).on_trial)
        assert a_of(router).cooldown.standing is Standing.BENCHED
