"""One try of a drill, with the whole cast: from the first process to the last row.

Laws
1. The router's first request is the first measured one, so its cursors stand where the model's do.
2. It ends when every operation has ended and every fault is cleared; each operation is bounded by its client.
3. Then the router is given time to hold nothing, is read, and must end in order; the frontends after it.
"""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import aiohttp

from chaos import cast as casting
from chaos import lag, provenance, scrape, timeline
from chaos.cast import Cast
from chaos.clients.client import Client, client_for, load_libraries
from chaos.clients.ledger import Ledger
from chaos.collect import Notes
from chaos.processes import Exit, sigterm_cancels
from chaos.provision import Server
from chaos.routers.reference import METRICS_PREFIX
from chaos.warm_up import warm_up
from scenarios.plan import Planned, plan
from scenarios.record import Meta, Record, Sample
from scenarios.spec import Scenario

START_DELAY_S = 0.05
"""From the last preparation to the run's start."""
IDLE_WAIT_S = 5.0
"""Longest wait, after the last operation, until the router holds nothing."""
SETTLE_WAIT_S = 1.0
"""Longest wait after that until the frontends have noticed what they need not finish."""
IDLE_POLL_S = 0.02
SCRAPE_WAIT_S = 5.0
ROUTER_STOP_WAIT_S = 10.0


class Performance:
    """One try of a scenario. `router` names the router under test in the record."""

    def __init__(self, scenario: Scenario, log_dir: Path, router: str) -> None:
        self._scenario = scenario
        self._log_dir = log_dir
        self._router = router
        self._planned = plan(scenario)
        self._notes = Notes(Ledger())

    async def run(self, server: Server, router_command: Sequence[str]) -> Record:
        """Run once. Raises, perhaps in a group, whatever the cast, faults, logs and metrics raise."""
        meta = self._meta()
        libraries = asyncio.create_task(load_libraries(self._scenario.load))
        with sigterm_cancels():
            async with casting.running(self._scenario, server, self._log_dir, router_command) as cast:
                await libraries
                async with cast.children.needed():
                    start_s = await self._play(cast)
                    idle = await self._read(cast)
                await self._end(cast, idle=idle)
        for actor in cast.actors:
            self._notes.add_frontend_log(actor.part.log)
        self._notes.add_send_log(cast.send_log)
        self._notes.probes += cast.probes.rows()
        return Record(meta, self._notes.rows(self._planned, start_s))

    async def _play(self, cast: Cast) -> float:
        """Let the scenario happen; returns when it began, on the loop's clock."""
        async with self._clients(cast.router_url) as clients:
            await warm_up(list(zip(self._scenario.load, clients, strict=True)))
            with _no_collections():
                return await self._perform(cast, clients)

    async def _perform(self, cast: Cast, clients: Sequence[Client]) -> float:
        loop = asyncio.get_running_loop()
        courses = self._courses(cast)

        async def operate(planned: Planned, t_intended: float) -> None:
            await clients[planned.load].operate(planned, t_intended)

        start_s = loop.time() + START_DELAY_S
        async with asyncio.TaskGroup() as group:
            watches = [
                group.create_task(lag.watch("harness", self._notes.samples.append)),
                group.create_task(cast.children.watch()),
            ]
            faults = group.create_task(timeline.play(courses, start_s))
            await timeline.arrive(self._planned, start_s, operate)
            await faults
            for watch in watches:
                watch.cancel()
        self._notes.faults += [course.row() for course in courses]
        return start_s

    def _courses(self, cast: Cast) -> list[timeline.Course]:
        pools = {pool.id: pool for pool in self._scenario.pools}
        return [
            timeline.Course(
                planned,
                [(timeline.fault_of(planned, pools[planned.pool]), target) for target in cast.targets(planned.pool)],
                cast.probes.settle,
            )
            for planned in self._scenario.faults
        ]

    @contextlib.asynccontextmanager
    async def _clients(self, router_url: str) -> AsyncIterator[list[Client]]:
        async with contextlib.AsyncExitStack() as stack:
            made = (client_for(load, router_url, self._notes.ledger) for load in self._scenario.load)
            yield [await stack.enter_async_context(client) for client in made]

    async def _read(self, cast: Cast) -> bool:
        """Read the router once it holds nothing; false if it does not let go."""
        idle = await self._until(lambda: self._router_idle(cast), wait_s=IDLE_WAIT_S)
        self._notes.metrics += scrape.counters(await _page(cast), METRICS_PREFIX)
        await self._until(lambda: _frontends_idle(cast), wait_s=SETTLE_WAIT_S)
        return idle

    async def _end(self, cast: Cast, *, idle: bool) -> None:
        """End router and frontends in order. Raises ProcessError for a bad end."""
        ended = await cast.router.stop(wait_s=ROUTER_STOP_WAIT_S)
        # What still holds something may well not end in order; the record tells that, so it is kept.
        if idle and ended.returncode != 0:
            raise cast.router.failure("must exit with 0 on SIGTERM")
        for actor, exit_ in zip(cast.actors, await _stop_frontends(cast), strict=True):
            if exit_.returncode != 0:
                raise actor.child.failure("must exit with 0 on SIGTERM")

    async def _router_idle(self, cast: Cast) -> bool:
        held = scrape.gauge(await _page(cast), METRICS_PREFIX, "in_flight", "pool")
        now_s = asyncio.get_running_loop().time()
        self._notes.samples += [
            Sample(kind="in_flight", source=pool, value=count, t=now_s) for pool, count in sorted(held.items())
        ]
        return not any(held.values())

    async def _until(self, holds: Callable[[], Awaitable[bool]], *, wait_s: float) -> bool:
        """Wait until something holds; false if it does not within `wait_s` seconds."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while not await holds():
            if loop.time() >= deadline_s:
                return False
            await asyncio.sleep(IDLE_POLL_S)
        return True

    def _meta(self) -> Meta:
        return Meta(
            scenario=self._scenario,
            seed=self._scenario.seed,
            mode="real",
            router=self._router,
            started=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            versions=provenance.versions(),
            commit=provenance.commit(casting.ROOT),
        )


async def _frontends_idle(cast: Cast) -> bool:
    return sum([await actor.remote.in_flight() for actor in cast.actors]) == 0


async def _stop_frontends(cast: Cast) -> list[Exit]:
    return await asyncio.gather(*(actor.child.stop() for actor in cast.actors))


async def _page(cast: Cast) -> str:
    """Return the router's page of metrics. Raises ScrapeError."""
    try:
        timeout = aiohttp.ClientTimeout(total=SCRAPE_WAIT_S)
        async with cast.session.get(cast.metrics_url, timeout=timeout) as response:
            response.raise_for_status()
            return await response.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise scrape.ScrapeError(f"no metrics at {cast.metrics_url}: {error or type(error).__name__}") from error


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Inside, full garbage collections pass over everything that was made before: they cost up to 50 ms each."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
