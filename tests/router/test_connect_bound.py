"""A connect is given up when its time is over, and not because the event loop stood still."""

import asyncio
import time

import pytest

from router.upstream.connect_bound import ConnectBound
from tests.router.raw_pool import BlackHole, RawPool, ok

STILL_S = 0.3
BOUND_S = 0.05


async def connect(url: str, bound_s: float) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    async with ConnectBound(asyncio.get_running_loop().time() + bound_s):
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, int(port))
    transport.abort()


async def test_what_stands_after_the_loop_stood_still_was_in_time() -> None:
    async with RawPool(ok) as pool:
        connecting = [asyncio.create_task(connect(pool.url, BOUND_S)) for _ in range(20)]
        await asyncio.sleep(0)  # each has asked the kernel
        time.sleep(STILL_S)  # noqa: ASYNC251  (this is what is tested)
        await asyncio.gather(*connecting)


async def test_what_hangs_is_given_up_in_time() -> None:
    async with BlackHole() as hole:
        begin_s = time.monotonic()
        with pytest.raises(TimeoutError):
            await connect(hole.url, BOUND_S)
        assert BOUND_S <= time.monotonic() - begin_s < 1


async def test_a_bound_that_is_over_at_once_gives_up_at_once() -> None:
    async with BlackHole() as hole:
        with pytest.raises(TimeoutError):
            await connect(hole.url, -1.0)


async def test_a_departure_stays_a_departure() -> None:
    async with BlackHole() as hole:
        connecting = asyncio.create_task(connect(hole.url, 10.0))
        await asyncio.sleep(0.01)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
