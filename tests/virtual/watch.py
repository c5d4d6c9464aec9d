"""Looking into a router while it runs and after it: what it counts, and what it has not given back."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from router.app import App
from router.buffered import BufferedBytes
from router.chat import Chat
from tests.virtual.loop import VirtualLoop
from tests.virtual.network import Connection, Network
from tests.virtual.observed import Observed
from tests.virtual.plan import ROUTER
from tests.virtual.pools import Frontend


class Watch:
    """Watches one router; each breach of a law goes to what was observed."""

    def __init__(self, app: App, network: Network, frontends: Mapping[str, Frontend], observed: Observed) -> None:
        self._app = app
        self._policy = app.policy
        self._buffered = _buffered(app)
        self._network = network
        self._frontends = frontends
        self._observed = observed
        self._world = observed.world

    async def look(self, every_s: float) -> None:
        """Compare again and again what the router counts as under way with what the pools are busy with."""
        while True:
            await asyncio.sleep(every_s)
            suspects = self._miscounted()
            if suspects:  # a send that has just ended: its socket is closed one round later
                await asyncio.sleep(0.001 + 3 * self._world.tick_s)
                for suspect in suspects & self._miscounted():
                    self.wrong(suspect)

    def _miscounted(self) -> set[str]:
        counted, wrong = self._policy.in_flight(), set()
        for pool, busy in self._busy().items():
            if counted.get(pool, 0) < len(busy):
                wrong.add(f"counts_are_true: pool {pool} is busy with {busy}, {counted.get(pool, 0)} are counted")
            if len(busy) > self._world.rules.in_flight_max:
                wrong.add(f"in_flight_is_bounded: pool {pool} is busy with {busy}")
        return wrong

    def _busy(self) -> dict[str, list[str]]:
        """Return the names of the requests that each pool has and the router still waits for."""
        busy: dict[str, list[str]] = defaultdict(list)
        for frontend in self._frontends.values():
            for connection in frontend.connections:
                served = connection.served
                if served is not None and served.body is not None and not served.connection.client.closed:
                    busy[frontend.pool].append(served.name)
        return busy

    async def quiet(self) -> None:
        """Wait until nothing should be left but the router itself, and look whether that is so."""
        rules, shell = self._world.rules, self._world.shell
        await asyncio.sleep(
            max(shell.reuse_idle_s, rules.cooldown_s_max + rules.trial_probe_timeout_s + rules.slow_s) + 2.0
        )
        policy = self._policy
        self.nothing_is_held()
        self.none_of("nobody_is_busy", self._app.public.front.busy)
        self.none_of("no_trials", [state for state in policy.roster.states.values() if state.on_trial])
        benched = [state for state in policy.roster.states.values() if not state.cooldown.takes_sends]
        self.none_of("all_return", benched)
        self.none_of("idle_connections_end", self._open([frontend.address for frontend in self._frontends.values()]))
        self.none_of("clients_connections_end", self._open([ROUTER]))

    def nothing_is_held(self) -> None:
        """Look whether everything that a request may hold has been given back."""
        policy = self._policy
        self.none_of("no_leases", {pool: count for pool, count in policy.in_flight().items() if count})
        self.none_of("nobody_waits", policy.waiting)
        self.none_of("no_leaders", policy._ledger.leaders)
        self.none_of("no_bytes", self._buffered.held)

    def _open(self, addresses: Any) -> list[Connection]:
        """Return the connections of which the router still holds its end."""
        return [
            connection
            for address in addresses
            for connection in self._network.link(address).connections.values()
            if not (connection.server if address == ROUTER else connection.client).closed
        ]

    def left_behind(self, loop: VirtualLoop) -> None:
        """Look for what outlives the router: sockets, tasks, timers."""
        self.none_of("no_sockets", list(self._network.sockets.values()))
        self.none_of("no_tasks", [task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
        timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined] # asyncio shows them nowhere else
        self.none_of("no_timers", [timer for timer in timers if not timer.cancelled()])

    def none_of(self, law: str, left: Any) -> None:
        if left:
            self.wrong(f"{law}: {left} left")

    def wrong(self, what: str) -> None:
        self._observed.problems.append(what)


def _buffered(app: App) -> BufferedBytes:
    """Return the router's own count of the bytes that it holds of bodies."""
    handlers = (getattr(handler, "__self__", None) for handler in app.public.front._routes.values())
    return next(handler._intake.buffered for handler in handlers if isinstance(handler, Chat))
