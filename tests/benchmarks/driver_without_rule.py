"""The router's driver without the rule: python -m tests.benchmarks.driver_without_rule POOL_PORT. Prints its port.

The same listener, intake, headers, upstream and passage of the answer; but no generator that decides, so no lease and
no log, no slot that proves what was sent, and no deadline. What the router costs beyond this is the price of the rule.
"""

import asyncio
import sys

from aiohttp import web

from router import headers, intake
from router.clock import LoopClock
from router.connection import Bounds as ClientBounds
from router.core.chain import ChainBudget, WhenUnknown
from router.core.config import RouterConfig
from router.core.delivery import Delivery
from router.core.topology import Frontend
from router.dialing import Dialer
from router.front import Front
from router.intake import Intake
from router.listener import Listener
from router.settings import ShellConfig
from router.streaming import Passage
from router.tls import TlsTable
from router.upstream import Upstream
from router.upstream.bounds import NEVER, Bounds, Limits
from router.upstream.origin import origin_of, request_head

VIA = "1.1 bench"


class DriverWithoutRule:
    """Forwards every request to one pool. Made inside a running event loop."""

    def __init__(self, pool: str, shell: ShellConfig) -> None:
        self._frontend = Frontend("a", "a-0", pool)
        self._origin = origin_of(pool)
        self._intake = Intake(shell)
        self._clock = LoopClock(asyncio.get_running_loop())
        self._rules = RouterConfig()
        self._limits = Limits(self._rules)
        dialer = Dialer(TlsTable({}))
        self._upstream = Upstream(self._clock, self._rules, reuse_idle_s=shell.reuse_idle_s, dialer=dialer)

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
        head = request_head("POST", self._origin, request.rel_url.raw_path_qs, passed.items())
        connection = await self._upstream.connection_to(self._frontend, NEVER)
        try:
            connection.hand_over(head, body, Bounds(self._limits, self._clock.monotonic(), until_s=NEVER))
            answer = await connection.answered()
            assert answer is not None, connection.failure
            passage = Passage(request, connection, answer, self._rules.idle_timeout_s)
            own = {headers.DELIVERY: str(Delivery.ANSWERED), headers.POOL: "a", headers.ATTEMPTS: "1"}
            own.update(chain.headers_out(Delivery.ANSWERED, sends=1, failed=False))
            request_id = headers.plain(request.headers, headers.REQUEST_ID)
            await passage.run(own, {} if request_id is None else {headers.REQUEST_ID: request_id})
            return passage.out
        finally:
            self._upstream.release(connection)


async def main(pool_port: int) -> None:
    """Serve until killed."""
    shell = ShellConfig()
    driver = DriverWithoutRule(f"http://127.0.0.1:{pool_port}", shell)
    front = Front({("POST", "/v1/chat/completions"): driver.handle}, lambda _code, _reason: None)
    bounds = ClientBounds(head_timeout_s=shell.head_timeout_s, connections_max=shell.connections_max)
    listener = Listener(front, bounds, host="127.0.0.1", port=0, option="")
    await listener.open()
    sys.stdout.write(listener.url.rpartition(":")[2] + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
