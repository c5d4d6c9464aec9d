"""One send: connect, hand the body over, wait for the head of the answer.

The three questions a send must answer are kept apart: was the slot taken (the slot knows), did a status come (the
connection has a head), what was the cause (causes.py, for people). Nothing is ever sent twice by what stands here: a
connection that is found dead before the slot is touched was no send, and after that there is no way back.
"""

import asyncio

from multidict import CIMultiDict

from router.body import BodySlot
from router.core.bounds import Bounds, Limits
from router.core.clock import Clock
from router.core.config import RouterConfig
from router.core.delivery import Cause, Outcome
from router.core.topology import Frontend
from router.credentials import Credentials
from router.dialing import Dialer
from router.upstream.attempt import Attempt
from router.upstream.causes import cause_of, text_of
from router.upstream.connect_bound import ConnectBound
from router.upstream.connection import Connection
from router.upstream.faults import Lost
from router.upstream.fetching import Fetched, fetch
from router.upstream.kept import Kept
from router.upstream.origin import origin_of, request_head


class Upstream:
    """The pools' side of the router: all connections to frontends. Made inside a running event loop; close it."""

    def __init__(
        self, clock: Clock, config: RouterConfig, *, reuse_idle_s: float, dialer: Dialer, credentials: Credentials
    ) -> None:
        self._clock = clock
        self._limits = Limits(config)
        self._reuse_idle_s = reuse_idle_s
        self._dialer = dialer
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._kept = Kept()
        self._open: dict[Connection, None] = {}  # in the order in which they were opened
        self._closed = False

    async def hand_over(self, attempt: Attempt, slot: BodySlot, target: str, headers: CIMultiDict[str]) -> Outcome:
        """Make one send and wait for the head of its answer. `target` is the path with its query."""
        send = attempt.send
        frontend = send.lease.frontend
        origin = origin_of(frontend.url)
        head = request_head("POST", origin, target, self._credentials.for_pool(headers, frontend.pool).items())
        try:
            connection = await self.connection_to(frontend, send.connect_until_s)
        except OSError as error:
            return attempt.failed(cause_of(error, connected=False, reused=False), text_of(error))
        attempt.connected(connection, self.release)
        if connection.closed:  # between the connect and now, and nothing was handed over
            return attempt.failed(Cause.LOST, "the pool closed the connection before it had the request")
        body = slot.take()
        send.lease.handed_over()
        connection.hand_over(head, body, Bounds.of_send(self._limits, send, self._clock.monotonic()), slot.written)
        del body
        answer = await connection.answered()
        if answer is not None:
            return attempt.answered(answer)
        failure = connection.failure or Lost("the connection was cut")
        return attempt.failed(cause_of(failure, connected=True, reused=attempt.reused), text_of(failure))

    async def knock(self, frontend: Frontend, until_s: float) -> Cause | None:
        """Open a connection, TLS included, and close it; returns what prevented it."""
        try:
            connection = await self._connect(frontend, until_s)
        except OSError as error:
            return cause_of(error, connected=False, reused=False)
        connection.cut()
        return None

    async def fetch(
        self, frontend: Frontend, target: str, headers: CIMultiDict[str], *, until_s: float, bytes_max: int
    ) -> Fetched:
        """Get a document of at most `bytes_max` bytes, in one try. Raises OSError, or an UpstreamError."""
        origin = origin_of(frontend.url)
        head = request_head("GET", origin, target, self._credentials.for_pool(headers, frontend.pool).items())
        connection = await self.connection_to(frontend, until_s)
        try:
            bounds = Bounds(self._limits, self._clock.monotonic(), until_s=until_s)
            return await fetch(connection, head, bounds, bytes_max=bytes_max)
        finally:
            self.release(connection)

    def release(self, connection: Connection) -> None:
        """Take a connection back from its request: keep it if it can serve another, else cut it."""
        if not (connection.finished() and self._reuse_idle_s and not self._closed and self._kept.keep(connection)):
            connection.cut()
            return
        connection.keep_until(self._clock.monotonic() + self._reuse_idle_s)

    async def close(self) -> None:
        """Cut every connection."""
        self._closed = True
        for connection in tuple(self._open):
            connection.cut()
        await asyncio.sleep(0)  # transports get to close their sockets

    async def connection_to(self, frontend: Frontend, until_s: float) -> Connection:
        """Return a connection for one request: a kept one, or a new one by `until_s`; give it to `release`.

        A new one may have ended before anybody could use it. Raises OSError.
        """
        return self._kept.take(origin_of(frontend.url)) or await self._connect(frontend, until_s)

    async def _connect(self, frontend: Frontend, until_s: float) -> Connection:
        """Open a connection by `until_s`. Raises OSError, TimeoutError among them."""
        origin = origin_of(frontend.url)
        async with ConnectBound(until_s):
            _, connection = await self._dialer.dial(
                lambda: Connection(self._loop, self._clock, origin, self._ended), frontend
            )
        self._open[connection] = None
        return connection

    def _ended(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._kept.forget(connection)
