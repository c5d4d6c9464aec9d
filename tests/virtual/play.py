"""Playing one world: the unchanged router, pools and clients, from the first event until nothing is left."""

import asyncio
import contextlib
import gc
import io
import logging
import signal
import traceback
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

import msgspec

from router import app
from router.core.topology import Catalog
from router.send_log import SendRow
from router.settings import Settings
from scenarios.world.streams import stream
from tests.virtual.clients import Heard, lane
from tests.virtual.loop import VirtualLoop, run, virtual_loop
from tests.virtual.network import Address, Connection, Network
from tests.virtual.plan import ROUTER, NextCut, Publish, Signal, Trouble, What, World
from tests.virtual.pools import Frontend, Served

END_S = 300.0
"""So long after the last event every request must have ended."""
OUTLIVES_S = 60.0
"""So long may timers outlive the router, as the one does that gives up what a client has not read."""
LOOKS_S = 0.05
"""How often it is looked at what the router counts."""
COLLECT_EVERY = 50
"""After so many worlds what the router has frozen (`gc.freeze`) is given back."""
_played = 0


class Observed:
    """What was seen of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: dict[str, Heard] = {}
        self.lists: dict[str, Heard] = {}
        """What became of requests for lists of models."""
        self.served: list[Served] = []
        self.unknown_ids: list[str] = []
        self.rows: list[SendRow] = []
        self.tally: Any = None
        self.problems: list[str] = []
        """What was found wrong while it ran: leaks, miscounts, what the event loop or a library complained of."""
        self.start_s = 0.0
        self.signalled_s = float("inf")
        self.drained_s = float("inf")
        self.troubled_s = 0.0
        """How long stalls have lasted, all together."""
        self.trace = 0
        """A checksum of everything that arrived anywhere, and when."""
        self.events = ""
        """The router's event log."""

    def served_of(self, name: str) -> list[Served]:
        """Return what the frontends have seen of one request."""
        return [served for served in self.served if served.name == name]

    def rows_of(self, name: str) -> list[SendRow]:
        """Return the router's sends of one request."""
        return [row for row in self.rows if row.request_id == name]


class _MemoryFile(io.BytesIO):
    """A file that can be read after it was closed."""

    kept = b""

    def close(self) -> None:
        if not self.closed:
            self.kept = self.getvalue()
        super().close()


class _SendLog:
    """Stands where the path of a send log stands; files are outside a virtual world."""

    def __init__(self) -> None:
        self.file = _MemoryFile()

    def open(self, *_: object, **__: object) -> _MemoryFile:
        return self.file

    def rows(self) -> list[SendRow]:
        return [msgspec.json.decode(line, type=SendRow) for line in self.file.kept.splitlines()]


class _Complaints(logging.Handler):
    """Collects what libraries and the event loop log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        where = "" if error is None else "".join(traceback.format_exception(error))[-1500:]
        self.said.append(f"{record.getMessage()} {where}".strip())


def play(world: World, *, end_s: float = END_S, looks_s: float = LOOKS_S) -> Observed:
    """Run a world to its end.

    `end_s` is how long after the last event a request may still go on, `looks_s` how often the router is looked at.
    """
    observed, complaints = Observed(world), _Complaints()
    mix = stream(world.seed, "order")
    network = Network(
        latency_s=world.latency_s,
        buffer_bytes=world.buffer_bytes,
        tick_s=world.tick_s,
        order=mix.shuffle if world.mixes else None,
    )
    with (
        _listening_to(complaints),
        warnings.catch_warnings(record=True) as warned,
        io.StringIO() as errors,
        contextlib.redirect_stderr(errors),
    ):
        warnings.simplefilter("always")  # of a transport that nobody closed, for example
        run(_Play(world, network, observed, looks_s).main(end_s), network)
        _collect()
        observed.events = errors.getvalue()
    observed.problems += [
        f"no_complaints: {said}" for said in (*complaints.said, *(str(one.message) for one in warned))
    ]
    observed.trace = zlib.crc32(repr(network.trace).encode())
    return observed


@contextlib.contextmanager
def _listening_to(complaints: _Complaints) -> Iterator[None]:
    """Hear what is logged; the handlers that were there before hear nothing."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, [complaints]
    try:
        yield
    finally:
        root.handlers = before


def _collect() -> None:
    """Let the event loop complain of what nobody looked at: it does when that is thrown away."""
    global _played  # noqa: PLW0603 - the garbage collector is one for the process, too
    _played += 1
    if _played % COLLECT_EVERY == 0:
        gc.unfreeze()
    gc.collect()


