"""Requests that wait until something becomes usable, or their patience ends."""

import asyncio

from router.core.forwarding import Wait
from router.core.policy import Policy


class Waiting:
    """Wakes every waiting request when the policy changes."""

    def __init__(self, policy: Policy) -> None:
        self._woken: asyncio.Future[None] | None = None
        policy.on_change = self._wake

    async def wait(self, effect: Wait) -> None:
        """Return at the effect's time, or as soon as the policy has changed."""
        loop = asyncio.get_running_loop()
        if self._woken is None:
            self._woken = loop.create_future()
        left_s = effect.until_s - loop.time()
        await asyncio.wait((self._woken,), timeout=max(left_s, 0.0))

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.set_result(None)
