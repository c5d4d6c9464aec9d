"""What is known of a send, and whom a failed one blames.

Laws
1. Three values, never two: UNSENT (provably not handed over), UNKNOWN (a pool may be running it), ANSWERED.
2. Only the body slot and the status decide. No exception class, errno or name of a fault takes part: a refused connect
   and a pool that drops the body after reading it raise errors of the same family in every HTTP client.
3. A status that arrives while the slot is full belongs to somebody else (an unsolicited 408 on an idle connection):
   it is dropped with its connection and the send stays UNSENT.
4. Blame is looked up in one table and never changes the delivery.

The three values are the ones of Jepsen's histories (ok, info, fail).
"""

from enum import StrEnum


class Delivery(StrEnum):
    """What is known of one send."""

    UNSENT = "unsent"
    UNKNOWN = "unknown"
    ANSWERED = "answered"


class Blame(StrEnum):
    """Whose doing a failed send is; only FRONTEND may count against a frontend."""

    FRONTEND = "frontend"
    ROUTER = "router"
    CLIENT = "client"
    NOBODY = "nobody"


class Cause(StrEnum):
    """The innermost cause of a failed send, as logs, metrics and records name it."""

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    CONNECT_TIMEOUT = "connect_timeout"
    NAME_LOOKUP = "name_lookup"
    TLS = "tls"
    LOST = "lost"  # the connection ended after hand-over and before headers, on a fresh connection
    RESET = "reset"  # the same by RST
    STALE = "stale"  # a reused connection turned out to be dead
    UPLOAD_TIMEOUT = "upload"
    FIRST_BYTE_TIMEOUT = "first_byte"
    IDLE_TIMEOUT = "idle"
    TOTAL_TIMEOUT = "total"
    DEADLINE = "deadline"
    PROTOCOL = "protocol"  # bytes that are not an HTTP answer
    OWN_LIMIT = "own_limit"  # no file descriptor, no local port, connection pool full
    CLIENT_LEFT = "client_left"
    BODY_BROKEN = "body_broken"  # the client's upload broke off while it was being passed on


BLAME: dict[Cause, Blame] = {
    Cause.REFUSED: Blame.FRONTEND,
    Cause.UNREACHABLE: Blame.FRONTEND,
    Cause.CONNECT_TIMEOUT: Blame.FRONTEND,
    Cause.NAME_LOOKUP: Blame.FRONTEND,
    Cause.TLS: Blame.FRONTEND,
    Cause.LOST: Blame.FRONTEND,
    Cause.RESET: Blame.FRONTEND,
    Cause.STALE: Blame.NOBODY,
    Cause.UPLOAD_TIMEOUT: Blame.FRONTEND,
    Cause.FIRST_BYTE_TIMEOUT: Blame.FRONTEND,
    Cause.IDLE_TIMEOUT: Blame.FRONTEND,
    Cause.TOTAL_TIMEOUT: Blame.NOBODY,
    Cause.DEADLINE: Blame.NOBODY,
    Cause.PROTOCOL: Blame.FRONTEND,
    Cause.OWN_LIMIT: Blame.ROUTER,
    Cause.CLIENT_LEFT: Blame.CLIENT,
    Cause.BODY_BROKEN: Blame.CLIENT,
}

OWN_TIMEOUTS = frozenset(
    (Cause.UPLOAD_TIMEOUT, Cause.FIRST_BYTE_TIMEOUT, Cause.TOTAL_TIMEOUT, Cause.DEADLINE),
)
"""Causes by which the router itself ended a send after hand-over and before headers."""


_ANSWERED = Delivery.ANSWERED  # looked up once: CPython 3.11 takes ten times as long to find a member on its class


def delivery_of(*, slot_taken: bool, status: int | None) -> Delivery:
    """Decide what is known of a send that has ended: the slot first, then the status, nothing else."""
    if not slot_taken:
        return Delivery.UNSENT
    return Delivery.UNKNOWN if status is None else _ANSWERED


class Outcome:
    """How one send ended. `status` is the pool's (None unless ANSWERED); `cause` is None exactly when ANSWERED."""

    __slots__ = ("cause", "delivery", "status")

    def __init__(self, *, slot_taken: bool, status: int | None = None, cause: Cause | None = None) -> None:
        self.delivery = delivery_of(slot_taken=slot_taken, status=status)
        answered = self.delivery is _ANSWERED
        if not answered and cause is None:
            msg = f"a send that ended {self.delivery} needs its cause"
            raise ValueError(msg)
        self.status = status if answered else None
        self.cause = None if answered else cause

    @property
    def blame(self) -> Blame:
        """Whose doing it is; NOBODY for an answer."""
        return Blame.NOBODY if self.cause is None else BLAME[self.cause]

    def __repr__(self) -> str:
        return f"<{self.delivery} {self.status or self.cause}>"
