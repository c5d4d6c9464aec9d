"""The failover rule, once, as a generator of effects that the router and the model drive.

Laws
1. A second Send only if the first outcome was UNSENT.
2. At most two Sends, never two to one pool.
3. No Send after a Relay.
4. Every lease comes back on every path, a close at any effect included.
5. No effect reaches past the request's deadline, a Relay included: a Send carries when the answer must have begun, and
   when it must have ended. Waiting is bounded by the patience.

A driver answers Send with an Outcome, Wait with anything, Relay with an End, and wraps the generator in
`contextlib.closing`, so that a client that leaves at any effect returns what it held.
"""

from collections.abc import Generator

from router.core.delivery import Delivery, Outcome
from router.core.effects import End, Relay, Request, Send, Waiting
from router.core.policy import Policy
from router.core.refusal import CLIENT_LEFT, Code, Reason, code_for

RETRY_LATER = frozenset((Reason.NO_POOL, Reason.OVERLOADED))
"""Refusals that tell the client when to come back."""


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


Effect = Send | Waiting | Relay
Forwarding = Generator[Effect, "Outcome | End | None", Reply]


def forward(policy: Policy, request: Request) -> Forwarding:
    """Forward one request: yields effects, returns the Reply; counts it in the policy's tally on every path."""
    told, sends, outcome = CLIENT_LEFT, 0, None
    try:
        step = yield from _first(policy, request)
        while isinstance(step, Send):
            sends = step.attempt
            outcome, end = yield from _attempt(policy, step)
            if end is not None:
                told = str(outcome.status)
                return Reply(Reason.ANSWERED, outcome, sends, end=end)
            step = policy.again(step, outcome)
        retry_after_s = policy.retry_after_s(request.model) if step in RETRY_LATER else None
        reply = Reply(step, outcome, sends, retry_after_s=retry_after_s)
        told = str(reply.code)
        return reply
    finally:
        policy.tally.request_ended(told, sends)


def _first(policy: Policy, request: Request) -> Generator[Waiting, object, Send | Reason]:
    """Decide the first send, waiting at most the patience while nothing is usable."""
    step = policy.decide(request)
    while isinstance(step, Waiting):
        waiting = step
        try:
            yield waiting
        except BaseException:
            policy.withdraw(waiting)
            raise
        step = policy.woke(waiting)
    return step


def _attempt(policy: Policy, send: Send) -> Generator[Send | Relay, "Outcome | End | None", tuple[Outcome, End | None]]:
    """Make one send and, if it is answered, pass the answer on; the lease is held until then."""
    try:
        outcome = yield send
        assert isinstance(outcome, Outcome), "a Send is answered with an Outcome"
        policy.observe(send, outcome)
        if outcome.delivery is not Delivery.ANSWERED:
            return outcome, None
        end = yield Relay(outcome)
        assert isinstance(end, End), "a Relay is answered with an End"
        policy.relayed(send, end)
        return outcome, end
    finally:
        policy.release(send)
