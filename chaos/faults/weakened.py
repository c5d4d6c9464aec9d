"""Faults of the pool itself: slots lost, slow work, requests that fail. Every frontend keeps answering what it can.

The fake frontend does it, told by its control, in a condition that the model's frontends are in too.
"""

import asyncio

from chaos.faults import probes
from chaos.faults.fault import Proof, Target
from scenarios.world.condition import Condition


class Weakened:
    """The target can do less than it should: `on` while the fault lasts, `off` before and after."""

    def __init__(self, *, on: Condition, off: Condition) -> None:
        self._on = on
        self._off = off

    async def inject(self, target: Target) -> Proof:
        """Change the condition. Proved by the frontend, which says that it is in it, and still answers."""
        return await _changed(target, self._on)

    async def clear(self, target: Target) -> Proof:
        """Change it back, proved in the same way."""
        return await _changed(target, self._off)


async def _changed(target: Target, condition: Condition) -> Proof:
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await target.control.set_condition(condition)  # raises unless the frontend is in it
    effect_s = loop.time()
    seen = await probes.get(target.proxy.listen_port)
    return Proof(seen.status == 200, f"{condition}; GET: {seen}", begin_s, effect_s)
