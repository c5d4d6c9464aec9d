"""The router in the model: the decisions of `router.core`, driven by simpy.

Nothing is decided here. `forward()` says what to do next, this performs it against the modelled network and tells how
it ended, as the aiohttp router does against a real one.
"""

import contextlib
from collections.abc import Generator
from typing import Any, assert_never

import simpy

from router.core.bounds import Bounds, Limits, Phase, end_of
from router.core.chain import SHOULD_RETRY, ChainBudget
from router.core.delivery import BLAME, Cause, Delivery, Outcome
from router.core.effects import End, Relay, Request, Send, Waiting
from router.core.forwarding import Effect, Forwarding, Reply, forward
from router.core.policy import Policy
from router.core.refusal import STATUS, retry_after
from scenarios import record
from scenarios.world.answers import event, words
from simulator.connection import Close, Connection, Head
from simulator.frontend import Chat, Frontend
from simulator.journal import Journal
from simulator.network import Door
from simulator.timers import LATE, Timers
from simulator.waiters import Waiters

_SAMPLE_WORD = words("sample", 1)[0]
"""Token events of one model have all the same size, so any word shows it."""


class Router:
    """One router; `doors` and `frontends` are all that it can reach, by the frontends' names."""

    def __init__(
        self,
        env: simpy.Environment,
        timers: Timers,
        policy: Policy,
        doors: dict[str, Door],
        frontends: dict[str, Frontend],
        journal: Journal,
    ) -> None:
        self.env = env
        self.timers = timers
        self.policy = policy
        self.limits = Limits(policy.config)
        self.doors = doors
        self.frontends = frontends
        self.journal = journal
        self.waiters = Waiters(env, timers)

    def serve(self, client: Connection, chat: Chat) -> Generator[simpy.Event, Any, None]:
        """Handle one request. A simpy process, interrupted when its client leaves."""
        return _Handling(self, client, chat).run()


