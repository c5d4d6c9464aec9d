"""What a router does in the background, in the queue-level model: loops of router/core as ordinary simpy processes.

They are rare beside requests, so they need no speed. What the world answers is in replies.py.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any

import simpy

from router.core.effects import Connect, Fetch, Probe, Wait
from scenarios.record import Row
from scenarios.spec import Scenario
from simulator.chain.clockwork import Clockwork
from simulator.chain.instance import Instance, Loop
from simulator.chain.pool_list import PoolList
from simulator.chain.pools import Frontend
from simulator.chain.replies import Replies
from simulator.chain.watch import Watch
from simulator.timers import Timers
from simulator.waiters import Waiters


def _nothing() -> None:
    """Stand in where nobody wants to be told."""


class Background:
    """Performs the effects of the loops of all instances, and has what they come to know written down."""

    def __init__(
        self,
        clockwork: Clockwork,
        scenario: Scenario,
        frontends: Mapping[str, Frontend],
        seed: int,
        *,
        faults_on: bool,
    ) -> None:
        self.watches: list[Watch] = []
        self._clockwork = clockwork
        timers = Timers(clockwork)
        self._waiters = Waiters(clockwork, timers)
        discovery = scenario.router.discovery
        troubles = discovery.troubles if discovery is not None and faults_on else ()
        self._replies = Replies(clockwork, timers, frontends, PoolList(scenario.pools, troubles), seed)
        self._order = scenario.router.switch
        self._switching = 0

    @property
    def is_switching(self) -> bool:
        """Tell whether a switch is under way."""
        return self._switching > 0

    def begin(self, instances: Sequence[Instance]) -> None:
        """Begin the loops of all instances."""
        for instance in instances:
            watch = Watch(self._clockwork, instance, several=len(instances) > 1)
            self.watches.append(watch)
            for loop in instance.loops():
                self._clockwork.process(self._run(loop, watch.look))
            if self._order is not None:
                self._clockwork.at(self._order.at_s, partial(self._switch, instance, self._order.to))

    def rows(self) -> list[Row]:
        """Return what all instances have come to know: kind by kind, each in the order in which it happened."""
        alarms = sorted((row for watch in self.watches for row in watch.raised), key=lambda row: row.since)
        states = sorted((row for watch in self.watches for row in watch.states), key=lambda row: row.t)
        samples = sorted((row for watch in self.watches for row in watch.samples), key=lambda row: row.t)
        return [*alarms, *states, *samples]

    def _switch(self, instance: Instance, to: str, _: object) -> None:
        loop = instance.order(to)
        if loop is not None:
            self._switching += 1
            self._clockwork.process(self._run(loop, _nothing, self._switched))

    def _switched(self) -> None:
        self._switching -= 1

    def _run(
        self, loop: Loop, before_wait: Callable[[], None], at_end: Callable[[], None] = _nothing
    ) -> Generator[simpy.Event, Any, None]:
        """Drive one loop to its end, which most have not; `before_wait` is told whenever it has nothing to do."""
        replies = self._replies
        answer: object = None
        while True:
            try:
                effect = loop.send(answer)
            except StopIteration:
                break
            match effect:
                case Connect():
                    answer = yield from replies.connect(effect)
                case Probe():
                    answer = yield from replies.probe(effect)
                case Fetch():
                    answer = yield from replies.fetch(effect)
                case Wait():
                    before_wait()
                    answer = None
                    yield from self._waiters.wait(effect)
                case _:
                    raise TypeError(f"the model has no answer to {effect!r}")
        at_end()
