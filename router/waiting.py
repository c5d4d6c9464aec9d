"""Sleeping as the decisions ask for it: until a time, or until something has changed that the sleeper could use."""

import asyncio

from router.core.effects import Wait


async def wait(effect: Wait) -> None:
    """Return at the effect's time, or when it is woken."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    effect.on_wake = wake
    left_s = effect.until_s - loop.time()
    try:
        await asyncio.wait((woken,), timeout=None if left_s == float("inf") else max(left_s, 0.0))
    finally:
        effect.on_wake = None
