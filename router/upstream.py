"""One send: connect, hand the body over, wait for the head of the answer.

The three questions a send must answer are kept apart: was the slot taken (the slot knows), did a status come (aiohttp
returned), what was the cause (causes.py, for people).
"""

import asyncio
from functools import lru_cache
from weakref import WeakSet

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import StreamWriter
from multidict import CIMultiDict
from yarl import URL

from router.body import BodySlot, StaleConnection, Upload, is_dead
from router.causes import cause_of, text_of
from router.core.clock import Clock
from router.core.delivery import BLAME, Cause, Outcome, delivery_of
from router.core.effects import Send
from router.send_log import SendRow

STALE_MAX = 4
"""So many dead connections one send may draw from those kept for reuse. None of them costs more than a look."""
ADDRESSES_MAX = 1024
"""So many addresses are kept; reading one anew costs 10 us."""
ANSWER_BUFFER_BYTES = 64 * 2**10
"""What of an answer may wait for its client, twice: the reader stops the connection above two of these."""


class Attempt:
    """What became of one send; everything a row of the send log says."""

    __slots__ = ("_clock", "cause", "connected_s", "ended_s", "error", "outcome", "response", "reused", "send",
                 "started_s", "transport")  # fmt: skip

    def __init__(self, send: Send, clock: Clock) -> None:
        self._clock = clock
        self.send = send
        self.started_s = clock.monotonic()
        self.connected_s: float | None = None
        self.ended_s: float | None = None
        self.reused = False
        self.transport: asyncio.Transport | None = None
        self.response: ClientResponse | None = None
        self.outcome: Outcome | None = None
        self.cause: Cause | None = None
        self.error: str | None = None
        """The innermost error, in words."""

    def connected(self, writer: StreamWriter, *, reused: bool) -> None:
        """Note that a connection stands. Raises StaleConnection if it is a kept one and dead."""
        self.transport = writer.transport
        self.reused = reused
        self.connected_s = self._clock.monotonic()
        if reused and is_dead(writer):
            raise StaleConnection("the pool has closed this idle connection")

    def failed(self, cause: Cause, error: str) -> Outcome:
        """End it without an answer."""
        self.cause, self.error = cause, error
        self.outcome = Outcome(slot_taken=self.send.lease.slot_taken, cause=cause)
        self.end()
        return self.outcome

    def answered(self, response: ClientResponse) -> Outcome:
        """Note that a status came; it ends with the answer's stream."""
        self.response = response
        self.outcome = Outcome(slot_taken=True, status=response.status)
        return self.outcome

    def end(self) -> None:
        """Close what is open. A connection whose answer was read whole is kept for reuse, any other is cut."""
        if self.ended_s is not None:
            return
        self.ended_s = self._clock.monotonic()
        if self.response is not None:
            self.response.close()
        if self.transport is not None and (self.outcome is None or self.cause is not None):
            self.transport.abort()  # a mere close would first push out what is left of an upload

    def row(self, request_id: str) -> SendRow:
        """Return what the send log says of it."""
        lease = self.send.lease
        outcome = self.outcome
        status = None if outcome is None else outcome.status
        return SendRow(
            request_id=request_id,
            attempt=self.send.attempt,
            pool=lease.frontend.pool,
            frontend=lease.frontend.name,
            t_start=self.started_s,
            t_connected=self.connected_s,
            t_end=self._clock.monotonic() if self.ended_s is None else self.ended_s,
            slot_taken=lease.slot_taken,
            reused=self.reused,
            delivery=delivery_of(slot_taken=lease.slot_taken, status=status),
            status=status,
            cause=self.cause,
            blame=None if self.cause is None else BLAME[self.cause],
        )


class Upstream:
    """The pools' side of the router: all connections to frontends. Made inside a running event loop; close it."""

    def __init__(self, clock: Clock, *, reuse_idle_s: float) -> None:
        self._clock = clock
        self._used: WeakSet[asyncio.Transport] = WeakSet()
        self.session = open_session(reuse_idle_s)

    async def hand_over(self, attempt: Attempt, slot: BodySlot, target: str, headers: CIMultiDict[str]) -> Outcome:
        """Make one send and wait for the head of its answer. `target` is the path with its query.

        A connection that is found dead before the slot is touched is not a send: another one is taken.
        """
        for _ in range(STALE_MAX):
            outcome = await self._try(attempt, slot, target, headers)
            if outcome is not None:
                return outcome
        return attempt.failed(Cause.STALE, f"{STALE_MAX} idle connections in a row were dead")

    async def close(self) -> None:
        """Close every connection."""
        await self.session.close()

    async def _try(self, attempt: Attempt, slot: BodySlot, target: str, headers: CIMultiDict[str]) -> Outcome | None:
        """Make one send on one connection; None: that connection was dead, and nothing was handed over."""
        send = attempt.send
        attempt.transport = attempt.connected_s = None
        attempt.reused = False
        connect_s = send.connect_until_s - self._clock.monotonic()
        try:
            async with asyncio.timeout_at(send.until_s):
                response = await self.session.post(
                    address(send.lease.frontend.url, target),
                    data=Upload(slot, lambda writer: self._connected(attempt, writer), send.lease.handed_over),
                    headers=headers,
                    allow_redirects=False,
                    # Without a ceiling: aiohttp rounds timeouts above 5 s up to whole seconds.
                    timeout=ClientTimeout(connect=max(connect_s, 0.001), ceil_threshold=float("inf")),
                )
        except (ClientError, OSError) as error:
            return self._failed(attempt, error)
        if send.lease.slot_taken:
            return attempt.answered(response)
        # Law 3 of router.core.delivery: this answers something else, an unasked 408 on an idle connection for example.
        response.close()
        return None

    def _failed(self, attempt: Attempt, error: Exception) -> Outcome | None:
        send = attempt.send
        cause = cause_of(error, connected=attempt.connected_s is not None, reused=attempt.reused)
        if cause is Cause.STALE and not send.lease.slot_taken:
            return None
        return attempt.failed(cause, text_of(error))

    def _connected(self, attempt: Attempt, writer: StreamWriter) -> None:
        transport = writer.transport
        reused = transport in self._used
        if transport is not None and not reused:
            self._used.add(transport)
            _hear_of_its_end(writer)
        attempt.connected(writer, reused=reused)


@lru_cache(maxsize=ADDRESSES_MAX)
def address(base: str, target: str) -> URL:
    """Return where a request goes: the frontend's URL, then the path and query as the client wrote them."""
    return URL(base + target, encoded=True)


def _hear_of_its_end(writer: StreamWriter) -> None:
    """Take note of how a connection ends, so that asyncio does not complain that nobody did."""
    protocol = writer.protocol
    closed = protocol.closed if isinstance(protocol, ResponseHandler) else None
    if closed is not None:
        closed.add_done_callback(lambda end: end.cancelled() or end.exception())


def open_session(reuse_idle_s: float) -> ClientSession:
    """Open a session that adds nothing of its own: no cookies, no decompression, no proxy, no header."""
    return ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=reuse_idle_s)
        if reuse_idle_s
        else TCPConnector(limit=0, force_close=True),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        read_bufsize=ANSWER_BUFFER_BYTES,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        max_line_size=32 * 2**10,
        max_field_size=32 * 2**10,
        timeout=ClientTimeout(total=None),
    )
