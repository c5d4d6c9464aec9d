"""The driver of trials: background connects and probes that bring benched frontends back, never a user's request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import count

from multidict import CIMultiDict

from router import headers
from router.core.effects import PROBE_OK, Connect, Probe
from router.core.loops import trials
from router.core.policy import Policy
from router.models import LIST_BYTES_MAX, entries_of
from router.upstream import Upstream, UpstreamError
from router.upstream.causes import cause_of
from router.upstream.faults import Late
from router.waiting import wait


@asynccontextmanager
async def trying(policy: Policy, upstream: Upstream) -> AsyncIterator[None]:
    """Try benched frontends as long as the context is open."""
    driver = Trials(policy, upstream)
    tasks = [asyncio.create_task(driver.run()) for _ in range(policy.config.trials_max)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [end for end in ends if not isinstance(end, asyncio.CancelledError)]
        assert not broken, f"a loop of trials has ended by itself: {broken}"


class Trials:
    """Performs the effects of the loop of trials."""

    def __init__(self, policy: Policy, upstream: Upstream) -> None:
        self._policy = policy
        self._upstream = upstream
        self._numbers = count(1)

    async def run(self) -> None:
        """Drive one loop until cancelled."""
        with closing(trials(self._policy)) as loop:
            effect = next(loop)
            while True:
                match effect:
                    case Connect():
                        answer: object = await self._upstream.knock(effect.frontend, effect.until_s)
                    case Probe():
                        answer = await self._probe(effect)
                    case _:
                        answer = None
                        await wait(effect)
                effect = loop.send(answer)

    async def _probe(self, effect: Probe) -> str:
        """Ask a frontend for its models: what it cannot tell, it need not be benched for, but an error or none is bad.

        A pool that is still loading answers 5xx, or 200 with an empty list.
        """
        name = f"probe-trial-{next(self._numbers)}"
        try:
            told = await self._upstream.fetch(
                effect.frontend,
                "/v1/models",
                CIMultiDict({headers.REQUEST_ID: name, "Accept-Encoding": "identity"}),
                until_s=effect.until_s,
                bytes_max=LIST_BYTES_MAX,
            )
        except (TimeoutError, Late):
            return "timeout"
        except (OSError, UpstreamError) as error:
            return str(cause_of(error, connected=True, reused=False))
        if told.status >= 500:
            return f"status {told.status}"
        return "empty list" if told.status == 200 and entries_of(told.body) == [] else PROBE_OK
