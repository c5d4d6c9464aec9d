"""The clock of a running router: the event loop's time for durations, the machine's for stamps."""

import asyncio
import time
from datetime import UTC, datetime


class LoopClock:
    """Clock of one event loop. On Linux its monotonic seconds are the same in all processes of the machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.monotonic = loop.time

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()  # noqa: TID251  (this is the edge that owns it)


def zoned(wall_s: float) -> str:
    """Return a stamp with its zone, in ISO 8601."""
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds")
