"""The failover rule, once, as a generator of effects that the router and the model drive.

Laws
1. A second Send only if the first outcome was UNSENT.
2. At most two Sends, never two to one pool.
3. No Send after a Relay.
4. Every lease comes back on every path, a close at any effect included.
5. No effect reaches past the request's deadline; waiting is bounded by the patience.

A driver answers Send with an Outcome, Wait with anything, Relay with an End, and wraps the generator in
`contextlib.closing`, so that a client that leaves at any effect returns what it held.
"""

from collections.abc import Generator
from enum import StrEnum

from router.core.delivery import Delivery, Outcome
from router.core.policy import Policy, Request, Send
from router.core.refusal import CLIENT_LEFT, Code, Reason, code_for


class Wait:
    """Effect: sleep until `until_s` (monotonic seconds) or until the policy changes, whichever is first."""

    __slots__ = ("until_s",)

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s

    def __repr__(self) -> str:
        return f"Wait({self.until_s:g})"


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


class Reply:
    """How forwarding one request ended.

    `outcome` is the last send's (None: there was none); `code` is None exactly when a pool's answer was passed on.
    """

    __slots__ = ("code", "end", "outcome", "reason", "retry_after_s", "sends")

    def __init__(
        self,
        reason: Reason,
        outcome: Outcome | None,
        sends: int,
        *,
        end: End | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.reason = reason
        self.outcome = outcome
        self.sends = sends
        self.end = end
        self.retry_after_s = retry_after_s
        self.code: Code | None = None if reason is Reason.ANSWERED else code_for(reason, outcome)

    def __repr__(self) -> str:
        return f"<Reply {self.code or self.reason} sends={self.sends}>"


Effect = Send | Wait | Relay
Forwarding = Generator[Effect, "Outcome | End | None", Reply]


def forward(policy: Policy, request: Request) -> Forwarding:
    """Forward one request: yields effects, returns the Reply; counts it in the policy's tally on every path."""
    told, sends = CLIENT_LEFT, 0
    try:
        send = yield from _first(policy, request)
        while isinstance(send, Send):
            sends = send.attempt
            outcome, end = yield from _attempt(policy, send)
            if end is not None:
                told = str(outcome.status)
                return Reply(Reason.ANSWERED, outcome, sends, end=end)
            following = policy.again(request, send, outcome)
            if isinstance(following, Send):
                policy.tally.failovers[send.lease.frontend.pool, following.lease.frontend.pool] += 1
                send = following
                continue
            policy.tally.failovers_refused[following] += 1
            reply = Reply(following, outcome, sends)
            told = str(reply.code)
            return reply
        reply = Reply(send, None, 0, retry_after_s=policy.retry_after_s() if send is Reason.NO_POOL else None)
        told = str(reply.code)
        return reply
    finally:
        policy.tally.request_ended(told, sends)


def _first(policy: Policy, request: Request) -> Generator[Wait, object, Send | Reason]:
    """Decide the first send, waiting at most the patience while nothing is usable."""
    if not policy.serves(request.model):
        return Reason.UNKNOWN_MODEL
    patient_until_s = policy.clock.monotonic() + policy.config.patience_s
    while True:
        now = policy.clock.monotonic()
        if now >= request.until_s:
            return Reason.DEADLINE
        send = policy.decide(request)
        if send is not None:
            return send
        if now >= patient_until_s:
            return Reason.NO_POOL
        policy.waiting += 1
        try:
            yield Wait(min(patient_until_s, request.until_s))
        finally:
            policy.waiting -= 1


def _attempt(policy: Policy, send: Send) -> Generator[Send | Relay, "Outcome | End | None", tuple[Outcome, End | None]]:
    """Make one send and, if it is answered, pass the answer on; the lease is held until then."""
    outcome: Outcome | None = None
    try:
        answer = yield send
        assert isinstance(answer, Outcome), "a Send is answered with an Outcome"
        outcome = answer
        policy.observe(send, outcome)
        if outcome.delivery is not Delivery.ANSWERED:
            return outcome, None
        end = yield Relay(outcome)
        assert isinstance(end, End), "a Relay is answered with an End"
        return outcome, end
    finally:
        send.lease.release()
        if outcome is None:
            policy.tally.send_ended(send.lease.frontend.pool, None)
