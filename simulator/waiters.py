"""Requests that wait because nothing is usable, woken in the order in which they came."""

from collections.abc import Generator
from typing import Any

import simpy

from router.core.policy import Policy
from simulator.timers import Timers


class Waiters:
    """Answers the effect Wait: every change of the policy wakes all who wait, the longest waiting first."""

    def __init__(self, env: simpy.Environment, timers: Timers, policy: Policy) -> None:
        self._env = env
        self._timers = timers
        self._waiting: dict[simpy.Event, None] = {}  # a set that keeps its order
        policy.on_change = self._wake

    def wait(self, until_s: float) -> Generator[simpy.Event, Any, None]:
        """Wait until `until_s`, or for the next change of the policy."""
        woken = self._env.event()
        self._waiting[woken] = None
        try:
            yield from self._timers.wait(woken, until_s)
        finally:
            self._waiting.pop(woken, None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for woken in waiting:
            if not woken.triggered:
                woken.succeed()

    def __len__(self) -> int:
        """Requests that wait now."""
        return len(self._waiting)
