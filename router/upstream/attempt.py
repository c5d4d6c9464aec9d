"""What became of one send; everything a row of the send log says."""

from collections.abc import Callable

from router.core.clock import Clock
from router.core.delivery import BLAME, Cause, Outcome, delivery_of
from router.core.effects import Send
from router.send_log import SendRow
from router.upstream.answer import Head
from router.upstream.connection import Connection


class Attempt:
    """One send, from its decision to its end."""

    __slots__ = ("_clock", "_release", "cause", "connected_s", "connection", "ended_s", "error", "head", "outcome",
                 "reused", "send", "started_s")  # fmt: skip

    def __init__(self, send: Send, clock: Clock) -> None:
        self._clock = clock
        self._release: Callable[[Connection], None] | None = None
        self.send = send
        self.started_s = clock.monotonic()
        self.connected_s: float | None = None
        self.ended_s: float | None = None
        self.reused = False
        self.connection: Connection | None = None
        self.head: Head | None = None
        """Of the answer; None until it has come."""
        self.outcome: Outcome | None = None
        self.cause: Cause | None = None
        self.error: str | None = None
        """The innermost error, in words."""

    def connected(self, connection: Connection, release: Callable[[Connection], None]) -> None:
        """Note that a connection stands; it is given to `release` at the end."""
        self.connection = connection
        self.reused = connection.used
        self.connected_s = self._clock.monotonic()
        self._release = release

    def failed(self, cause: Cause, error: str) -> Outcome:
        """End it without an answer."""
        self.cause, self.error = cause, error
        self.outcome = Outcome(slot_taken=self.send.lease.slot_taken, cause=cause)
        self.end()
        return self.outcome

    def answered(self, head: Head) -> Outcome:
        """Note that a status came; it ends with the answer's stream."""
        self.head = head
        self.outcome = Outcome(slot_taken=self.send.lease.slot_taken, status=head.status)
        return self.outcome

    def end(self) -> None:
        """Let go of the connection: it is kept if it can serve another request, else cut."""
        if self.ended_s is None:
            self.ended_s = self._clock.monotonic()
            if self.connection is not None and self._release is not None:
                self._release(self.connection)

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