class _Play:
    """One world in the middle of its run."""

    def __init__(self, world: World, network: Network, observed: Observed, looks_s: float) -> None:
        self.world = world
        self.network = network
        self.observed = observed
        self.looks_s = looks_s
        self.asks = {ask.name: ask for ask in world.asks}
        self.frontends: dict[str, Frontend] = {}
        self.addresses: dict[str, Address] = {}
        for pool in world.pools:
            for one in pool.frontends:
                host, port = one.url.removeprefix("http://").split(":")
                self.addresses[one.name] = (host, int(port))
                self.frontends[one.name] = Frontend(pool.name, one.name, (host, int(port)), self.asks)
        self.sends = _SendLog()
        self.app: app.App | None = None
        self._ready: asyncio.Future[None]
        self._planned: list[asyncio.TimerHandle] = []
        self._starting: set[asyncio.Task[None]] = set()

    async def main(self, end_s: float) -> None:
        """Run it all."""
        for frontend in self.frontends.values():
            await frontend.start()
        loop, observed = virtual_loop(), self.observed
        self._ready = loop.create_future()
        router = asyncio.create_task(self._router())
        await asyncio.wait([router, self._ready], return_when=asyncio.FIRST_COMPLETED)
        observed.start_s = loop.time()
        self._plan()
        lanes = [asyncio.create_task(one) for one in self._lanes()]
        looking = asyncio.create_task(self._look())
        if lanes:
            last_s = max(event.at_s for event in self.world.events)
            await asyncio.wait(lanes, timeout=last_s + end_s)
        for task in lanes:
            if not task.done():
                task.cancel()
            elif task.exception() is not None:
                raise RuntimeError("a client of the world failed") from task.exception()
        looking.cancel()
        await self._heal()
        if self.world.signal is None:
            await self._quiet()
            self._signal()
        await asyncio.wait([router], timeout=end_s)
        self._end(router)
        await asyncio.sleep(OUTLIVES_S)
        self._left_behind(loop)

    def _lanes(self) -> Iterator[Any]:
        by_lane = defaultdict(list)
        for ask in sorted(self.world.asks, key=lambda ask: ask.at_s):
            by_lane[ask.lane].append(ask)
        for asks in by_lane.values():
            yield lane(asks, self.observed.heard, self.observed.start_s)
        for ask in self.world.lists:
            yield lane([ask], self.observed.lists, self.observed.start_s)

    async def _router(self) -> None:
        settings = Settings(
            pools=self.world.first_pools,
            rules=self.world.rules,
            shell=self.world.shell,
            host=ROUTER[0],
            port=ROUTER[1],
            send_log=cast(Path, self.sends),
        )

        def ready(started: app.App) -> None:
            self.app = started
            self._ready.set_result(None)

        with mock.patch.object(app, "_say_ready", ready):  # what it would print, and to whom
            await app.run(settings)
        self.observed.drained_s = self.network.now_s

    # ---- what happens

    def _plan(self) -> None:
        for event in self.world.events:
            when_s = self.observed.start_s + event.at_s
            match event:
                case Trouble():
                    self._at(when_s, self._trouble, event)
                case NextCut():
                    link = self.network.link(self.addresses[event.frontend])
                    self._at(when_s, link.cuts.append, event.cut)
                case Publish():
                    self._at(when_s, self._publish, event)
                case Signal():
                    virtual_loop().call_at(when_s, self._signal)
                    if event.again_s is not None:
                        virtual_loop().call_at(when_s + event.again_s, self._signal)

    def _at(self, when_s: float, action: Callable[..., object], *arguments: object) -> None:
        self._planned.append(virtual_loop().call_at(when_s, action, *arguments))

    def _trouble(self, event: Trouble) -> None:
        frontend = self.frontends[event.frontend]
        link = self.network.link(frontend.address)
        match event.what:
            case What.REFUSES:
                link.refuses = True
                self._at(self.network.now_s + event.for_s, setattr, link, "refuses", False)
            case What.HOLE:
                link.hole = True
                self._at(self.network.now_s + event.for_s, setattr, link, "hole", False)
            case What.STALL:
                self.observed.troubled_s += event.for_s
                link.stall()
                self._at(self.network.now_s + event.for_s, link.resume)
            case What.RESTART:
                frontend.kill()
                self._at(self.network.now_s + event.for_s, self._start, frontend)
            case What.CUT_FIN | What.CUT_RESET:
                link.cut_all(by_reset=event.what is What.CUT_RESET)
            case What.CLOSES_IDLE:
                frontend.end_idle()
            case What.SAYS_UNASKED:
                frontend.say_unasked()

    def _start(self, frontend: Frontend) -> None:
        if not frontend.up:
            task = asyncio.ensure_future(frontend.start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _publish(self, event: Publish) -> None:
        if self.app is not None:
            self.app.policy.publish(Catalog(event.listed(self.world.pools)))

    def _signal(self) -> None:
        observed = self.observed
        observed.signalled_s = min(observed.signalled_s, self.network.now_s)
        virtual_loop().send_signal(signal.SIGTERM)

    async def _heal(self) -> None:
        """End everything that befalls the frontends."""
        for handle in self._planned:
            handle.cancel()
        for frontend in self.frontends.values():
            link = self.network.link(frontend.address)
            link.refuses = link.hole = False
            link.cuts.clear()
            link.resume()
            if not frontend.up:
                await frontend.start()

    # ---- what is looked at

    async def _look(self) -> None:
        """Compare again and again what the router counts as under way with what the pools are busy with."""
        while True:
            await asyncio.sleep(self.looks_s)
            suspects = self._miscounted()
            if suspects:  # a send that has just ended: its socket is closed one round later
                await asyncio.sleep(0.001 + 3 * self.world.tick_s)
                for suspect in suspects & self._miscounted():
                    self._wrong(suspect)

    def _miscounted(self) -> set[str]:
        assert self.app is not None
        counted, wrong = self.app.policy.in_flight(), set()
        for pool, busy in self._busy().items():
            if counted.get(pool, 0) < len(busy):
                wrong.add(f"counts_are_true: pool {pool} is busy with {busy}, {counted.get(pool, 0)} are counted")
            if len(busy) > self.world.rules.in_flight_max:
                wrong.add(f"in_flight_is_bounded: pool {pool} is busy with {busy}")
        return wrong

    def _busy(self) -> dict[str, list[str]]:
        """Return the names of the requests that each pool has and the router still waits for."""
        busy: dict[str, list[str]] = defaultdict(list)
        for frontend in self.frontends.values():
            for connection in frontend.connections:
                served = connection.served
                if served is not None and served.body is not None and not served.connection.client.closed:
                    busy[frontend.pool].append(served.name)
        return busy

    async def _quiet(self) -> None:
        """Wait until nothing should be left but the router itself, and look whether that is so."""
        rules, shell = self.world.rules, self.world.shell
        await asyncio.sleep(
            max(2 * shell.reuse_idle_s, rules.cooldown_s_max + rules.trial_probe_timeout_s + rules.slow_s) + 2.0
        )
        assert self.app is not None
        policy, front = self.app.policy, self.app.public.front
        self._none_of("no_leases", {pool: count for pool, count in policy.in_flight().items() if count})
        self._none_of("nobody_waits", policy.waiting)
        self._none_of("no_leaders", policy._ledger.leaders)
        self._none_of("nobody_is_busy", front.busy)
        self._none_of("no_trials", [state for state in policy.roster.states.values() if state.on_trial])
        benched = [state for state in policy.roster.states.values() if not state.cooldown.takes_sends]
        self._none_of("all_return", benched)
        self._none_of("idle_connections_end", self._open(self.addresses.values()))
        self._none_of("clients_connections_end", self._open([ROUTER]))

    def _open(self, addresses: Any) -> list[Connection]:
        """Return the connections of which the router still holds its end."""
        return [
            connection
            for address in addresses
            for connection in self.network.link(address).connections.values()
            if not (connection.server if address == ROUTER else connection.client).closed
        ]

    def _end(self, router: asyncio.Task[None]) -> None:
        assert self.app is not None
        observed = self.observed
        if not router.done():
            self._wrong("the_drain_ends_in_time: the router does not end")
            router.cancel()
        elif router.exception() is not None:
            error = router.exception()
            assert error is not None
            self._wrong(f"no_complaints: the router failed: {''.join(traceback.format_exception(error))[-1500:]}")
        observed.tally = self.app.policy.tally
        observed.rows = self.sends.rows()
        for frontend in self.frontends.values():
            observed.served += frontend.served
            observed.unknown_ids += frontend.unknown
            frontend.kill()
        policy = self.app.policy
        self._none_of("no_leases", {pool: count for pool, count in policy.in_flight().items() if count})
        self._none_of("nobody_waits", policy.waiting)
        self._none_of("no_leaders", policy._ledger.leaders)

    def _left_behind(self, loop: VirtualLoop) -> None:
        """Look for what outlives the router: sockets, tasks, timers."""
        self._none_of("no_sockets", list(self.network.sockets.values()))
        self._none_of("no_tasks", [task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
        timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined] # asyncio shows them nowhere else
        self._none_of("no_timers", [timer for timer in timers if not timer.cancelled()])

    def _none_of(self, law: str, left: Any) -> None:
        if left:
            self._wrong(f"{law}: {left} left")

    def _wrong(self, what: str) -> None:
        self.observed.problems.append(what)
