"""How long one send may take, phase by phase, and what it is called when it took longer.

| phase | from | to | bound | cause |
| --- | --- | --- | --- | --- |
| UPLOAD | the hand-over | the last byte of the request has gone | no progress for `upload_timeout_s` | upload |
| HEAD | the end of the upload | the head of the answer | `first_byte_timeout_s` | first_byte |
| BODY | the head | the last byte | nothing came for `idle_timeout_s` | idle |
| UPLOAD and HEAD | | | the client waits no longer for a first byte | deadline |
| all | the hand-over | the last byte | `total_timeout_s` | total |
| all | | the last byte | the request's deadline | deadline |

The connect comes before all of these and has its own bound, the effect's. What is still unsent has no bound but those.
"""

from enum import Enum

from router.core.config import RouterConfig
from router.core.delivery import Cause
from router.core.effects import End, Send

NEVER = float("inf")


_ENDS = {Cause.IDLE_TIMEOUT: End.IDLE, Cause.TOTAL_TIMEOUT: End.TOTAL, Cause.DEADLINE: End.DEADLINE}


def end_of(cause: Cause) -> End:
    """Name the end of an answer that broke off for this cause."""
    return _ENDS.get(cause, End.BROKEN)


class Phase(Enum):
    """Where one request on a connection is; IDLE: there is none."""

    IDLE = "idle"
    UPLOAD = "upload"
    HEAD = "head"
    BODY = "body"


class Limits:
    """The time-outs of one router in seconds; those that are off are infinite."""

    __slots__ = ("first_byte_s", "idle_s", "total_s", "upload_s")

    def __init__(self, config: RouterConfig) -> None:
        self.upload_s = config.upload_timeout_s or NEVER
        self.first_byte_s = config.first_byte_timeout_s or NEVER
        self.idle_s = config.idle_timeout_s
        self.total_s = config.total_timeout_s or NEVER


class Bounds:
    """The bounds of one send from `now_s` on, which is its hand-over."""

    __slots__ = ("head_until_s", "limits", "over_cause", "over_s")

    def __init__(self, limits: Limits, now_s: float, *, until_s: float, head_until_s: float = NEVER) -> None:
        self.limits = limits
        self.head_until_s = head_until_s
        total_s = now_s + limits.total_s
        self.over_s, self.over_cause = (
            (total_s, Cause.TOTAL_TIMEOUT) if total_s < until_s else (until_s, Cause.DEADLINE)
        )

    @classmethod
    def of_send(cls, limits: Limits, send: Send, now_s: float) -> "Bounds":
        """Return the bounds of an effect."""
        return cls(limits, now_s, until_s=send.last_byte_until_s, head_until_s=send.until_s)

    def next(self, phase: Phase, since_s: float) -> tuple[float, Cause]:
        """Return when the next bound is reached if nothing comes, and its name; `since_s`: the last progress."""
        match phase:
            case Phase.UPLOAD:
                due_s, cause = since_s + self.limits.upload_s, Cause.UPLOAD_TIMEOUT
            case Phase.HEAD:
                due_s, cause = since_s + self.limits.first_byte_s, Cause.FIRST_BYTE_TIMEOUT
            case _:
                due_s, cause = since_s + self.limits.idle_s, Cause.IDLE_TIMEOUT
        if phase is not Phase.BODY and self.head_until_s < due_s:
            due_s, cause = self.head_until_s, Cause.DEADLINE
        return (self.over_s, self.over_cause) if self.over_s <= due_s else (due_s, cause)

    def words(self, cause: Cause) -> str:
        """Say which bound was reached."""
        match cause:
            case Cause.UPLOAD_TIMEOUT:
                return f"nothing of the request was taken for {self.limits.upload_s:g} s"
            case Cause.FIRST_BYTE_TIMEOUT:
                return f"no answer began within {self.limits.first_byte_s:g} s"
            case Cause.IDLE_TIMEOUT:
                return f"nothing came for {self.limits.idle_s:g} s"
            case Cause.TOTAL_TIMEOUT:
                return f"the answer did not end within {self.limits.total_s:g} s"
            case _:
                return "the deadline passed"
