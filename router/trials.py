"""The driver of trials: background connects and probes that bring benched frontends back, never a user's request."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import count

from aiohttp import ClientError, ClientSession, ClientTimeout
from yarl import URL

from router import headers
from router.causes import cause_of
from router.core.delivery import Cause
from router.core.effects import PROBE_OK, Connect, Probe
from router.core.loops import trials
from router.core.policy import Policy
from router.models import LIST_BYTES_MAX, Lost, entries_of, never_repeated
from router.waiting import wait


@asynccontextmanager
async def trying(policy: Policy, session: ClientSession) -> AsyncIterator[None]:
    """Try benched frontends as long as the context is open."""
    driver = Trials(policy, session)
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

    def __init__(self, policy: Policy, session: ClientSession) -> None:
        self._policy = policy
        self._session = session
        self._numbers = count(1)

    async def run(self) -> None:
        """Drive one loop until cancelled."""
        with closing(trials(self._policy)) as loop:
            effect = next(loop)
            while True:
                match effect:
                    case Connect():
                        answer: object = await _connect(effect)
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
        try:
            async with asyncio.timeout_at(effect.until_s):
                response = await self._session.get(
                    effect.frontend.url + "/v1/models",
                    headers={headers.REQUEST_ID: f"probe-trial-{next(self._numbers)}", "Accept-Encoding": "identity"},
                    allow_redirects=False,
                    middlewares=(never_repeated,),
                    timeout=ClientTimeout(total=None),
                )
                async with response:
                    body = await response.content.read(LIST_BYTES_MAX)
        except TimeoutError:
            return "timeout"
        except (ClientError, OSError, Lost) as error:
            return str(cause_of(error, connected=True, reused=False))
        if response.status >= 500:
            return f"status {response.status}"
        return "empty list" if response.status == 200 and entries_of(body) == [] else PROBE_OK


async def _connect(effect: Connect) -> Cause | None:
    """Open a connection, TLS included, and close it."""
    url = URL(effect.frontend.url)
    try:
        async with asyncio.timeout_at(effect.until_s):
            _, writer = await asyncio.open_connection(url.host, url.port, ssl=url.scheme == "https" or None)
    except socket.gaierror:
        return Cause.NAME_LOOKUP
    except OSError as error:
        return cause_of(error, connected=False, reused=False)
    writer.transport.abort()
    return None
