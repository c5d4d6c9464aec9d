"""The one driver of the failover rule: a client's request in, a pool's answer or the router's own out.

`forward()` decides, this performs. What the rule is told comes from three places only: the body slot (was it taken),
the head of an answer (a status), and how the answer's stream ended.
"""

import asyncio
from collections.abc import Callable
from contextlib import closing
from itertools import count
from typing import assert_never

from aiohttp import web

from router import headers, intake
from router.answers import error, refusal
from router.body import BodySlot
from router.core.clock import Clock
from router.core.delivery import Cause, Delivery, Outcome
from router.core.effects import End, Relay, Request, Send, Waiting
from router.core.forwarding import Effect, Forwarding, Reply, forward
from router.core.policy import Policy
from router.core.refusal import CLIENT_LEFT, Code, retry_after
from router.intake import Intake
from router.journal import Journal
from router.refused import Refused
from router.streaming import ClientLeft, Passage, break_off
from router.talk import Talk
from router.upstream import Attempt, Upstream
from router.waiting import wait


class Chat:
    """Forwards inference requests.

    `via` is this router's own name, another one at each start: by it the router recognises a loop, and names requests
    that have no id. The processes of one router share it; `worker` tells the names that they give apart.
    `on_first_byte` is told after how many seconds the first byte of an answer was passed on.
    """

    def __init__(
        self,
        policy: Policy,
        upstream: Upstream,
        journal: Journal,
        *,
        clock: Clock,
        intake: Intake,
        via: str,
        worker: int | None = None,
        on_first_byte: Callable[[float], None],
    ) -> None:
        self._policy = policy
        self._upstream = upstream
        self._journal = journal
        self._clock = clock
        self._intake = intake
        self._via = via
        self._on_first_byte = on_first_byte
        name = via if worker is None else f"{via}-{worker}"
        self._unnamed = (f"{name}-{number}" for number in count(1))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        name = headers.plain(request.headers, headers.REQUEST_ID) or f"unnamed-{next(self._unnamed)}"
        chain, hold = self._policy.chain_of(request.headers), self._intake.buffered.open()
        talk = Talk(request, chain, hold, started_s=self._clock.monotonic(), request_id=name)
        if chain.ignored:
            self._journal.headers_ignored(talk)
        try:
            asked = await self._admit(talk)
            return await self._forward(talk, asked)
        except Refused as refused:
            self._policy.tally.request_ended(refused.code, 0)
            self._journal.refused(talk, refused.code, refused.reason)
            answer = error(refused.code, refused.message, chain, request_id=talk.clients_id)
            if refused.code is Code.ROUTER_OVERLOADED:
                answer.headers["Retry-After"] = str(retry_after(self._policy.retry_after_s(talk.model)))
            return answer
        finally:
            hold.release()

    async def _admit(self, talk: Talk) -> Request:
        """Read the request and check it; whatever ends it here is counted. Raises Refused."""
        try:
            return await self._read(talk)
        except Refused:
            raise
        except BaseException as end:
            left = isinstance(end, asyncio.CancelledError | OSError)
            self._policy.tally.request_ended(CLIENT_LEFT if left else Code.INTERNAL_ERROR, 0)
            if left:
                self._journal.left_early(talk)
            raise

    async def _read(self, talk: Talk) -> Request:
        request = talk.request
        if headers.has_passed(request.headers, self._via):
            raise Refused(Code.LOOP_DETECTED, headers.LOOP)
        talk.deadline_s = intake.deadline_of(talk.chain, self._policy.config.deadline_s)
        until_s = talk.started_s + talk.deadline_s
        last_byte_until_s = talk.started_s + min(self._policy.config.deadline_s, talk.chain.whole_within_s)
        body = await self._intake.read(request, talk.hold, until_s=until_s, deadline_s=talk.deadline_s)
        talk.model = intake.model_of(body)
        talk.slot = BodySlot(body, talk.hold.release)
        talk.headers = headers.for_pool(request.headers, body_bytes=len(body), via=f"1.1 {self._via}")
        rules = self._policy.config
        return Request(
            talk.model,
            until_s,
            last_byte_until_s=last_byte_until_s,
            retries_left=talk.chain.failovers_left,
            session=request.headers.get(rules.session_header),
            body_bytes=len(body),
            deadline_lowered=talk.chain.hurries(rules.deadline_s),
        )

    async def _forward(self, talk: Talk, asked: Request) -> web.StreamResponse:
        """Forward one request and answer its client, unless it leaves."""
        try:
            with closing(forward(self._policy, asked)) as rule:
                reply = await self._drive(rule, talk)
        except ClientLeft as left:
            self._left_alone(talk, str(left))
            if talk.request.transport is not None:
                talk.request.transport.abort()  # there may be much that it has not read
            return talk.out or web.Response()  # nobody will see it
        except BaseException:
            self._left_alone(talk, "the client closed the connection")
            raise
        if reply.code is not None:
            config, deadline_s = self._policy.config, talk.deadline_s
            return refusal(
                reply, talk.attempts, config, deadline_s, talk.chain, model=talk.model, request_id=talk.clients_id
            )
        assert talk.out is not None
        if reply.end is not End.COMPLETE:
            break_off(talk.request, talk.out)
        return talk.out

    async def _drive(self, rule: Forwarding, talk: Talk) -> Reply:
        """Perform the rule's effects, one after the other."""
        step = _advance(rule, None)
        while not isinstance(step, Reply):
            answer = await self._perform(step, talk)
            following = _advance(rule, answer)
            if isinstance(answer, Outcome) and answer.delivery is not Delivery.ANSWERED:
                self._journal.send_failed(talk, talk.attempts[-1], following)
            step = following
        if step.code is not None and not step.sends:
            self._journal.refused(talk, step.code, step.reason)
        return step

    async def _perform(self, effect: Effect, talk: Talk) -> Outcome | End | None:
        match effect:
            case Send():
                return await self._send(effect, talk)
            case Relay():
                return await self._relay(talk)
            case Waiting():
                await wait(effect)
                return None
            case _:
                assert_never(effect)

    async def _send(self, send: Send, talk: Talk) -> Outcome:
        attempt = Attempt(send, self._clock)
        talk.attempts.append(attempt)
        outcome = await self._upstream.hand_over(attempt, talk.slot, talk.target, talk.headers)
        if outcome.delivery is not Delivery.ANSWERED:
            self._ended(talk, attempt)
        return outcome

    async def _relay(self, talk: Talk) -> End:
        """Pass the answer of the last send on. Raises ClientLeft."""
        attempt = talk.attempts[-1]
        assert attempt.connection is not None
        assert attempt.head is not None
        idle_s = self._policy.config.idle_timeout_s
        passage = Passage(talk.request, attempt.connection, attempt.head, idle_s, self._clock)
        talk.out = passage.out
        own = _own_headers(attempt, attempt.head.status, talk)
        end = await passage.run(own, {} if talk.clients_id is None else {headers.REQUEST_ID: talk.clients_id})
        if passage.first_byte_s is not None:
            self._on_first_byte(passage.first_byte_s - talk.started_s)
        if passage.lost is not None:
            attempt.cause, attempt.error = passage.lost
            self._journal.stream_broken(talk, attempt)
        attempt.end()
        self._ended(talk, attempt)
        return end

    def _left_alone(self, talk: Talk, why: str) -> None:
        """Write down that the client left, and end what was under way for it."""
        if not talk.attempts or talk.attempts[-1].ended_s is not None:
            return
        attempt = talk.attempts[-1]
        attempt.cause, attempt.error = Cause.CLIENT_LEFT, why
        attempt.end()
        self._ended(talk, attempt)

    def _ended(self, talk: Talk, attempt: Attempt) -> None:
        """Count and write down a send that has ended."""
        if attempt.cause is not None:
            self._policy.tally.send_failed(attempt.send.lease.frontend.pool, attempt.cause)
        self._journal.send_ended(talk, attempt)


def _advance(rule: Forwarding, answer: Outcome | End | None) -> Effect | Reply:
    """Tell the rule how its last effect went; returns the next one, or how it all ended."""
    try:
        return rule.send(answer)
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply


def _own_headers(attempt: Attempt, status: int, talk: Talk) -> dict[str, str]:
    """Return the headers with which the router passes a pool's answer on."""
    sends = attempt.send.attempt
    return {
        headers.DELIVERY: Delivery.ANSWERED,
        headers.POOL: attempt.send.lease.frontend.pool,
        headers.ATTEMPTS: str(sends),
        **dict(talk.chain.headers_out(Delivery.ANSWERED, sends=sends, failed=status >= 400)),
    }
