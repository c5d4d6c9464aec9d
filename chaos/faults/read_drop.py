"""Read and drop: the target reads the whole body, then closes without an answer, so nobody can tell whether it ran.

The fake frontend does it, told by its control. No toxic can: Toxiproxy knows nothing of a request's end.
"""

import asyncio

from chaos.faults import probes
from chaos.faults.fault import FrontendMode, Proof, Target


class ReadDrop:
    """The target reads each body and closes."""

    async def inject(self, target: Target) -> Proof:
        """Switch the frontend. Proved by a request that is closed without an answer, and not before its last byte."""
        begin_s, effect_s, seen = await _switched(target, "read_drop")
        dropped = seen.received == 0 and seen.end in {"fin", "reset"} and not seen.early
        return Proof(dropped, f"POST: {seen}", begin_s, effect_s)

    async def clear(self, target: Target) -> Proof:
        """Switch the frontend back. Proved by a request that is answered."""
        begin_s, effect_s, seen = await _switched(target, "ok")
        return Proof(seen.status is not None, f"POST: {seen}", begin_s, effect_s)


async def _switched(target: Target, mode: FrontendMode) -> tuple[float, float, probes.Seen]:
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await target.control.set_mode(mode)
    effect_s = loop.time()
    return begin_s, effect_s, await probes.post(target.proxy.listen_port, target.issue_probe())
