"""Every time-out of a send: in the client's code, the log, the metric and the send log."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from router.core.config import RouterConfig
from tests.router import raw_pool
from tests.router.live import Live, live
from tests.router.raw_pool import Behaviour, BlackHole, Call, RawPool, Refusing, head, ok

LARGE = b'{"model": "m", "text": "' + b"x" * 8_000_000 + b'"}'
SMALL = b'{"model": "m"}'
SSE = ("Content-Type: text/event-stream", "Transfer-Encoding: chunked")


class ReadsNothing:
    """A pool that accepts and reads nothing of what comes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._over = asyncio.Event()

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aenter__(self) -> "ReadsNothing":
        async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._over.wait()
            writer.transport.abort()

        self._server = await asyncio.start_server(hold, "127.0.0.1", 0, limit=1024)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        self._server.close()
        await asyncio.sleep(0.01)  # connections that were closed get to be forgotten by the event loop


def stalls(after: int) -> Behaviour:
    """Send a head and so many tokens, then nothing."""

    async def behave(call: Call) -> None:
        await call.say(head(200, *SSE))
        for event in raw_pool.TOKENS[:after]:
            await call.chunk(event)
        await call.until_client_leaves()

    return behave


async def trickles(call: Call) -> None:
    """Send a token now and then, for ever."""
    await raw_pool.endless(call)


@dataclass(frozen=True, slots=True)
class Case:
    """A pool that is too slow for one of the bounds, and whom that blames."""

    make: Callable[[], RawPool | Refusing | ReadsNothing]
    rules: RouterConfig
    blame: str = "frontend"
    body: bytes = SMALL


def rules(**knobs: float) -> RouterConfig:
    return RouterConfig(**{"connect_timeout_s": 5.0, "deadline_s": 20.0, **knobs})  # type: ignore[arg-type]  # times all


BEFORE_THE_HEAD = {
    "upload": Case(ReadsNothing, rules(upload_timeout_s=0.3), body=LARGE),
    "first_byte": Case(lambda: RawPool(raw_pool.silent), rules(first_byte_timeout_s=0.3)),
    "total": Case(lambda: RawPool(raw_pool.silent), rules(total_timeout_s=0.3), blame="nobody"),
    "deadline": Case(lambda: RawPool(raw_pool.silent), rules(deadline_s=0.3), blame="nobody"),
}
AFTER_THE_HEAD = {
    "idle": Case(lambda: RawPool(stalls(2)), rules(idle_timeout_s=0.3)),
    "total": Case(lambda: RawPool(trickles), rules(total_timeout_s=0.3), blame="nobody"),
    "deadline": Case(lambda: RawPool(trickles), rules(deadline_s=0.3), blame="nobody"),
}


def event(router: Live, name: str) -> dict[str, object]:
    (found,) = [line for line in router.events if line["event"] == name]
    return found


@pytest.mark.parametrize("cause", BEFORE_THE_HEAD)
async def test_after_the_hand_over_and_before_the_head_it_is_a_504(cause: str, tmp_path: Path) -> None:
    case = BEFORE_THE_HEAD[cause]
    async with case.make() as slow, RawPool(ok) as other:
        async with live(tmp_path, slow.url, other.url, rules=case.rules) as router, asyncio.timeout(5):
            told = await router.post(case.body)
        assert (told.status, told.code) == (504, "pool_timeout")
        assert (told.headers["x-pooldrill-delivery"], told.headers["x-should-retry"]) == ("unknown", "false")
        (row,) = router.rows()
        assert (row.outcome, row.blame, row.slot_taken) == (("unknown", cause, None), case.blame, True)
        assert row.t_end - row.t_start >= 0.29
        assert event(router, "send_failed")["cause"] == cause
        assert router.app.policy.tally.failures == {("a", cause): 1}
        assert other.bodies == [], "what may be running is not sent again"


@pytest.mark.parametrize("cause", AFTER_THE_HEAD)
async def test_after_the_head_it_is_a_break_and_never_a_frame_of_ours(cause: str, tmp_path: Path) -> None:
    case = AFTER_THE_HEAD[cause]
    async with case.make() as slow, live(tmp_path, slow.url, rules=case.rules) as router, asyncio.timeout(5):
        told = await router.post(case.body)
        assert (told.status, told.broken) == (200, True)
        assert told.body
        assert told.body.replace(raw_pool.TOKENS[0], b"").replace(raw_pool.TOKENS[1], b"") == b"", (
            "the pool's bytes alone"
        )
        await router.settled()
        assert event(router, "stream_broken")["cause"] == cause
        assert router.app.policy.tally.failures == {("a", cause): 1}
        assert isinstance(slow, RawPool)
        assert slow.departures == 1, "the pool learns of it"
    (row,) = router.rows()
    assert (row.outcome, row.blame) == (("answered", cause, 200), case.blame)


