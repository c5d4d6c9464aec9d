"""The cast of the queue-level model, put together on one clock: users, layers, pools, faults."""

import itertools
from collections.abc import Mapping
from math import nan
from typing import Final, NamedTuple

from router.core.tally import Tally
from scenarios.layers import Layer
from scenarios.spec import Pool, Scenario
from scenarios.statistics import replication_seed
from scenarios.world import blocks
from simulator.chain import faults
from simulator.chain.background import Background
from simulator.chain.calls import Attempt, Call
from simulator.chain.clockwork import Clockwork, Timers
from simulator.chain.columns import Sends
from simulator.chain.faults import ModelledFault
from simulator.chain.gate import Gate, PoolFrontends
from simulator.chain.gateway import Gateway, Waiter
from simulator.chain.layer import GenericLayer
from simulator.chain.pools import Frontend
from simulator.chain.results import OPEN_END
from simulator.chain.users import Users, arrivals_of
from simulator.chain.work import Units, draw_of

BARE: Final = Layer(name="client")
"""What stands in for the layers of a scenario that has none: every operation is one send."""


def call_of(item: object) -> Call | None:
    """Return the call that a timer's item is about."""
    if isinstance(item, Call):
        return item
    if isinstance(item, Attempt):
        return item.parent
    return item.call if isinstance(item, Waiter) else None


def _depth(call: Call) -> int:
    depth = 0
    while call.parent is not None:
        depth, call = depth + 1, call.parent
    return depth


def seed_of(scenario: Scenario, replication: int) -> int:
    """Return the seed of one replication: the scenario's own for the first, others drawn from it by their number."""
    return replication_seed(scenario.seed, replication)


LOOKS: Final = 32
"""Moments of a run at which the servers' own counts are noted down, to be held against the rows."""


LOOPS_STEP_S: Final = 1.0
"""A run of a router whose loops go on for ever is over at the first such step at which all else has ended."""


class Look(NamedTuple):
    """What one frontend's server counted at one moment."""

    t_s: float
    place: int
    waiting: int
    running: int
    slots: int


