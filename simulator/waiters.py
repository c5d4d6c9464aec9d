"""Whoever sleeps as the decisions ask for it: until a time, or until it is woken."""

from collections.abc import Generator
from typing import Any

import simpy

from router.core.effects import Wait
from simulator.timers import Timers


class Waiters:
    """Answers the effect Wait and counts who sleeps."""

    def __init__(self, env: simpy.Environment, timers: Timers) -> None:
        self._env = env
        self._timers = timers
        self._asleep = 0

    def wait(self, effect: Wait) -> Generator[simpy.Event, Any, None]:
        """Wait until the effect's time, which may be infinite, or until it is woken."""
        woken = self._env.event()

        def wake() -> None:
            if not woken.triggered:
                woken.succeed()

        effect.on_wake = wake
        self._asleep += 1
        try:
            if effect.until_s == float("inf"):
                yield woken
            else:
                yield from self._timers.wait(woken, effect.until_s)
        finally:
            effect.on_wake = None
            self._asleep -= 1

    def __len__(self) -> int:
        """Whoever sleeps now."""
        return self._asleep
