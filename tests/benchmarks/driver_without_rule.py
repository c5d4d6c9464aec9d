"""The router's driver without the rule: python -m tests.benchmarks.driver_without_rule POOL_PORT. Prints its port.

The same listener, intake, headers, upstream and passage of the answer; but no generator that decides, so no lease and
no log, no slot that proves what was sent, and no deadline. What the router costs beyond this is the price of the rule.
"""

import asyncio
import sys

from aiohttp import web

from router import headers, intake
from router.connection import Bounds
from router.core.chain import ChainBudget, WhenUnknown
from router.core.delivery import Delivery
from router.front import Front
from router.intake import Intake
from router.listener import Listener
from router.settings import ShellConfig
from router.streaming import Passage, PassedOn
from router.upstream import address, open_session

IDLE_S = 300.0
VIA = "1.1 bench"


class DriverWithoutRule:
    """Forwards every request to one pool."""

    def __init__(self, pool: str, shell: ShellConfig) -> None:
        self._pool = pool
        self._intake = Intake(shell)
        self._session = open_session(shell.reuse_idle_s)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        chain = ChainBudget(request.headers, retries_max=2, failover_spends=False, when_unknown=WhenUnknown.FORBID)
        hold = self._intake.buffered.open()
        try:
            body = await self._intake.read(request, hold, until_s=float("inf"))
        finally:
            hold.release()
        intake.model_of(body)
        passed = headers.for_pool(request.headers, body_bytes=len(body), via=VIA)
        target = address(self._pool, request.rel_url.raw_path_qs)
        response = await self._session.post(target, data=body, headers=passed, allow_redirects=False)
        out = PassedOn(status=response.status, reason=response.reason, headers=headers.for_client(response.headers))
        own = out.headers
        own[headers.DELIVERY] = Delivery.ANSWERED
        own[headers.POOL] = "a"
        own[headers.ATTEMPTS] = "1"
        own.update(chain.headers_out(Delivery.ANSWERED, sends=1, failed=False))
        request_id = headers.plain(request.headers, headers.REQUEST_ID)
        if request_id is not None:
            own.setdefault(headers.REQUEST_ID, request_id)
        await Passage(request, response, IDLE_S).run(out)
        response.close()
        return out


async def main(pool_port: int) -> None:
    """Serve until killed."""
    shell = ShellConfig()
    driver = DriverWithoutRule(f"http://127.0.0.1:{pool_port}", shell)
    front = Front({("POST", "/v1/chat/completions"): driver.handle}, lambda _code, _reason: None)
    bounds = Bounds(head_timeout_s=shell.head_timeout_s, connections_max=shell.connections_max)
    listener = Listener(front, bounds, host="127.0.0.1", port=0, option="")
    await listener.open()
    sys.stdout.write(listener.url.rpartition(":")[2] + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
