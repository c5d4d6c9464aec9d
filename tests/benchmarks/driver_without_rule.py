"""The router's driver without the rule: python -m tests.benchmarks.driver_without_rule POOL_PORT. Prints its port.

All that the driver does for a request, on the same upstream, but without the generator that decides and its lease, the
slot that proves what was sent, and the deadline. What the router costs beyond this is the price of the rule.
"""

import asyncio
import gc
import random
import sys

from aiohttp import web

from router import headers, intake
from router.app import FORWARDED
from router.chat import Chat
from router.clock import LoopClock
from router.connection import Bounds as ClientBounds
from router.core.bounds import Bounds, Limits
from router.core.config import RouterConfig
from router.core.effects import Request, Send
from router.core.policy import build_policy
from router.core.topology import Catalog, Pool
from router.credentials import Credentials
from router.dialing import Dialer
from router.front import Front
from router.intake import Intake
from router.journal import Journal
from router.listener import Listener
from router.log import EventLog
from router.send_log import NoSendLog
from router.settings import ShellConfig
from router.talk import Talk
from router.tls import TlsTable
from router.upstream import Attempt, Upstream
from router.upstream.origin import origin_of, request_head

NEVER = float("inf")


class DriverWithoutRule(Chat):
    """Forwards every request to one frontend."""

    def __init__(self, pool: Pool, clock: LoopClock, shell: ShellConfig) -> None:
        config = RouterConfig()
        policy = build_policy(config, clock, random.Random(1), Catalog([pool]))
        upstream = Upstream(
            clock, config, reuse_idle_s=shell.reuse_idle_s, dialer=Dialer(TlsTable({})), credentials=Credentials({})
        )
        journal = Journal(EventLog(clock), NoSendLog())
        super().__init__(
            policy, upstream, journal, clock=clock, intake=Intake(shell), via="bench", on_first_byte=lambda _: None
        )
        send = policy.decide(Request("m", NEVER))
        assert isinstance(send, Send)
        send.lease.handed_over()
        self._always = send
        self._frontend = pool.frontends[0]
        self._origin = origin_of(self._frontend.url)
        self._unbounded = Bounds(Limits(config), 0.0, until_s=NEVER)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        name = headers.plain(request.headers, headers.REQUEST_ID) or f"unnamed-{next(self._unnamed)}"
        chain, hold = self._policy.chain_of(request.headers), self._intake.buffered.open()
        talk = Talk(request, chain, hold, started_s=self._clock.monotonic(), request_id=name)
        try:
            body = await self._body_of(talk)
            return await self._pass_through(talk, body)
        finally:
            hold.release()

    async def _body_of(self, talk: Talk) -> bytes:
        request = talk.request
        assert not any(self._via in value for value in request.headers.getall("Via", ()))
        body = await self._intake.read(request, talk.hold, until_s=NEVER, deadline_s=NEVER)
        talk.model = intake.model_of(body)
        talk.headers = headers.for_pool(request.headers, body_bytes=len(body), via=f"1.1 {self._via}")
        return body

    async def _pass_through(self, talk: Talk, body: bytes) -> web.StreamResponse:
        attempt = Attempt(self._always, self._clock)
        talk.attempts.append(attempt)
        upstream = self._upstream
        head = request_head("POST", self._origin, talk.target, talk.headers.items())
        connection = await upstream.connection_to(self._frontend, NEVER)
        attempt.connected(connection, upstream.release)
        connection.hand_over(head, body, self._unbounded, talk.hold.release)
        answer = await connection.answered()
        assert answer is not None
        attempt.answered(answer)
        await self._relay(talk)
        assert talk.out is not None
        return talk.out


async def main(pool_port: int) -> None:
    """Serve until killed."""
    pool = Pool.of_urls("a", [f"http://127.0.0.1:{pool_port}"], ["m"])
    shell = ShellConfig()
    driver = DriverWithoutRule(pool, LoopClock(asyncio.get_running_loop()), shell)
    front = Front({("POST", path): driver.handle for path in FORWARDED}, lambda _code, _reason: None)
    bounds = ClientBounds(head_timeout_s=shell.head_timeout_s, connections_max=shell.connections_max)
    listener = Listener(front, bounds, host="127.0.0.1", port=0, option="")
    await listener.open()
    gc.freeze()  # as the router does
    sys.stdout.write(listener.url.rpartition(":")[2] + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
