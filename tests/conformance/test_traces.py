"""One trace of arrivals, no faults: the real frontend and the modelled one come to the same ends."""

import asyncio
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import aiohttp
import pytest
import simpy

from chaos.ports import PortReservations
from scenarios.record import PoolEvent
from scenarios.spec import Load, Pool, Service
from scenarios.world.arrivals import arrivals
from simulator.connection import Connection, Head
from simulator.frontend import Chat, Frontend
from simulator.journal import Journal
from simulator.timers import Timers
from tests.chaos.live_frontend import MODEL, LiveFrontend, eventually

SERVICE = Service(kind="exponential", mean_s=0.08, load_factor=1.5)
ROOMY: dict[str, Any] = {"slots": 8, "queue_max": 100}
TIGHT: dict[str, Any] = {"slots": 8, "queue_max": 8, "reject_retry_after_s": 1.0}
LOAD = Load(rate_rps=50.0, start_s=0.0, end_s=6.0, arrivals="poisson")
"""About 300 arrivals at three quarters of what the slots can do with all of them busy (8 / .08 / 1.5 = 67/s)."""
OVERLOAD = Load(rate_rps=150.0, start_s=0.0, end_s=3.0, arrivals="poisson")
"""More than twice what they can do."""


class Ends(NamedTuple):
    """Status of each operation, and when the pool finished it, in seconds since the first arrival was due."""

    statuses: dict[str, int]
    finished_s: dict[str, float]


def operation(turn: int) -> str:
    return f"op-0-{turn}"


def ends_of(statuses: dict[str, int], events: list[PoolEvent], start_s: float) -> Ends:
    finished = {str(e.operation_id): e.t - start_s for e in events if e.kind == "finished"}
    assert finished.keys() == {name for name, status in statuses.items() if status == 200}
    return Ends(statuses, finished)


def modelled(times: list[float], knobs: dict[str, Any]) -> Ends:
    env, journal = simpy.Environment(), Journal()
    timers = Timers(env)
    frontend = Frontend(env, timers, journal, Pool(id="a", model=MODEL, service=SERVICE, **knobs), name="a-0", seed=1)
    statuses: dict[str, int] = {}

    def client(turn: int, at_s: float) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(at_s)
        connection = Connection(env, timers)
        chat = Chat(operation(turn), f"{operation(turn)}-r0", MODEL, stream=False)
        connection.ask(lambda opened: frontend.serve(opened, chat))
        head = yield from connection.receive(60.0)
        assert isinstance(head, Head)
        statuses[operation(turn)] = head.status

    for turn, at_s in enumerate(times):
        env.process(client(turn, at_s))
    env.run()
    return ends_of(statuses, journal.pool_events, 0.0)


async def real(times: list[float], knobs: dict[str, Any], tmp_path: Path) -> Ends:
    with PortReservations() as ports:
        live = LiveFrontend(ports.take(), ports.take(), tmp_path / "a-0.jsonl", SERVICE, **knobs)
        await live.open()
        try:
            loop = asyncio.get_running_loop()
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                start_s = loop.time() + 0.1

                async def client(turn: int, at_s: float) -> tuple[str, int]:
                    await asyncio.sleep(start_s + at_s - loop.time())
                    body = {"model": MODEL, "messages": [], "operation_id": operation(turn)}
                    headers = {"x-request-id": f"{operation(turn)}-r0"}
                    async with session.post(f"{live.url}/v1/chat/completions", json=body, headers=headers) as response:
                        await response.read()
                        return operation(turn), response.status

                statuses = dict(await asyncio.gather(*(client(turn, at_s) for turn, at_s in enumerate(times))))
            await eventually(lambda: live.frontend.in_flight == 0)
        finally:
            await live.close()
    return ends_of(statuses, live.events(), start_s)


async def test_below_capacity_every_request_comes_to_the_same_end_at_about_the_same_time(tmp_path: Path) -> None:
    times = arrivals(LOAD, 11, 0)
    assert 250 < len(times) < 350
    expected = modelled(times, ROOMY)
    seen = await real(times, ROOMY, tmp_path)
    assert Counter(expected.statuses.values()) == {200: len(times)}
    assert seen.statuses == expected.statuses
    apart_s = [abs(seen.finished_s[name] - expected.finished_s[name]) for name in expected.finished_s]
    # A few milliseconds on an idle machine; a busy one may be late with its timers, but not by a service time.
    assert fmean(apart_s) < SERVICE.mean_s / 2


async def test_in_overload_as_many_are_rejected(tmp_path: Path) -> None:
    """Who exactly is rejected turns on milliseconds; how many are does not."""
    times = arrivals(OVERLOAD, 12, 0)
    expected = Counter(modelled(times, TIGHT).statuses.values())
    seen = Counter((await real(times, TIGHT, tmp_path)).statuses.values())
    assert expected[503] > 0.3 * len(times)
    assert seen[503] == pytest.approx(expected[503], abs=0.05 * len(times))
    assert seen.total() == expected.total()