async def test_a_connect_that_hangs_is_named(tmp_path: Path) -> None:
    async with BlackHole() as hole, RawPool(ok) as good:
        async with live(tmp_path, hole.url, good.url, rules=rules(connect_timeout_s=0.3)) as router:
            assert (await router.ask()).status == 200
        assert router.rows()[0].outcome == ("unsent", "connect_timeout", None)
        assert router.app.policy.tally.failures == {("a", "connect_timeout"): 1}


async def test_an_upload_that_goes_on_slowly_is_no_upload_that_stalls(tmp_path: Path) -> None:
    """Longer than the bound in all, but never without progress for so long."""

    async def reads_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = await reader.readuntil(b"\r\n\r\n")
        left = len(LARGE)
        while left:
            left -= len(await reader.read(min(left, 500_000)))
            await asyncio.sleep(0.05)
        assert received
        writer.write(head(200, f"Content-Length: {len(raw_pool.PLAIN)}") + raw_pool.PLAIN)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(reads_slowly, "127.0.0.1", 0, limit=65_536)
    async with server:
        host, port = server.sockets[0].getsockname()
        async with live(tmp_path, f"http://{host}:{port}", rules=rules(upload_timeout_s=0.4)) as router:
            told = await router.post(LARGE)
        assert (told.status, told.body) == (200, raw_pool.PLAIN)
    assert [row.outcome for row in router.rows()] == [("answered", "", 200)]


async def test_the_first_byte_is_waited_for_from_the_end_of_the_upload_on(tmp_path: Path) -> None:
    async def after_a_while(call: Call) -> None:
        await asyncio.sleep(0.3)
        await ok(call)

    bounds = rules(upload_timeout_s=0.2, first_byte_timeout_s=2.0, idle_timeout_s=0.2)
    async with RawPool(after_a_while) as pool, live(tmp_path, pool.url, rules=bounds) as router:
        assert (await router.ask()).status == 200


async def test_time_outs_of_zero_are_off(tmp_path: Path) -> None:
    async def after_a_while(call: Call) -> None:
        await asyncio.sleep(0.3)
        await ok(call)

    off = rules(upload_timeout_s=0.0, first_byte_timeout_s=0.0, total_timeout_s=0.0)
    async with RawPool(after_a_while) as pool, live(tmp_path, pool.url, rules=off) as router:
        assert (await router.ask()).status == 200


async def test_a_clients_own_deadline_ends_a_stream(tmp_path: Path) -> None:
    async with RawPool(trickles) as pool, live(tmp_path, pool.url, rules=rules()) as router, asyncio.timeout(5):
        told = await router.post(SMALL, headers={"x-pooldrill-deadline-ms": "300"})
        assert (told.status, told.broken) == (200, True)
        await router.settled()
        assert event(router, "stream_broken")["cause"] == "deadline"


async def test_the_read_time_out_of_an_sdk_ends_with_the_first_byte(tmp_path: Path) -> None:
    """It is a bound on each silence, so a stream that goes on may last longer."""

    async def steady(call: Call) -> None:
        await call.say(head(200, *SSE))
        for _ in range(8):
            await call.chunk(raw_pool.TOKENS[0])
            await asyncio.sleep(0.1)
        for last in (raw_pool.DONE, b""):
            await call.chunk(last)

    async with RawPool(steady) as pool, live(tmp_path, pool.url, rules=rules()) as router:
        told = await router.post(SMALL, headers={"x-stainless-read-timeout": "0.5"})
        assert (told.status, told.broken) == (200, False)
        assert told.body.endswith(raw_pool.DONE)


async def test_a_bound_on_the_whole_benches_nobody(tmp_path: Path) -> None:
    bounds = rules(total_timeout_s=0.05, cooldown_failures=1)
    async with RawPool(trickles) as pool, live(tmp_path, pool.url, rules=bounds) as router:
        for _ in range(3):
            assert (await router.ask()).broken