class _Handling:
    """One request on its way through the router."""

    def __init__(self, router: Router, client: Connection, chat: Chat) -> None:
        self._router = router
        self._env = router.env
        self._client = client
        self._chat = chat
        self._sending: _Sending | None = None
        self._pool: str | None = None
        self._chain = ChainBudget({})

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Forward the request and answer its client, unless it leaves."""
        policy = self._router.policy
        self._chain = chain = policy.chain_of(self._chat.headers)
        config, now = policy.config, self._env.now
        request = Request(
            self._chat.model,
            now + min(config.deadline_s, chain.within_s),
            last_byte_until_s=now + min(config.deadline_s, chain.whole_within_s),
            retries_left=chain.failovers_left,
            session=self._chat.headers.get(config.session_header),
            deadline_lowered=chain.hurries(config.deadline_s),
        )
        try:
            with contextlib.closing(forward(policy, request)) as rule:
                reply = yield from self._drive(rule)
        except simpy.Interrupt:
            if self._sending is not None:
                self._end_send(Cause.CLIENT_LEFT)
        else:
            self._answer(reply)

    def _drive(self, rule: Forwarding) -> Generator[simpy.Event, Any, Reply]:
        try:
            effect = next(rule)
            while True:
                effect = rule.send((yield from self._perform(effect)))
        except StopIteration as ended:
            reply: Reply = ended.value
            return reply

    def _perform(self, effect: Effect) -> Generator[simpy.Event, Any, Outcome | End | None]:
        match effect:
            case Send():
                return (yield from self._send(effect))
            case Relay():
                return (yield from self._relay())
            case Waiting():
                yield from self._router.waiters.wait(effect)
                return None
            case _:
                assert_never(effect)

    def _send(self, send: Send) -> Generator[simpy.Event, Any, Outcome]:
        """Hand the request to one frontend and wait for the head of its answer."""
        self._sending = sending = _Sending(send, self._env.now)
        self._pool, name = send.lease.frontend.pool, send.lease.frontend.name
        size = len(event(self._chat.model, _SAMPLE_WORD))
        connected = yield from self._router.doors[name].connect(send.connect_until_s, event_bytes=size)
        if isinstance(connected, Cause):
            return self._end_send(Cause.DEADLINE if self._env.now >= send.until_s else connected)
        sending.connection, sending.t_connected = connected, self._env.now
        send.lease.handed_over()
        frontend = self._router.frontends[name]
        connected.ask(lambda connection: frontend.serve(connection, self._chat))
        sending.bounds = Bounds.of_send(self._router.limits, send, self._env.now)
        until_s, late = sending.bounds.next(Phase.HEAD, self._env.now)
        piece = yield from connected.receive(until_s)
        if not isinstance(piece, Head):
            return self._end_send(late if piece is LATE else Cause.LOST)
        sending.status, sending.head = piece.status, piece
        outcome = sending.outcome(Cause.PROTOCOL)
        # A head that answers something else ends the send; one that answers it leaves that to the end of its stream.
        return outcome if outcome.delivery is Delivery.ANSWERED else self._end_send(Cause.PROTOCOL)

    def _relay(self) -> Generator[simpy.Event, Any, End]:
        """Pass the pool's answer on, piece by piece as it comes."""
        sending = self._sending
        assert sending is not None
        assert sending.connection is not None
        assert sending.status is not None
        assert sending.head is not None
        assert sending.bounds is not None
        head = Head(
            sending.status,
            code=sending.head.code,
            retry_after_s=sending.head.retry_after_s,
            delivery=str(Delivery.ANSWERED),
            pool=self._pool,
            sends=sending.send.attempt,
            should_retry=self._should_retry(
                Delivery.ANSWERED, sends=sending.send.attempt, failed=sending.status >= 400
            ),
        )
        self._client.say(head)
        while True:
            until_s, late = sending.bounds.next(Phase.BODY, self._env.now)
            piece = yield from sending.connection.receive(until_s)
            if not isinstance(piece, bytes):
                break
            self._client.say(piece)
        if piece is Close.WHOLE:
            self._client.close(Close.WHOLE)
            self._end_send(None)
            return End.COMPLETE
        self._client.close(Close.BROKEN)
        cause = late if piece is LATE else Cause.LOST
        self._end_send(cause)
        return end_of(cause)

    def _answer(self, reply: Reply) -> None:
        """Answer in the router's own words where no pool's answer was passed on."""
        if reply.code is None:
            return
        delivery = Delivery.UNSENT if reply.outcome is None else reply.outcome.delivery
        head = Head(
            STATUS[reply.code],
            code=str(reply.code),
            delivery=str(delivery),
            pool=self._pool,
            sends=reply.sends,
            retry_after_s=None if reply.retry_after_s is None else retry_after(reply.retry_after_s),
            should_retry=self._should_retry(delivery, sends=reply.sends, failed=True),
        )
        self._client.say(head)
        self._client.close(Close.WHOLE)

    def _should_retry(self, delivery: Delivery, *, sends: int, failed: bool) -> bool | None:
        """Return what the client is told of retries; None: nothing."""
        told = dict(self._chain.headers_out(delivery, sends=sends, failed=failed))
        return False if SHOULD_RETRY in told else None

    def _end_send(self, cause: Cause | None) -> Outcome:
        """Close the send's connection, write the send down, and return its outcome; `cause` None: all went well."""
        sending, self._sending = self._sending, None
        assert sending is not None
        if sending.connection is not None:
            sending.connection.leave()
        self._router.journal.sends.append(sending.row(self._chat.request_id, cause, self._env.now))
        return sending.outcome(cause)


class _Sending:
    """A send under way."""

    __slots__ = ("bounds", "connection", "head", "send", "status", "t_connected", "t_start")

    def __init__(self, send: Send, t_start: float) -> None:
        self.send = send
        self.bounds: Bounds | None = None
        self.t_start = t_start
        self.t_connected: float | None = None
        self.connection: Connection | None = None
        self.status: int | None = None
        self.head: Head | None = None

    def outcome(self, cause: Cause | None) -> Outcome:
        """Return how it ended; the slot and the status decide what the cause is worth."""
        return Outcome(slot_taken=self.send.lease.slot_taken, status=self.status, cause=cause)

    def row(self, request_id: str, cause: Cause | None, t_end: float) -> record.Send:
        """Return what the log says of it. After a status, `cause` says why the answer was not passed on whole."""
        lease = self.send.lease
        outcome = self.outcome(cause)
        return record.Send(
            request_id=request_id,
            attempt=self.send.attempt,
            pool=lease.frontend.pool,
            frontend=lease.frontend.name,
            t_start=self.t_start,
            t_connected=self.t_connected,
            t_end=t_end,
            slot_taken=lease.slot_taken,
            delivery=str(outcome.delivery),
            status=outcome.status,
            cause=None if cause is None else str(cause),
            blame=None if cause is None else str(BLAME[cause]),
        )
