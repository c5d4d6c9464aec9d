"""Cut: each connection of the target ends, with FIN, right after `after_bytes` bytes of answers have passed.

The toxic limit_data counts per connection, heads included, over all answers on it; on a connection that is open when
the fault begins it counts from then on. The caller knows at which byte the event ends that shall be the last one.
"""

import asyncio

from chaos.faults import probes
from chaos.faults.fault import Proof, Target
from chaos.toxics import Toxic

TOXIC_NAME = "pooldrill_cut"
AFTER_BYTES_MAX = 1_000_000
"""More would take the proof too long: it fetches that many bytes."""


class Cut:
    """Connections of the target end after `after_bytes` bytes of answers. Raises ValueError if that is out of range."""

    def __init__(self, after_bytes: int) -> None:
        if not 0 < after_bytes <= AFTER_BYTES_MAX:
            raise ValueError(f"cut after {after_bytes} bytes; use 1 to {AFTER_BYTES_MAX}")
        self.after_bytes = after_bytes

    async def inject(self, target: Target) -> Proof:
        """Add the toxic. Proved by a connection on which exactly `after_bytes` bytes come, then FIN."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        await target.proxy.add(Toxic("limit_data", {"bytes": self.after_bytes}, "downstream", TOXIC_NAME))
        effect_s = loop.time()
        seen = await probes.get(target.proxy.listen_port, enough=self.after_bytes, to_the_end=True)
        return Proof(seen.received == self.after_bytes and seen.end == "fin", f"GET: {seen}", begin_s, effect_s)

    async def clear(self, target: Target) -> Proof:
        """Remove the toxic. Proved by a connection on which more bytes come."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        if TOXIC_NAME in target.proxy.state.toxics:
            await target.proxy.remove(TOXIC_NAME)
        effect_s = loop.time()
        seen = await probes.get(target.proxy.listen_port, enough=self.after_bytes + 1)
        return Proof(seen.received > self.after_bytes, f"GET: {seen}", begin_s, effect_s)
