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

from router import app
from router.core.topology import Catalog
from router.settings import Settings
from scenarios.world.streams import stream
from tests.virtual.clients import lane
from tests.virtual.loop import run, virtual_loop
from tests.virtual.network import Address, Network
from tests.virtual.observed import Complaints, MemorySendLog, Observed
from tests.virtual.plan import ROUTER, NextCut, Publish, Signal, Trouble, What, World
from tests.virtual.pools import Frontend
from tests.virtual.watch import Watch

END_S = 300.0
"""So long after the last event every request must have ended."""
OUTLIVES_S = 60.0
"""So long may timers outlive the router, as the one does that gives up what a client has not read."""
LOOKS_S = 0.05
"""How often it is looked at what the router counts."""
COLLECT_EVERY = 50
"""After so many worlds what the router has frozen (`gc.freeze`) is given back."""
_played = 0


def play(world: World, *, end_s: float = END_S, looks_s: float = LOOKS_S) -> Observed:
    """Run a world to its end.

    `end_s` is how long after the last event a request may still go on, `looks_s` how often the router is looked at.
    """
    observed, complaints = Observed(world), Complaints()
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
def _listening_to(complaints: Complaints) -> Iterator[None]:
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
        self.sends = MemorySendLog()
        self.app: app.App | None = None
        self.watch: Watch
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
        looking = asyncio.create_task(self.watch.look(self.looks_s))
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
            await self.watch.quiet()
            self._signal()
        await asyncio.wait([router], timeout=end_s)
        self._end(router)
        await asyncio.sleep(OUTLIVES_S)
        self.watch.left_behind(loop)

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
            self.watch = Watch(started, self.network, self.frontends, self.observed)
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

    # ---- the end

    def _end(self, router: asyncio.Task[None]) -> None:
        assert self.app is not None
        observed = self.observed
        if not router.done():
            self.watch.wrong("the_drain_ends_in_time: the router does not end")
            router.cancel()
        elif router.exception() is not None:
            error = router.exception()
            assert error is not None
            self.watch.wrong(f"no_complaints: the router failed: {''.join(traceback.format_exception(error))[-1500:]}")
        observed.tally = self.app.policy.tally
        observed.rows = self.sends.rows()
        for frontend in self.frontends.values():
            observed.served += frontend.served
            observed.unknown_ids += frontend.unknown
            frontend.kill()
        self.watch.nothing_is_held()
