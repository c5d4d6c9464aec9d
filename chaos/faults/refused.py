"""Refused: every connect to the target is refused at once, so no body is ever handed over.

The proxy is disabled, which also cuts what is in flight through it. Killing the upstream instead would not do:
Toxiproxy accepts before it dials, and then closes, and by then a body may have been handed over.
"""

import asyncio

from chaos.faults import probes
from chaos.faults.fault import Proof, Target

CONNECT_WAIT_S = 1.0


class Refused:
    """Connects to the target are refused."""

    async def inject(self, target: Target) -> Proof:
        """Disable the proxy. Proved by a connect that is refused."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        await target.proxy.disable()
        effect_s = loop.time()
        seen = await probes.connect(target.proxy.listen_port, wait_s=CONNECT_WAIT_S)
        return Proof(seen.kind == "refused", str(seen), begin_s, effect_s)

    async def clear(self, target: Target) -> Proof:
        """Enable the proxy. Proved by an answer through it."""
        return await enable(target)


async def enable(target: Target) -> Proof:
    """Enable a target's proxy. Proved by an answer through it: that it accepts would prove nothing."""
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await target.proxy.enable()
    effect_s = loop.time()
    seen = await probes.get(target.proxy.listen_port)
    return Proof(seen.status is not None, f"GET: {seen}", begin_s, effect_s)
