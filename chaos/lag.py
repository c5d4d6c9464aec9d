"""How late an event loop is: what a busy machine adds to every time that the run measures."""

import asyncio
from collections.abc import Callable

from scenarios.record import Sample

TICK_S = 0.02
"""How often the loop's lateness is looked at."""
WINDOW_S = 0.5
"""One sample is the worst lateness within such a window."""


async def watch(source: str, keep: Callable[[Sample], None]) -> None:
    """Sample the lateness of the running loop until cancelled: one row per window, times absolute on the loop's clock.

    The last window is kept too when the watch is cancelled.
    """
    loop = asyncio.get_running_loop()
    worst_s, window_end_s = 0.0, loop.time() + WINDOW_S
    try:
        while True:
            due_s = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            now_s = loop.time()
            worst_s = max(worst_s, now_s - due_s)
            if now_s >= window_end_s:
                keep(Sample(kind="loop_lag_s", source=source, value=worst_s, t=now_s))
                worst_s, window_end_s = 0.0, now_s + WINDOW_S
    finally:
        keep(Sample(kind="loop_lag_s", source=source, value=worst_s, t=loop.time()))
