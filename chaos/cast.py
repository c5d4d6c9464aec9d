"""Everything that plays a part in one real run, started together and gone at the end.

    clients (in the harness) -> router -> one Toxiproxy proxy for each frontend -> frontends

All listen on 127.0.0.1, on fixed ports that are reserved before anything starts, so that nothing has to wait for
another one's address.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import aiohttp

from chaos.faults import probes
from chaos.faults.fault import Target
from chaos.frontend import process as frontend_process
from chaos.frontend.remote import Remote
from chaos.ports import LOOPBACK, PortReservations
from chaos.probe_book import ProbeBook
from chaos.processes import Child, Children
from chaos.provision import Server
from chaos.routers import reference
from chaos.toxiproxy import Toxiproxy
from router.core import topology
from scenarios.spec import Pool, Scenario

ROOT = Path(__file__).resolve().parent.parent
FRONTEND = (sys.executable, "-P", "-m", "chaos.frontend")
READY_CALL_S = 1.0
"""Longest wait for one answer while the router starts."""


class CastError(RuntimeError):
    """A part of the run is not as it must be; the text ends with the tail of its log where it has one."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Part:
    """One frontend with its proxy, planned before anything runs."""

    pool: Pool
    name: str
    port: int
    control_port: int
    proxy_port: int
    log: Path


@dataclass(frozen=True, slots=True)
class Actor:
    """One frontend with its proxy, running."""

    part: Part
    child: Child
    remote: Remote
    target: Target


@dataclass(frozen=True, slots=True)
class Cast:
    """The running parts. `actors` stand in the order of the scenario's pools, then of their names."""

    actors: tuple[Actor, ...]
    router: Child
    router_url: str
    metrics_url: str
    send_log: Path
    children: Children
    probes: ProbeBook
    session: aiohttp.ClientSession

    def targets(self, pool: str) -> list[Target]:
        """Return the frontends of a pool, for faults."""
        return [actor.target for actor in self.actors if actor.part.pool.id == pool]


@asynccontextmanager
async def running(
    scenario: Scenario, server: Server, log_dir: Path, router_command: Sequence[str]
) -> AsyncIterator[Cast]:
    """Start the whole cast; inside everybody is ready, afterwards nobody is left.

    `log_dir` is emptied first: it must be this run's alone. Raises, perhaps in a group, CastError, ProcessError,
    PortError or ToxiproxyError; OSError where `log_dir` cannot be emptied, since old rows would count as new ones.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(log_dir)
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(PortReservations())
        # No idle connection of the harness may be what a router waits for before it ends.
        connector = aiohttp.TCPConnector(force_close=True)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        children = await stack.enter_async_context(Children(log_dir))
        starter = _Starter(scenario, ports, children, session, log_dir)
        yield await starter.start(server, router_command, stack)


class _Starter:
    """Starts the parts side by side, since most of their time goes into imports."""

    def __init__(
        self,
        scenario: Scenario,
        ports: PortReservations,
        children: Children,
        session: aiohttp.ClientSession,
        log_dir: Path,
    ) -> None:
        self._scenario = scenario
        self._ports = ports
        self._children = children
        self._session = session
        self._log_dir = log_dir
        self._probes = ProbeBook()
        self._parts = [part for pool in scenario.pools for part in self._planned(pool)]
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}

    async def start(self, server: Server, router_command: Sequence[str], stack: AsyncExitStack) -> Cast:
        """Start everybody. What must be undone, also when this fails halfway, is left on the stack."""
        port, admin_port = self._ports.take(), self._ports.take()
        router_url = f"http://{LOOPBACK}:{port}"
        send_log = self._log_dir / "sends.jsonl"
        told = reference.arguments(
            self._scenario.router,
            self._addresses(),
            seed=self._scenario.seed,
            port=port,
            admin_port=admin_port,
            send_log=send_log,
        )
        async with asyncio.TaskGroup() as group:
            router = group.create_task(self._router([*router_command, *told], router_url + reference.READY_PATH))
            frontends = [group.create_task(self._frontend(part)) for part in self._parts]
            opening = group.create_task(Toxiproxy.open(server, children=self._children, ports=self._ports))
        toxiproxy = await stack.enter_async_context(opening.result())
        actors = [
            await self._actor(part, frontend.result(), toxiproxy)
            for part, frontend in zip(self._parts, frontends, strict=True)
        ]
        return Cast(
            actors=tuple(actors),
            router=router.result(),
            router_url=router_url,
            metrics_url=f"http://{LOOPBACK}:{admin_port}/metrics",
            send_log=send_log,
            children=self._children,
            probes=self._probes,
            session=self._session,
        )

    def _planned(self, pool: Pool) -> Iterator[Part]:
        """Reserve the ports of a pool's frontends; their names are those that the router gives them."""
        proxy_ports = [self._ports.take() for _ in range(pool.frontends)]
        named = topology.Pool.of_urls(pool.id, map(_url, proxy_ports)).frontends
        for frontend, proxy_port in zip(named, proxy_ports, strict=True):
            yield Part(
                pool=pool,
                name=frontend.name,
                port=self._ports.take(),
                control_port=self._ports.take(),
                proxy_port=proxy_port,
                log=self._log_dir / f"{frontend.name}.events.jsonl",
            )

    def _addresses(self) -> list[reference.PoolAddresses]:
        return [
            reference.PoolAddresses(
                pool.id, pool.model, tuple(_url(part.proxy_port) for part in self._parts if part.pool is pool)
            )
            for pool in self._scenario.pools
        ]

    async def _frontend(self, part: Part) -> Child:
        told = frontend_process.arguments(
            part.pool,
            name=part.name,
            seed=self._scenario.seed,
            port=part.port,
            control_port=part.control_port,
            log=part.log,
        )
        child = await self._children.start(part.name, [*FRONTEND, *told], title=f"frontend {part.name}", env=self._env)
        await child.ready_line(frontend_process.READY)
        return child

    async def _router(self, argv: Sequence[str], ready_url: str) -> Child:
        child = await self._children.start("router", argv, env=self._env)
        await child.ready(lambda: self._answers(ready_url), f"no 200 from {ready_url}")
        return child

    async def _answers(self, url: str) -> bool:
        try:
            async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=READY_CALL_S)) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _actor(self, part: Part, child: Child, toxiproxy: Toxiproxy) -> Actor:
        """Put the proxy before a frontend, and look whether it answers through it."""
        proxy = await toxiproxy.create(part.name, listen_port=part.proxy_port, upstream_port=part.port)
        seen = await probes.get(part.proxy_port)
        if seen.status != 200:
            raise CastError(f"frontend {part.name} does not answer through its proxy: {seen}")
        name = f"{part.pool.id}/{part.name}"
        remote = Remote(part.name, part.control_port, self._session)
        target = Target(name, proxy, remote, lambda: self._probes.issue(name))
        return Actor(part, child, remote, target)


def _url(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"
