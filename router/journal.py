"""What is written down of sends: the row of every send, and the events of those that failed."""

from router.core.alarms import Alarm
from router.core.cooldown import Standing
from router.core.delivery import BLAME, Delivery
from router.core.forwarding import Effect, Reply
from router.core.in_flight import FrontendState
from router.core.refusal import Code
from router.headers import OPERATION_ID, plain
from router.log import EventLog
from router.send_log import SendLog
from router.talk import Talk
from router.upstream import Attempt


class Journal:
    """Writes to the send log and to the event log."""

    def __init__(self, events: EventLog, sends: SendLog) -> None:
        self._events = events
        self._sends = sends

    def send_ended(self, talk: Talk, attempt: Attempt) -> None:
        """Write the row of a send."""
        if self._sends.wanted:
            self._sends.write(attempt.row(talk.request_id))

    def send_failed(self, talk: Talk, attempt: Attempt, following: Effect | Reply) -> None:
        """Tell of a send without an answer, and why it was sent again or not."""
        reason = following.reason if isinstance(following, Reply) else "failover"
        self._write("send_failed", talk, attempt, reason=reason)

    def stream_broken(self, talk: Talk, attempt: Attempt) -> None:
        """Tell of an answer that could not be passed on whole."""
        self._write("stream_broken", talk, attempt, status=None if attempt.outcome is None else attempt.outcome.status)

    def refused(self, talk: Talk, code: Code, reason: str) -> None:
        """Tell of a request that was answered by the router without any send."""
        self._events.write("request_refused", **_ids(talk), code=code, reason=reason)

    def left_early(self, talk: Talk) -> None:
        """Tell of a client that left before its request had come whole."""
        self._events.write("client_left", **_ids(talk), reason="The client closed the connection during its upload.")

    def unread(self, code: Code, reason: str) -> None:
        """Tell of bytes of a client that make no request, or of a connection too many."""
        self._events.write("request_refused", code=code, reason=reason)

    def headers_ignored(self, talk: Talk) -> None:
        """Tell of headers about the chain that could not be read, and why."""
        self._events.write("headers_ignored", **_ids(talk), headers=talk.chain.ignored)

    def standing(self, state: FrontendState) -> None:
        """Tell that a frontend was benched or has returned, and why."""
        cooldown = state.cooldown
        self._events.write(
            "standing",
            pool=state.frontend.pool,
            frontend=state.frontend.name,
            standing=cooldown.standing,
            reason=cooldown.reason or None,
            rest_s=cooldown.until_s - cooldown.since_s if cooldown.standing is Standing.BENCHED else None,
        )

    def alarm(self, alarm: Alarm) -> None:
        """Tell that an alarm was raised, or cleared after how long."""
        cleared_after_s = None if alarm.cleared_s is None else alarm.cleared_s - alarm.since_s
        self._events.write(
            "alarm",
            kind=alarm.kind,
            about=alarm.about or None,
            detail=alarm.detail or None,
            cleared_after_s=cleared_after_s,
        )

    def _write(self, event: str, talk: Talk, attempt: Attempt, **more: object) -> None:
        lease = attempt.send.lease
        outcome, cause = attempt.outcome, attempt.cause
        self._events.write(
            event,
            **_ids(talk),
            attempt=attempt.send.attempt,
            pool=lease.frontend.pool,
            frontend=lease.frontend.name,
            delivery=Delivery.UNKNOWN if outcome is None else outcome.delivery,
            slot="taken" if lease.slot_taken else "full",
            cause=cause,
            error=attempt.error,
            blame=None if cause is None else BLAME[cause],
            **more,
        )


def _ids(talk: Talk) -> dict[str, str | None]:
    return {"request_id": talk.request_id, "operation_id": plain(talk.request.headers, OPERATION_ID)}
