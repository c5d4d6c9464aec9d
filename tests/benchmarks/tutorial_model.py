"""The chain as a tutorial of simpy would write it: a process a call and layer, a Resource a pool, AnyOf for time-outs.

It is what the queue-level model is measured against, and lives with the benchmark. It does the same: operations in open
loop, a layer that sends again and bounds each attempt, pools with slots in turn, one row an attempt and operation.
"""

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import simpy

from router.core.config import RouterConfig
from router.core.delivery import Cause, Outcome
from router.core.effects import End, Relay, Request, Send, Waiting
from router.core.forwarding import forward
from router.core.policy import build_policy
from router.core.topology import Catalog, Pool
from simulator.clock import ModelClock

Steps = Generator[simpy.Event, Any, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt, as whoever made it saw it."""

    operation: int
    layer: str
    number: int
    pool: int
    t_start_s: float
    t_work_s: float | None
    t_end_s: float
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is asked of the model. Times are seconds."""

    rate_rps: float
    pools: int
    slots: int
    mean_s: float
    operations: int
    backlog: int = 0
    """Operations that are there at the start."""
    layers: tuple[str, ...] = ("client",)
    retries: int = 2
    timeout_s: float = 600.0


@dataclass(slots=True)
class Tutorial:
    """The model; `rows` is what it recorded."""

    shape: Shape
    env: simpy.Environment = field(default_factory=simpy.Environment)
    rows: list[Row] = field(default_factory=list)
    ends: list[tuple[int, float, float, bool]] = field(default_factory=list)

    def run(self) -> None:
        """Run to the end."""
        shape = self.shape
        draws = random.Random(1)
        pools = [simpy.Resource(self.env, capacity=shape.slots) for _ in range(shape.pools)]
        self.env.process(self._arrive(draws, cycle(enumerate(pools))))
        self.env.run()

    def _arrive(self, draws: random.Random, turns: Any) -> Steps:
        shape = self.shape
        for index in range(shape.operations):
            if index >= shape.backlog:
                yield self.env.timeout(draws.expovariate(shape.rate_rps))
            self.env.process(self._operation(index, draws, turns))

    def _operation(self, index: int, draws: random.Random, turns: Any) -> Steps:
        t_start_s = self.env.now
        ok = yield self.env.process(self._call(index, 0, draws, turns))
        self.ends.append((index, t_start_s, self.env.now, ok))

    def _call(self, index: int, place: int, draws: random.Random, turns: Any) -> Steps:
        """One call of one layer: attempts, each bounded, until one is good."""
        shape = self.shape
        name = shape.layers[place]
        for number in range(1, shape.retries + 2):
            t_start_s = self.env.now
            if place + 1 < len(shape.layers):
                attempt = self.env.process(self._call(index, place + 1, draws, turns))
            else:
                attempt = self.env.process(self._send(index, number, draws, *next(turns)))
            came = yield attempt | self.env.timeout(shape.timeout_s)
            ok = attempt in came and came[attempt]
            if attempt.is_alive:
                attempt.interrupt()
            if place + 1 < len(shape.layers):
                self.rows.append(Row(index, name, number, -1, t_start_s, None, self.env.now, ok))
            if ok:
                return True
        return False

    def _send(self, index: int, number: int, draws: random.Random, place: int, pool: simpy.Resource) -> Steps:
        t_start_s = self.env.now
        t_work_s = None
        ok = False
        try:
            with pool.request() as slot:
                yield slot
                t_work_s = self.env.now
                yield self.env.timeout(draws.expovariate(1 / self.shape.mean_s))
                ok = True
        except simpy.Interrupt:
            pass
        self.rows.append(Row(index, "send", number, place, t_start_s, t_work_s, self.env.now, ok))
        return ok


@dataclass(slots=True)
class TutorialRouter(Tutorial):
    """The same with the router's decisions in front of the pools: a process a request drives `forward()`."""

    def run(self) -> None:
        """Run to the end."""
        draws = random.Random(1)
        names = [f"p{place}" for place in range(self.shape.pools)]
        pools = {name: simpy.Resource(self.env, capacity=self.shape.slots) for name in names}
        catalog = Catalog([Pool.of_urls(name, [f"http://{name}.invalid"]) for name in names])
        config = RouterConfig(connect_timeout_s=1.0, deadline_s=self.shape.timeout_s)
        policy = build_policy(config, ModelClock(self.env), random.Random(1), catalog)
        self.env.process(self._arrive(draws, (policy, pools)))
        self.env.run()

    def _operation(self, index: int, draws: random.Random, turns: Any) -> Steps:
        policy, pools = turns
        t_start_s = self.env.now
        rule = forward(policy, Request("m", t_start_s + self.shape.timeout_s))
        answer: Outcome | End | None = None
        try:
            while True:
                effect = rule.send(answer)
                if isinstance(effect, Send):
                    answer = yield self.env.process(self._hand_over(index, effect, draws, pools))
                elif isinstance(effect, Relay):
                    answer = End.COMPLETE
                else:
                    assert isinstance(effect, Waiting)
                    answer = None
                    yield self.env.timeout(effect.until_s - self.env.now)
        except StopIteration as stop:
            self.ends.append((index, t_start_s, self.env.now, stop.value.end is End.COMPLETE))

    def _hand_over(self, index: int, send: Send, draws: random.Random, pools: dict[str, simpy.Resource]) -> Steps:
        send.lease.handed_over()
        name = send.lease.frontend.pool
        attempt = self.env.process(self._send(index, send.attempt, draws, int(name[1:]), pools[name]))
        came = yield attempt | self.env.timeout(send.until_s - self.env.now)
        if attempt.processed and came[attempt]:
            return Outcome(slot_taken=True, status=200)
        if attempt.is_alive:
            attempt.interrupt()
        return Outcome(slot_taken=True, cause=Cause.DEADLINE)
