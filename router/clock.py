"""The clock of a running router: the event loop's time for durations, the machine's for stamps."""

import asyncio
import time
from datetime import UTC, datetime


class LoopClock:
    """Clock of one event loop. On Linux its monotonic seconds are the same in all processes of the machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # asyncio's own loops pass the machine's clock on, at five times its price; uvloop counts the same time in whole
        # milliseconds, and only once a turn of the loop (uvloop 0.23). Any other loop has a time of its own.
        kind = type(loop)
        machines = kind.time is asyncio.BaseEventLoop.time or kind.__module__.startswith("uvloop")
        self.monotonic = time.monotonic if machines else loop.time

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return _wall()


class MachineClock:
    """Clock of a process without an event loop."""

    def __init__(self) -> None:
        self.monotonic = time.monotonic

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return _wall()


def _wall() -> float:
    return time.time()  # noqa: TID251  (this is the edge that owns it)


def zoned(wall_s: float) -> str:
    """Return a stamp with its zone, in ISO 8601."""
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds")
