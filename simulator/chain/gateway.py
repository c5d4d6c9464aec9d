"""A layer that is this project's router: its decisions (router/core), asked by their methods, on the model's clock.

What a router does beside its decisions is this file: it takes the step that it is told, hears what came of it, and
says so. A readable driver of the same decisions is simulator/router.py; tests/router/core/test_equivalence.py proves
that methods and generator are one rule.
"""

import random
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from router.core.chain import WhenUnknown
from router.core.delivery import Cause, Delivery, Outcome
from router.core.effects import End, Request, Send, Waiting
from router.core.forwarding import RETRY_LATER
from router.core.policy import Policy
from router.core.refusal import CLIENT_LEFT, STATUS, Reason, code_for, retry_after
from scenarios.layers import Layer
from scenarios.spec import Scenario
from scenarios.world.streams import stream
from simulator.chain.calls import OUTSIDE, TELLING, Attempt, Call
from simulator.chain.clockwork import Clockwork, FifoTimers, Timers
from simulator.chain.columns import Calls
from simulator.chain.gate import PoolFrontends
from simulator.chain.instance import Instance
from simulator.chain.layer import Above, Told
from simulator.chain.pools import Frontend
from simulator.chain.results import (
    BROKEN,
    CODES,
    CONNECT_END,
    LEFT_END,
    LOST_END,
    OK_END,
    STATUS_END,
    TIMEOUT_END,
    Result,
)
from simulator.chain.work import Draw

# Looked up once: CPython 3.11 takes ten times as long to find a member on its class.
_COMPLETE: Final = End.COMPLETE

_GOOD: Final = Outcome(slot_taken=True, status=200)
_UNSENT: Final = Outcome(slot_taken=False, cause=Cause.REFUSED)
_HUNG: Final = Outcome(slot_taken=False, cause=Cause.CONNECT_TIMEOUT)
_LOST: Final = Outcome(slot_taken=True, cause=Cause.LOST)
_LATE: Final = {taken: Outcome(slot_taken=taken, cause=Cause.DEADLINE) for taken in (False, True)}


class Waiter:
    """One sleep of a request that waits for its first send; `live` until it is woken, by time or by a change."""

    __slots__ = ("call", "live", "told", "waiting")

    def __init__(self, call: Call, waiting: Waiting) -> None:
        self.call = call
        self.waiting = waiting
        self.live = True
        self.told = False


