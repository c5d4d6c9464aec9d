"""What the world of the queue-level model says to a router's loops: frontends, the list of pools, the pools' clocks.

A frontend's list of models costs it nothing, so it is there at once unless the pool says that probes wait in the queue.
A probe that asks for a token too waits there like a request, and meets what requests meet.
"""

from collections.abc import Generator, Mapping
from math import floor
from typing import Any, Final

import simpy

from router.core.delivery import Cause
from router.core.discovery import SOURCE
from router.core.drift import Reading
from router.core.effects import Connect, Failed, Fetch, Probe
from router.core.health import ProbeAnswer, ProbeOutcome
from scenarios.world import blocks
from simulator.chain.clockwork import Clockwork
from simulator.chain.pool_list import PoolList
from simulator.chain.pools import Frontend
from simulator.timers import LATE, Timers

DATE_RESOLUTION_S: Final = 1.0
"""An HTTP Date header is cut to whole seconds (RFC 9110, 5.6.7)."""

Steps = Generator[simpy.Event, Any, Any]


class Replies:
    """Answers effects; `frontends` by name, `seed` that of the run."""

    def __init__(
        self, clockwork: Clockwork, timers: Timers, frontends: Mapping[str, Frontend], pool_list: PoolList, seed: int
    ) -> None:
        self._clockwork = clockwork
        self._timers = timers
        self._frontends = frontends
        self._pool_list = pool_list
        self._draws = {name: blocks.uniform(blocks.generator(seed, f"probes/{name}")) for name in frontends}

    def connect(self, effect: Connect) -> Steps:
        """Return None, or the Cause that prevented the connect."""
        frontend = self._frontends[effect.frontend.name]
        yield self._clockwork.timeout(0)  # a step of its own: whoever asked has to finish first
        if frontend.refuses:
            return Cause.REFUSED
        if frontend.hangs:
            yield from self._timers.sleep(effect.until_s)
            return Cause.CONNECT_TIMEOUT
        return None

    def probe(self, effect: Probe) -> Steps:
        """Return a ProbeAnswer."""
        frontend = self._frontends[effect.frontend.name]
        yield self._clockwork.timeout(0)
        if frontend.refuses:
            return ProbeOutcome.REFUSED
        if frontend.hangs:
            yield from self._timers.sleep(effect.until_s)
            return ProbeOutcome.TIMEOUT
        answer: ProbeAnswer = ProbeOutcome.OK
        if frontend.probes_queue or effect.generate:
            answer = yield from self._in_turn(frontend, effect.until_s)
        if answer == ProbeOutcome.OK and frontend.not_ready is not None:
            frontend.misled += 1
            answer = frontend.not_ready
        if answer == ProbeOutcome.OK and effect.generate:
            answer = self._generated(frontend)
        return answer

    def _in_turn(self, frontend: Frontend, until_s: float) -> Steps:
        """Wait for a slot like a request."""
        done = self._clockwork.event()

        def told_of(outcome: ProbeOutcome) -> None:
            if not done.triggered:  # its bound may be over in this very moment
                done.succeed(outcome)

        probe = frontend.probe(told_of)
        if probe is None:
            return frontend.reject_status
        told = yield from self._timers.wait(done, until_s)
        if told is LATE:
            frontend.leave_probe(probe)
            return ProbeOutcome.TIMEOUT
        return told

    def _generated(self, frontend: Frontend) -> ProbeOutcome:
        """Ask for one token, as a request would."""
        if frontend.drops:
            return ProbeOutcome.RESET
        failed = next(self._draws[frontend.name]) < frontend.fail_share
        return ProbeOutcome.GENERATE_FAILED if failed else ProbeOutcome.OK

    def fetch(self, effect: Fetch) -> Steps:
        """Return the list of pools, or the time by a pool's clock."""
        yield self._clockwork.timeout(0)
        if effect.source != SOURCE:
            return (yield from self._time(f"{effect.source}-0", effect.until_s))
        answer = self._pool_list.at(self._clockwork.now)
        if answer is None:
            yield from self._timers.sleep(effect.until_s)
            return Failed("timeout")
        return answer

    def _time(self, name: str, until_s: float) -> Steps:
        """Ask a pool's first frontend for the time: the Date header of an answer."""
        frontend = self._frontends[name]
        if frontend.refuses:
            return Failed("refused")
        if frontend.hangs:
            yield from self._timers.sleep(until_s)
            return Failed("timeout")
        frontend.misled += frontend.clock_offset_s != 0.0
        wall_s = self._clockwork.wall()
        told_s = floor((wall_s + frontend.clock_offset_s) / DATE_RESOLUTION_S) * DATE_RESOLUTION_S
        return Reading(source_s=told_s, asked_s=wall_s, answered_s=wall_s, resolution_s=DATE_RESOLUTION_S)
