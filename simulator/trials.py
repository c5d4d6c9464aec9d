"""The driver of trials in the model: background connects and probes through the same doors as sends."""

from collections.abc import Generator
from typing import Any

import simpy

from router.core.delivery import Cause
from router.core.effects import PROBE_OK, Connect, Probe
from router.core.loops import trials
from router.core.policy import Policy
from simulator.connection import HOP_S, Connection
from simulator.network import Door
from simulator.timers import Timers
from simulator.waiters import Waiters

_NO_EVENTS = 1
"""Size by which a limit in events would be counted: what a trial receives is shorter than any."""


class Trials:
    """Performs the effects of the loop of trials; `doors` are the frontends', by name."""

    def __init__(self, env: simpy.Environment, timers: Timers, policy: Policy, doors: dict[str, Door]) -> None:
        self._env = env
        self._policy = policy
        self._doors = doors
        self._waiters = Waiters(env, timers)

    def start(self) -> None:
        """Begin as many loops as the policy allows. They end with the model: nothing is due once all are back."""
        for _ in range(self._policy.config.trials_max):
            self._env.process(self._run())

    def _run(self) -> Generator[simpy.Event, Any, None]:
        loop = trials(self._policy)
        effect = next(loop)
        while True:
            match effect:
                case Connect():
                    answer: object = yield from self._connect(effect)
                case Probe():
                    answer = yield from self._probe(effect)
                case _:
                    answer = None
                    yield from self._waiters.wait(effect)
            effect = loop.send(answer)

    def _connect(self, effect: Connect) -> Generator[simpy.Event, Any, Cause | None]:
        opened = yield from self._doors[effect.frontend.name].connect(effect.until_s, event_bytes=_NO_EVENTS)
        if isinstance(opened, Cause):
            return opened
        opened.leave()
        return None

    def _probe(self, effect: Probe) -> Generator[simpy.Event, Any, str]:
        """Ask a frontend for its models. A modelled frontend always tells them, whatever it does to completions."""
        opened = yield from self._doors[effect.frontend.name].connect(effect.until_s, event_bytes=_NO_EVENTS)
        if not isinstance(opened, Connection):
            return str(opened)
        yield self._env.timeout(2 * HOP_S)
        opened.leave()
        return PROBE_OK