class Gateway:
    """Instances of the router as the innermost layer; operations meet them in turn."""

    above: Above

    def __init__(
        self,
        clockwork: Clockwork,
        timers: Timers,
        spec: Layer,
        place: int,
        *,
        scenario: Scenario,
        pools: Mapping[str, PoolFrontends],
        seed: int,
    ) -> None:
        self.name = spec.name
        self.place = place
        self.spec = spec
        self.calls = Calls()
        self._clockwork = clockwork
        self._timers = timers
        self.config = scenario.router.config()
        self.instances = [
            Instance(f"{spec.name}-{number}", scenario, clockwork, _draws(seed, spec, number))
            for number in range(spec.instances)
        ]
        self.policies: list[Policy] = [instance.policy for instance in self.instances]
        self._one = self.policies[0] if len(self.policies) == 1 else None
        self._doors: dict[str, tuple[Frontend, Draw]] = {
            f.name: (f, pool.draw) for pool in pools.values() for f in pool.frontends
        }
        self.hear(Told())
        self._deadline_s = self.config.deadline_s
        self._switches = scenario.router.switch is not None
        self._failover_spends = self.config.failover_spends
        self._deadlines = FifoTimers(clockwork, self.config.deadline_s, self._deadline_over)
        self._retries_max = self.config.chain_retries_max
        if scenario.chain_cap is not None:
            self._retries_max = min(self._retries_max, scenario.chain_cap)
        self._outcomes: dict[int, Outcome] = {200: _GOOD}
        streamed = {pool.id for pool in scenario.pools if pool.service.kind in ("tokens", "by_tokens")}
        for frontend, _ in self._doors.values():
            frontend.told = self.ended
            frontend.entered = _handed_over
            if frontend.pool in streamed:
                frontend.begun = self._begun

    def hear(self, told: Told) -> None:
        """Take in what the layer above says of its patience."""
        self.told_by_above = told
        self._hurries = told.anything

    # ---- as Below of the layer above

    def begin(self, parent: Call, number: int, now_s: float) -> Call:
        """Take a request in: one attempt of the layer above."""
        operation = parent.operation
        turns = operation.turns
        turns[self.place - 1] = turn = turns[self.place - 1] + 1
        call = Call(operation, parent, number, now_s, turn)
        self.start(call, now_s)
        return call

    def start(self, call: Call, now_s: float) -> None:
        """Decide the first send of a request."""
        operation = call.operation
        call.waiting = None
        call.until_s = until_s = now_s + self._deadline_s
        if self._hurries:
            request = self._hurried(call, now_s, until_s)
        else:
            self._deadlines.add(call)
            request = Request(operation.model, until_s)
            request.session = operation.session
        if self._failover_spends:
            request.retries_left = self._left(call)
        step = (self._one or self._policy(call)).decide(request)
        if step.__class__ is Send:
            self._send(call, step, now_s)
        else:
            self._take(call, step, None)

    def _hurried(self, call: Call, now_s: float, until_s: float) -> Request:
        """Return the request of a client that says how long it waits, and set its bounds."""
        told = self.told_by_above
        whole_until_s = min(until_s, told.whole_until_s(call, now_s))
        first_until_s = min(whole_until_s, now_s + told.first_s)
        call.until_s = whole_until_s
        if whole_until_s < until_s:
            self._timers.add(whole_until_s, call, self._deadline_over)
        else:
            self._deadlines.add(call)
        if first_until_s < whole_until_s:
            self._timers.add(first_until_s, call, self._first_token_over)
        operation = call.operation
        return Request(
            operation.model,
            first_until_s,
            last_byte_until_s=whole_until_s,
            session=operation.session,
            deadline_lowered=first_until_s < until_s,
        )

    def abandon(self, call: Call, now_s: float, end: int) -> None:
        """Hear that the client of a request has left."""
        call.live = False
        self.calls.add(call, now_s, end, 0)
        self.leave_child(call, now_s)

    def leave_child(self, call: Call, now_s: float) -> None:
        """Leave what a request has under way, and give back what it holds."""
        policy = self._policy(call)
        child = call.child
        if isinstance(child, Attempt) and child.live:
            self._leave(child, now_s, LEFT_END)
            policy.release(child.send)
            policy.tally.send_failed(child.frontend.pool, Cause.CLIENT_LEFT)
        elif call.waiting is not None:
            policy.withdraw(call.waiting)
            call.waiting = None
        policy.tally.request_ended(CLIENT_LEFT, call.attempts)

    # ---- what comes of a send

    def ended(self, attempt: Attempt, result: Result) -> None:
        """Take in how a send ended that was waited for."""
        send = attempt.send
        end = result.end
        if end == OK_END:
            call = attempt.parent
            policy = self._one or self._policy(call)
            if send.outcome is None:
                policy.observe(send, _GOOD)
            policy.relayed(send, _COMPLETE)
            policy.release(send)
            if self._switches:
                self._tell_switch(send, call)
            policy.tally.request_ended("200", send.attempt)
            call.live = False
            if self.place:
                self.calls.add(call, self._clockwork.now, OK_END, 200)
            self.above.ended(call, result)
        elif end == STATUS_END:
            self._answered(attempt, send, result)
        elif end == LOST_END and send.outcome is not None:
            self._broken(attempt, send, End.BROKEN, Cause.LOST)
        else:
            self._failed(attempt, send, _UNSENT if end == CONNECT_END else _LOST)

    def _answered(self, attempt: Attempt, send: Send, result: Result) -> None:
        """Pass a pool's own error on."""
        call = attempt.parent
        policy, status = self._policy(call), result.status
        outcome = self._outcomes.get(status)
        if outcome is None:
            outcome = self._outcomes[status] = Outcome(slot_taken=True, status=status)
        policy.observe(send, outcome)
        policy.relayed(send, _COMPLETE)
        policy.release(send)
        self._tell_switch(send, call)
        policy.tally.request_ended(str(status), send.attempt)
        self._finish(call, result if self._left(call) else result.vetoed())

    def _broken(self, attempt: Attempt, send: Send, end: End, cause: Cause) -> None:
        """Pass a stream on that breaks off: the client sees the break itself."""
        policy = self._policy(attempt.parent)
        policy.relayed(send, end)
        policy.release(send)
        self._tell_switch(send, attempt.parent)
        policy.tally.send_failed(attempt.frontend.pool, cause)
        policy.tally.request_ended("200", send.attempt)
        self._finish(attempt.parent, BROKEN)

    def _failed(self, attempt: Attempt, send: Send, outcome: Outcome) -> None:
        policy = self._policy(attempt.parent)
        policy.observe(send, outcome)
        policy.release(send)
        self._tell_switch(send, attempt.parent)
        assert outcome.cause is not None, "a send without an answer has a cause"
        policy.tally.send_failed(attempt.frontend.pool, outcome.cause)
        self._take(attempt.parent, policy.again(send, outcome), outcome)

    def _begun(self, attempt: Attempt) -> None:
        """Be there when the first token of a stream comes: that is when it is answered."""
        if attempt.live and attempt.parent.operation.stream:
            self._timers.add(attempt.first_token_s, attempt, self._first_token)

    def _first_token(self, attempt: Attempt) -> None:
        if attempt.first_token_s > self._clockwork.now:  # the pool was slowed down meanwhile
            self._begun(attempt)
        elif attempt.send.outcome is None:
            attempt.status = 200
            self._policy(attempt.parent).observe(attempt.send, _GOOD)

    # ---- steps

    def _take(self, call: Call, step: Send | Waiting | Reason, outcome: Outcome | None) -> None:
        """Do what the decisions say."""
        if isinstance(step, Send):
            self._send(call, step, self._clockwork.now)
        elif isinstance(step, Waiting):
            self._sleep(call, step)
        else:
            self._refuse(call, step, outcome)

    def _send(self, call: Call, send: Send, now_s: float) -> None:
        lease = send.lease
        frontend, draw = self._doors[lease.state.frontend.name]
        attempt = Attempt(call, frontend, send.attempt, now_s, draw(call.operation, frontend.cache))
        attempt.send = send
        call.attempts = send.attempt
        call.child = attempt
        if not frontend.trouble:
            lease.handed_over()
        result = frontend.take(attempt, now_s)
        if result is not None:
            self._clockwork.news.add(self.ended, attempt, result)
        elif attempt.where == OUTSIDE:
            self._timers.add(min(send.connect_until_s, send.until_s), attempt, self._connect_over)

    def _connect_over(self, attempt: Attempt) -> None:
        """Give a connect up that hangs."""
        if attempt.where != OUTSIDE:
            return
        now_s = self._clockwork.now
        self._leave(attempt, now_s, TIMEOUT_END)
        late = now_s >= attempt.send.until_s
        self._failed(attempt, attempt.send, _LATE[False] if late else _HUNG)

    def _first_token_over(self, call: Call) -> None:
        """End what has no first token when its client waits no longer for one."""
        attempt, now_s = call.child, self._clockwork.now
        if isinstance(attempt, Attempt) and attempt.live and attempt.phase(now_s) < TELLING:
            self._over(attempt, now_s)

    def _deadline_over(self, call: Call) -> None:
        """End whatever is under way; whoever waits for a send is woken by its own bound."""
        attempt = call.child
        if isinstance(attempt, Attempt) and attempt.live:
            self._over(attempt, self._clockwork.now)

    def _over(self, attempt: Attempt, now_s: float) -> None:
        self._leave(attempt, now_s, TIMEOUT_END)
        send = attempt.send
        if send.outcome is None:
            self._failed(attempt, send, _LATE[attempt.where != OUTSIDE])
        else:
            self._broken(attempt, send, End.DEADLINE, Cause.DEADLINE)

    def _leave(self, attempt: Attempt, now_s: float, end: int) -> None:
        attempt.live = False
        attempt.end = end
        attempt.t_end_s = now_s
        attempt.frontend.leave(attempt, now_s)

    def _sleep(self, call: Call, waiting: Waiting) -> None:
        wait = Waiter(call, waiting)
        call.waiting = waiting
        waiting.on_wake = partial(self._wake, wait)
        self._timers.add(waiting.until_s, wait, self._woke)

    def _wake(self, wait: Waiter) -> None:
        """Hear, amid another's decision, that something has changed; the waiter decides when that one is made."""
        if not wait.told:
            wait.told = True
            self._clockwork.news.add(self._told, wait, None)

    def _told(self, wait: Waiter, _: object) -> None:
        if wait.live:
            self._woke(wait)

    def _woke(self, wait: Waiter) -> None:
        wait.live = False
        wait.waiting.on_wake = None
        call = wait.call
        if call.live and call.waiting is wait.waiting:
            call.waiting = None
            self._take(call, self._policy(call).woke(wait.waiting), None)

    def _refuse(self, call: Call, reason: Reason, outcome: Outcome | None) -> None:
        policy = self._policy(call)
        code = code_for(reason, outcome)
        policy.tally.request_ended(str(code), call.attempts)
        wait_s = policy.retry_after_s(call.operation.model) if reason in RETRY_LATER else None
        unknown = outcome is not None and outcome.delivery is Delivery.UNKNOWN
        forbidden = unknown and self.config.when_unknown is WhenUnknown.FORBID
        result = Result(
            STATUS_END,
            status=STATUS[code],
            retry_after_s=None if wait_s is None else float(retry_after(wait_s)),
            veto=forbidden or not self._left(call),
            code=CODES.index(code),
        )
        self._finish(call, result)

    def _finish(self, call: Call, result: Result) -> None:
        call.live = False
        if self.place:
            self.calls.add(call, self._clockwork.now, result.end, result.status, result.code)
        self.above.ended(call, result)

    def _policy(self, call: Call) -> Policy:
        return self.policies[call.operation.index % len(self.policies)]

    def _tell_switch(self, send: Send, call: Call) -> None:
        if self._switches:
            self.instances[call.operation.index % len(self.instances)].sent(send)

    def _left(self, call: Call) -> int:
        """Return what the chain has left, by what the layers above have reported."""
        return max(0, self._retries_max - call.operation.spent)


def _handed_over(attempt: Attempt) -> None:
    attempt.send.lease.handed_over()


def _draws(seed: int, spec: Layer, instance: int) -> Any:
    # The first instance makes the very draws that the real router makes with this seed.
    return random.Random(seed) if instance == 0 else stream(seed, f"router/{spec.name}/{instance}")  # noqa: S311 - simulation
