"""Connections that are kept for reuse, and what happens when the pool has closed one."""

import asyncio
import socket
from pathlib import Path

import pytest

from router.core.config import RouterConfig
from router.settings import ShellConfig
from router.upstream.connection import Connection
from router.upstream.kept import Kept
from router.upstream.origin import Origin
from tests.router import raw_pool
from tests.router.live import live
from tests.router.raw_pool import Call, RawPool, ok, status

PATIENT = RouterConfig(connect_timeout_s=10.0, connect_slow_s=5.0)
"""Connects that are made at the same time may be slow on a busy machine."""


async def test_connections_are_reused(tmp_path: Path) -> None:
    async with RawPool(ok, keep=True) as pool:
        async with live(tmp_path, pool.url) as router:
            for number in range(3):
                assert (await router.ask(stream=bool(number % 2))).status == 200
        assert pool.connections == 1
        assert [row.reused for row in router.rows()] == [False, True, True]


async def test_reuse_can_be_turned_off(tmp_path: Path) -> None:
    async with RawPool(ok, keep=True) as pool:
        async with live(tmp_path, pool.url, shell=ShellConfig(reuse_idle_s=0)) as router:
            for _ in range(2):
                assert (await router.ask()).status == 200
        assert pool.connections == 2
        assert not any(row.reused for row in router.rows())


async def test_a_connection_that_has_said_408_is_not_used_again(tmp_path: Path) -> None:
    """It may have been said to nobody just before the request came; then the true answer would be the next one's."""
    async with RawPool(status(408), keep=True) as pool:
        async with live(tmp_path, pool.url) as router:
            for _ in range(2):
                assert (await router.ask()).status == 408
        assert pool.connections == 2


async def test_an_idle_connection_is_not_kept_beyond_its_time(tmp_path: Path) -> None:
    async with RawPool(ok, keep=True) as pool:
        async with live(tmp_path, pool.url, shell=ShellConfig(reuse_idle_s=0.1)) as router:
            await router.ask()
            await asyncio.sleep(0.3)
            await router.ask()
        assert pool.connections == 2


async def test_a_connection_that_the_pool_has_closed_costs_nothing(tmp_path: Path) -> None:
    async with RawPool(ok) as pool:  # closes after each answer, without saying so
        async with live(tmp_path, pool.url) as router:
            for _ in range(20):
                assert (await router.ask()).status == 200
        assert len(pool.bodies) == 20
        assert all(row.outcome == ("answered", "", 200) for row in router.rows())


@pytest.mark.parametrize(
    "unasked", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"], ids=["fin", "408"]
)
async def test_what_the_event_loop_has_not_seen_yet_is_found_at_the_socket(
    unasked: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool ends an idle connection, perhaps with an answer to nothing, just as the next request is to be sent."""
    idle: list[socket.socket] = []

    async def remembered(call: Call) -> None:
        await ok(call)
        idle.append(socket.fromfd(call.writer.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM))

    take = Kept.take

    def ended_by_the_pool(kept: Kept, origin: Origin) -> Connection | None:
        while idle:
            with idle.pop() as connection:
                if unasked:
                    connection.send(unasked)
                connection.shutdown(socket.SHUT_WR)
        return take(kept, origin)

    async with RawPool(remembered, keep=True) as pool:
        async with live(tmp_path, pool.url) as router:
            await router.ask()
            monkeypatch.setattr(Kept, "take", ended_by_the_pool)
            for _ in range(5):
                assert (await router.ask()).status == 200
        idle.pop().close()
        assert (len(pool.bodies), pool.connections) == (6, 6)
        assert {row.outcome for row in router.rows()} == {("answered", "", 200)}
        assert not router.events


async def test_an_answer_to_nothing_that_was_read_long_ago_is_dropped_with_its_connection(tmp_path: Path) -> None:
    async def then_unasked(call: Call) -> None:
        await ok(call)
        await asyncio.sleep(0.03)  # until the connection is kept for reuse
        await call.say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    async with RawPool(then_unasked, keep=True) as pool:
        async with live(tmp_path, pool.url) as router:
            for _ in range(3):
                assert (await router.ask()).status == 200
                await asyncio.sleep(0.1)
        assert (len(pool.bodies), pool.connections) == (3, 3)
        assert {row.outcome for row in router.rows()} == {("answered", "", 200)}


async def test_however_many_idle_connections_are_dead_the_request_gets_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_here = asyncio.Event()

    async def together(call: Call) -> None:
        if len(pool.bodies) == 20:
            all_here.set()
        await all_here.wait()
        await ok(call)

    async with RawPool(together, keep=True) as pool:
        async with live(tmp_path, pool.url, rules=PATIENT) as router:
            await asyncio.gather(*(router.ask() for _ in range(20)))
            assert pool.connections == 20
            monkeypatch.setattr(Connection, "is_dead", lambda _: True)
            assert (await router.ask()).status == 200
        assert pool.connections == 21
        assert [row.outcome for row in router.rows()] == [("answered", "", 200)] * 21


async def test_a_pool_that_drops_a_request_on_a_reused_connection_blames_nobody(tmp_path: Path) -> None:
    async def only_the_first(call: Call) -> None:
        if len(pool.bodies) > 1:
            call.pool.keep = False
            return
        await ok(call)

    async with RawPool(only_the_first, keep=True) as pool, RawPool(ok) as other:
        async with live(tmp_path, pool.url, other.url) as router:
            for _ in range(2):
                assert (await router.ask()).status == 200
            told = await router.ask()
        assert (told.status, told.code) == (503, "maybe_running")
        assert len(other.bodies) == 1
        row = router.rows()[-1]
        assert row.outcome == ("unknown", "stale", None)
        assert (row.blame, row.reused, row.slot_taken) == ("nobody", True, True)


async def test_a_restarted_pool_is_reached_by_a_new_connection(tmp_path: Path) -> None:
    async with RawPool(ok, keep=True) as pool:
        async with live(tmp_path, pool.url, rules=PATIENT) as router:
            assert [(await told).status for told in [asyncio.ensure_future(router.ask()) for _ in range(6)]] == [
                200
            ] * 6
            for task in list(pool._tasks):
                task.cancel()  # every connection that is kept is closed
            await asyncio.sleep(0.05)
            assert (await router.ask()).status == 200
        assert [row.outcome for row in router.rows()] == [("answered", "", 200)] * 7
        assert raw_pool.PLAIN
