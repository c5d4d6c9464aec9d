"""The router in the model: the decisions of `router.core`, driven by simpy.

Nothing is decided here. `forward()` says what to do next, this performs it against the modelled network and tells how
it ended, as the aiohttp router does against a real one.
"""

import contextlib
from collections.abc import Generator
from typing import Any, assert_never

import simpy

from router.core.delivery import Cause, Delivery, Outcome
from router.core.forwarding import Effect, End, Forwarding, Relay, Reply, Wait, forward
from router.core.policy import Policy, Request, Send
from router.core.refusal import STATUS
from scenarios import record
from scenarios.world.answers import event, words
from simulator.connection import Close, Connection, Head, Piece
from simulator.frontend import Chat, Frontend
from simulator.journal import Journal
from simulator.network import Door
from simulator.timers import LATE, Late, Timers
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
        self.doors = doors
        self.frontends = frontends
        self.journal = journal
        self.waiters = Waiters(env, timers, policy)

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

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Forward the request and answer its client, unless it leaves."""
        policy = self._router.policy
        request = Request(self._chat.model, self._env.now + policy.config.deadline_s)
        try:
            with contextlib.closing(forward(policy, request)) as rule:
                reply = yield from self._drive(rule)
        except simpy.Interrupt:
            if self._sending is not None:
                self._end_send(self._sending.left_alone())
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
            case Wait():
                yield from self._router.waiters.wait(effect.until_s)
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
            return self._end_send(Outcome(slot_taken=False, cause=connected))
        sending.connection, sending.t_connected = connected, self._env.now
        send.lease.handed_over()
        frontend = self._router.frontends[name]
        connected.ask(lambda connection: frontend.serve(connection, self._chat))
        outcome = sending.outcome((yield from connected.receive(send.until_s)))
        if outcome.delivery is Delivery.ANSWERED:
            return outcome  # the send ends with its stream
        return self._end_send(outcome)

    def _relay(self) -> Generator[simpy.Event, Any, End]:
        """Pass the pool's answer on, piece by piece as it comes."""
        sending = self._sending
        assert sending is not None
        assert sending.connection is not None
        assert sending.status is not None
        head = Head(sending.status, delivery=str(Delivery.ANSWERED), pool=self._pool, sends=sending.send.attempt)
        self._client.say(head)
        idle_s = self._router.policy.config.idle_timeout_s
        while isinstance(piece := (yield from sending.connection.receive(self._env.now + idle_s)), bytes):
            self._client.say(piece)
        self._client.close(Close.WHOLE if piece is Close.WHOLE else Close.BROKEN)
        self._end_send(sending.outcome(head))
        if piece is Close.WHOLE:
            return End.COMPLETE
        return End.IDLE if piece is LATE else End.BROKEN

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
            retry_after_s=reply.retry_after_s,
            should_retry=False if delivery is Delivery.UNKNOWN else None,
        )
        self._client.say(head)
        self._client.close(Close.WHOLE)

    def _end_send(self, outcome: Outcome) -> Outcome:
        """Close the send's connection and write the send down."""
        sending, self._sending = self._sending, None
        assert sending is not None
        if sending.connection is not None:
            sending.connection.leave()
        self._router.journal.sends.append(sending.row(self._chat.request_id, outcome, self._env.now))
        return outcome


class _Sending:
    """A send under way."""

    __slots__ = ("connection", "send", "status", "t_connected", "t_start")

    def __init__(self, send: Send, t_start: float) -> None:
        self.send = send
        self.t_start = t_start
        self.t_connected: float | None = None
        self.connection: Connection | None = None
        self.status: int | None = None

    def outcome(self, first: Piece | Late) -> Outcome:
        """Return what the first piece of an answer, or its absence, makes of the send."""
        taken = self.send.lease.slot_taken
        if isinstance(first, Head):
            self.status = first.status
            # The cause counts only where the rule says that this head is not the answer to our request.
            return Outcome(slot_taken=taken, status=first.status, cause=Cause.PROTOCOL)
        return Outcome(slot_taken=taken, cause=Cause.DEADLINE if first is LATE else Cause.LOST)

    def left_alone(self) -> Outcome:
        """Return how it ended when the client left."""
        return Outcome(slot_taken=self.send.lease.slot_taken, status=self.status, cause=Cause.CLIENT_LEFT)

    def row(self, request_id: str, outcome: Outcome, t_end: float) -> record.Send:
        """Return what the log says of it."""
        lease = self.send.lease
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
            cause=None if outcome.cause is None else str(outcome.cause),
            blame=None if outcome.cause is None else str(outcome.blame),
        )
