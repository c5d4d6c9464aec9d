"""What a router does in the background, in the queue-level model: loops of router/core as ordinary simpy processes.

They are rare beside requests, so they need no speed. The model answers their effects: a Connect by what stands in the
frontend's door, a Probe by that and, where the pool says so, by a place in its queue like a request's.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any

import simpy

from router.core.delivery import Cause
from router.core.effects import PROBE_OK, Connect, Failed, Fetch, Probe, Wait
from router.core.loops import trials
from router.core.policy import Policy
from simulator.chain.clockwork import Clockwork
from simulator.chain.pools import Frontend
from simulator.timers import LATE, Timers
from simulator.waiters import Waiters


class Background:
    """Performs the effects of loops; `frontends` by name, `fetch` tells what a source says (None: it is silent)."""

    def __init__(
        self, clockwork: Clockwork, frontends: Mapping[str, Frontend], fetch: Callable[[Fetch], object]
    ) -> None:
        self._clockwork = clockwork
        self._frontends = frontends
        self._fetch = fetch
        self._timers = Timers(clockwork)
        self._waiters = Waiters(clockwork, self._timers)

    def try_benched(self, policy: Policy) -> None:
        """Begin as many loops of trials as a policy allows; nothing is due once all are back."""
        for _ in range(policy.config.trials_max):
            self.begin(trials(policy))

    def begin(self, loop: Generator[Any, Any, Any]) -> None:
        """Begin one loop."""
        self._clockwork.process(self._run(loop))

    def _run(self, loop: Generator[Any, Any, Any]) -> Generator[simpy.Event, Any, None]:
        """Drive one loop to its end, if it has one."""
        effect = next(loop)
        while True:
            match effect:
                case Connect():
                    answer: object = yield from self._connect(effect)
                case Probe():
                    answer = yield from self._probe(effect)
                case Fetch():
                    answer = yield from self._ask(effect)
                case Wait():
                    answer = None
                    yield from self._waiters.wait(effect)
                case _:
                    raise TypeError(f"the model has no answer to {effect!r}")
            try:
                effect = loop.send(answer)
            except StopIteration:
                return

    def _ask(self, effect: Fetch) -> Generator[simpy.Event, Any, object]:
        yield self._clockwork.timeout(0)
        answer = self._fetch(effect)
        if answer is None:
            yield from self._timers.sleep(effect.until_s)
            return Failed("no answer in time")
        return answer

    def _connect(self, effect: Connect) -> Generator[simpy.Event, Any, Cause | None]:
        frontend = self._frontends[effect.frontend.name]
        yield self._clockwork.timeout(0)  # a step of its own: whoever asked has to finish first
        if frontend.refuses:
            return Cause.REFUSED
        if frontend.hangs:
            yield from self._timers.sleep(effect.until_s)
            return Cause.CONNECT_TIMEOUT
        return None

    def _probe(self, effect: Probe) -> Generator[simpy.Event, Any, str]:
        frontend = self._frontends[effect.frontend.name]
        yield self._clockwork.timeout(0)
        if frontend.refuses:
            return str(Cause.REFUSED)
        if frontend.hangs:
            yield from self._timers.sleep(effect.until_s)
            return "timeout"
        if not frontend.probes_queue:
            return PROBE_OK
        done = self._clockwork.event()
        probe = frontend.probe(done.succeed)
        if probe is None:
            return "status"
        if (yield from self._timers.wait(done, effect.until_s)) is LATE:
            frontend.leave_probe(probe)
            return "timeout"
        return PROBE_OK
