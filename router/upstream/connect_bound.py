"""The bound of a connect: a time, but never at the cost of what came while the event loop itself stood still.

A garbage collection over many streams can take longer than a connect may. When it is over, a plain time-out fires in
the very pass in which the loop sees that the connections stand, and all of them would be given up.
"""

import asyncio
from types import TracebackType

LOOKS_MAX = 10
"""So often the loop looks at its sockets once more before a connect is given up; it takes no time of its own. From the
kernel's word to its owner a connection needs four looks, one by a name some more."""


class ConnectBound:
    """Ends the block with TimeoutError at `until_s` on the loop's clock, after looking once more."""

    def __init__(self, until_s: float) -> None:
        self._until_s = until_s
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)
        self._next: asyncio.Handle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._next = self._loop.call_at(self._until_s, self._look, LOOKS_MAX)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._next is not None:
            self._next.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _look(self, more: int) -> None:
        if more:
            self._next = self._loop.call_soon(self._look, more - 1)
        else:
            self._timeout.reschedule(self._until_s)
