"""What a decision asks of its driver, and what a driver may answer.

| effect | what the driver does | its answer |
| --- | --- | --- |
| Send | hands the request to a frontend | Outcome |
| Relay | passes the pool's answer on | End |
| Wait | sleeps until a time, or until it is woken | anything |
| Connect | opens a connection in the background and closes it again | None, or the Cause that prevented it |
| Probe | asks a frontend whether it is ready | "ok", what came instead in a word, or the status that was not 200 |
| Fetch | gets what a source tells: a list of pools, the time | what it is by its source, or Failed |
"""

from collections.abc import Callable
from enum import StrEnum

from router.core.budgets.retry_budget import Call
from router.core.cooldown import Verdict
from router.core.delivery import Outcome
from router.core.in_flight import Lease
from router.core.topology import Frontend

PROBE_OK = "ok"


class Request:
    """What the decisions must know of one client request.

    `until_s` is when an answer must have begun, on the monotonic clock, and `last_byte_until_s` when it must have ended
    (None: the same); `deadline_lowered` tells that the client waits for less time than the router gives; `retries_left`
    is how many failovers the layers above leave us, `body_bytes` what waits with it.
    """

    __slots__ = (
        "body_bytes", "call", "deadline_lowered", "last_byte_until_s", "model", "retries_left", "session", "until_s",
    )  # fmt: skip

    def __init__(
        self,
        model: str,
        until_s: float,
        *,
        last_byte_until_s: float | None = None,
        retries_left: int = 1,
        session: str | None = None,
        body_bytes: int = 0,
        deadline_lowered: bool = False,
    ) -> None:
        self.model = model
        self.until_s = until_s
        self.last_byte_until_s = until_s if last_byte_until_s is None else last_byte_until_s
        self.retries_left = retries_left
        self.session = session
        self.body_bytes = body_bytes
        self.deadline_lowered = deadline_lowered
        self.call: Call | None = None
        """What a budget of failovers remembers of it; None: it has no send yet, or there is no such budget."""


class Send:
    """Effect: hand the request to `lease.frontend`. Answered with an Outcome.

    The driver gives up connecting at `connect_until_s`, everything before headers at `until_s` and the rest at
    `last_byte_until_s` (monotonic seconds), and calls `lease.handed_over()` when the body slot is taken.
    """

    __slots__ = ("_hang", "attempt", "connect_until_s", "end", "last_byte_until_s", "lease", "outcome", "request",
                 "until_s")  # fmt: skip

    def __init__(self, request: Request, lease: Lease, attempt: int, connect_until_s: float, hang: Verdict) -> None:
        self.request = request
        self.lease = lease
        self.attempt = attempt
        self.connect_until_s = connect_until_s
        self.until_s = request.until_s
        self.last_byte_until_s = request.last_byte_until_s
        self._hang = hang
        self.outcome: Outcome | None = None
        """How it ended, once that was observed."""
        self.end: End | None = None
        """How its answer ended, once that was passed on."""

    @property
    def hang(self) -> Verdict:
        """What a connect that timed out says of the frontend: little if others came through, nothing if hurried."""
        return Verdict.BAD if self.lease.overtaken and self._hang is Verdict.HANGS else self._hang

    def __repr__(self) -> str:
        return f"Send({self.lease.frontend.name} #{self.attempt})"


class Wait:
    """Effect: sleep until `until_s` (monotonic seconds; it may be infinite) or until woken, whichever is first.

    The driver sets `on_wake` while it sleeps; a wake-up without cause does no harm.
    """

    __slots__ = ("on_wake", "until_s")

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.on_wake: Callable[[], None] | None = None

    def wake(self) -> None:
        """End the sleep: something has changed that this waiter could use."""
        if self.on_wake is not None:
            self.on_wake()

    def __repr__(self) -> str:
        return f"Wait({self.until_s:g})"


class Waiting(Wait):
    """A request's wait until it has a send: its place in the queue, kept from one sleep to the next."""

    __slots__ = ("model", "request")

    def __init__(self, request: Request, model: str, until_s: float) -> None:
        super().__init__(until_s)
        self.request = request
        self.model = model


class Relay:
    """Effect: pass the pool's answer on. Nothing can be sent after it. Answered with an End."""

    __slots__ = ("outcome",)

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"Relay({self.outcome.status})"


class End(StrEnum):
    """How passing an answer on ended."""

    COMPLETE = "complete"
    BROKEN = "broken"  # the pool's side broke off
    IDLE = "idle"  # the pool fell silent for longer than the idle time-out
    TOTAL = "total"  # it went on for longer than one send may
    DEADLINE = "deadline"  # it went on beyond the request's deadline

    @property
    def blames_pool(self) -> bool:
        """Tell whether it is the pool's doing; a bound of ours on a whole answer says nothing of who gave it."""
        return self in {End.BROKEN, End.IDLE}


class Connect:
    """Effect: open a connection to a frontend by `until_s` and close it; nothing is handed over."""

    __slots__ = ("frontend", "until_s")

    def __init__(self, frontend: Frontend, until_s: float) -> None:
        self.frontend = frontend
        self.until_s = until_s

    def __repr__(self) -> str:
        return f"Connect({self.frontend.name})"


class Probe:
    """Effect: ask a frontend by `until_s` whether it is ready; never a user's request.

    `model` is the one that it must list (empty: any); with `generate` it must also give one token of it.
    """

    __slots__ = ("frontend", "generate", "model", "until_s")

    def __init__(self, frontend: Frontend, until_s: float, *, model: str = "", generate: bool = False) -> None:
        self.frontend = frontend
        self.until_s = until_s
        self.model = model
        self.generate = generate

    def __repr__(self) -> str:
        return f"Probe({self.frontend.name})"


class Fetch:
    """Effect: get by `until_s` what a source tells, in one try that nobody repeats silently."""

    __slots__ = ("source", "until_s")

    def __init__(self, source: str, until_s: float) -> None:
        self.source = source
        self.until_s = until_s

    def __repr__(self) -> str:
        return f"Fetch({self.source})"


class Failed:
    """Answer to a Fetch that came to nothing; `why` says it in a few words."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"<Failed {self.why}>"