class Model:
    """Everything that takes part in one replication of a scenario, before its first moment."""

    def __init__(self, scenario: Scenario, replication: int = 0, *, faults_on: bool = True) -> None:
        seed = seed_of(scenario, replication)
        self.scenario = scenario
        self.background: Background | None = None
        """What a router does beside its requests; None: there is none."""
        self._faults_on = faults_on
        self.clockwork = Clockwork()
        self.timers = Timers(self.clockwork)
        self.sends = Sends()
        units = Units([pool.service for pool in scenario.pools], seed, loads=len(scenario.load))
        self.pools: Mapping[str, PoolFrontends] = {}
        self.frontends: list[Frontend] = []
        self.pools = {pool.id: self._pool(pool, units, seed) for pool in scenario.pools}
        by_id = {pool.id: pool for pool in scenario.pools}
        self.faults = [
            ModelledFault(self.clockwork, fault, by_id[fault.pool], self.pools[fault.pool].frontends)
            for fault in (scenario.faults if faults_on else ())
        ]
        faults.schedule(self.clockwork, self.faults)
        self.layers = [self._layer(layer, place, seed) for place, layer in enumerate(scenario.layers or (BARE,))]
        self.arriving = arrivals_of(scenario, seed)
        self.users = Users(self.clockwork, self.layers[0], scenario, self.arriving, units)
        self._join(seed)
        self.looks: list[Look] = []
        last_s = self.arriving.t_s[-1] if self.arriving.t_s else 0.0
        for turn in range(LOOKS):
            # Off the halves and tenths at which even arrivals and answers fall together.
            self.clockwork.at(last_s * (turn + 0.618) / LOOKS, self._look)

    def _pool(self, pool: Pool, units: Units, seed: int) -> PoolFrontends:
        made = []
        for number in range(pool.frontends):
            name = f"{pool.id}-{number}"
            fails = blocks.uniform(blocks.generator(seed, f"fails/{name}"))
            index = len(self.frontends)
            frontend = Frontend(self.clockwork, self.timers, self.sends, pool, index=index, name=name, fails=fails)
            self.frontends.append(frontend)
            made.append(frontend)
        return PoolFrontends(pool.id, pool.model, made, draw_of(pool, units, seed))

    def _layer(self, spec: Layer, place: int, seed: int) -> GenericLayer | Gateway:
        scenario = self.scenario
        if spec.kind == "pooldrill":
            return Gateway(self.clockwork, self.timers, spec, place, scenario=scenario, pools=self.pools, seed=seed)
        return GenericLayer(
            self.clockwork,
            self.timers,
            spec,
            place,
            seed=seed,
            chain_cap=scenario.chain_cap,
            rejects_at_once=scenario.semantics.cheap_rejects == "at_once",
        )

    def _join(self, seed: int) -> None:
        """Tell every layer who is above and who below."""
        self.layers[0].above = self.users
        for upper, lower in itertools.pairwise(self.layers):
            assert isinstance(upper, GenericLayer), "only the innermost layer is a router"
            upper.below, lower.above = lower, upper
            lower.hear(upper.tells)
        innermost = self.layers[-1]
        if isinstance(innermost, Gateway):
            by_name = {frontend.name: frontend for frontend in self.frontends}
            self.background = Background(self.clockwork, self.scenario, by_name, seed, faults_on=self._faults_on)
            self.background.begin(innermost.instances)
        else:
            innermost.below = Gate(self.clockwork.news, innermost, innermost.spec, self.pools, seed)
        if self.scenario.semantics.late_answers == "count":
            for frontend in self.frontends:
                frontend.late = self.users.late

    def _look(self, _: object) -> None:
        now_s = self.clockwork.now
        for place, frontend in enumerate(self.frontends):
            if not frontend.probed:  # probes have no rows
                server = frontend.server
                self.looks.append(Look(now_s, place, server.waiting, server.running, server.slots))

    def ids(self) -> list[str]:
        """Return the ids of the operations, in order of arrival."""
        return [f"op-{load}-{turn}" for load, turn in zip(self.arriving.load, self.arriving.turn, strict=True)]

    def tallies(self) -> list[Tally]:
        """Return what the instances of the router have counted; empty: no layer is one."""
        innermost = self.layers[-1]
        return [policy.tally for policy in innermost.policies] if isinstance(innermost, Gateway) else []

    def _under_way(self) -> bool:
        """Tell whether anything goes on that has an end; loops have none."""
        return (
            self.users.live > 0
            or any(frontend.server.waiting or frontend.server.running for frontend in self.frontends)
            or any(fault.t_clear_s is None for fault in self.faults)
            or (self.background is not None and self.background.is_switching)
        )

    def run(self) -> None:
        """Run until all has ended, or to the scenario's horizon."""
        scenario, clockwork = self.scenario, self.clockwork
        if scenario.router.loops and scenario.horizon_s is None:
            clockwork.run_out(scenario.duration_s)
            while self._under_way():
                clockwork.run_out(clockwork.now + LOOPS_STEP_S)
        else:
            clockwork.run_out(scenario.horizon_s)
        self._write_open_calls()
        for frontend in self.frontends:
            frontend.write_open()

    def _write_open_calls(self) -> None:
        """Write down the attempts of outer layers that are under way: found from what waits at pools and in timers."""
        found = [attempt.parent for frontend in self.frontends for attempt in frontend.open_attempts()]
        found += [call for item in self.timers.items() if (call := call_of(item)) is not None]
        open_calls: dict[Call, None] = {}
        for call in found:
            while call.parent is not None and call.live:
                open_calls[call] = None
                call = call.parent  # noqa: PLW2901 - upwards
        for call in sorted(open_calls, key=lambda call: (call.t_start_s, call.operation.index, call.turn)):
            self.layers[_depth(call)].calls.add(call, nan, OPEN_END, 0)
