"""A fake frontend of a pool in the model, with the behaviour and the text of the real one."""

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import simpy

from scenarios.record import EventKind, PoolEvent
from scenarios.spec import Pool
from scenarios.world import answers
from scenarios.world.arrivals import Ask
from scenarios.world.condition import Condition, healthy
from scenarios.world.station import Entry, Note, Refusal, Station
from simulator.connection import Close, Connection, Head
from simulator.desk import Desk
from simulator.journal import Journal
from simulator.timers import Timers


class Chat(NamedTuple):
    """A request for a chat completion, as its client makes it and every hop passes it on."""

    operation_id: str
    request_id: str
    model: str
    stream: bool
    headers: Mapping[str, str] = MappingProxyType({})
    """What its client tells of retries and time-outs."""
    ask: Ask = Ask()


class Drops:
    """Bodies that were read and dropped while this was put into a frontend."""

    __slots__ = ("bodies",)

    def __init__(self) -> None:
        self.bodies = 0


class Weakness:
    """A fault of the pool itself, and how many requests came to a frontend meanwhile."""

    __slots__ = ("condition", "requests")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.requests = 0


class Frontend:
    """One frontend of a pool. Without slots it works on everything at once; else its desk does. `seed` is the run's."""

    def __init__(
        self, env: simpy.Environment, timers: Timers, journal: Journal, pool: Pool, *, name: str, seed: int
    ) -> None:
        self._env = env
        self._journal = journal
        self._pool = pool
        self._name = name
        self._station = Station(pool, seed=seed)
        self._desk = None if self._station.is_open else Desk(env, timers, self._station, self._note)
        self.drops: Drops | None = None
        self._weakness: Weakness | None = None

    @property
    def weakness(self) -> Weakness | None:
        """The pool's own fault that is on; None: none is."""
        return self._weakness

    @weakness.setter
    def weakness(self, weakness: Weakness | None) -> None:
        self._weakness = weakness
        condition = healthy(self._pool) if weakness is None else weakness.condition
        if self._desk is None:
            self._station.set_condition(condition, self._env.now)
        else:
            self._desk.set_condition(condition)

    def serve(self, connection: Connection, chat: Chat) -> Generator[simpy.Event, Any, None]:
        """Answer one request whose whole body has just arrived. A simpy process, interrupted when its client leaves."""
        self._event("head", chat)
        self._event("body_complete", chat)
        if self.drops is not None:
            self.drops.bodies += 1
            connection.close(Close.BROKEN)
            return
        if self._weakness is not None:
            self._weakness.requests += 1
        entry = self._station.entry(chat.request_id, chat.operation_id, chat.ask)
        if (refusal := self._station.refusal(entry)) is not None:
            self._event("rejected", chat)
            _refuse(connection, refusal)
        elif self._desk is None:
            yield from self._work(connection, chat, entry)
        elif self._desk.arrive(entry):
            yield from self._take_turn(connection, chat, entry, self._desk)
        else:
            _refuse(connection, self._station.queue_full())

    def _work(self, connection: Connection, chat: Chat, entry: Entry) -> Generator[simpy.Event, Any, None]:
        """Do the work at once."""
        self._event("started", chat)
        done = _Done()
        first_s = self._env.now + entry.prefill_s
        last_s = self._env.now + entry.work_s

        def out(index: int) -> Generator[simpy.Event, Any, None]:
            yield self._at(first_s + index * entry.gap_s if chat.stream else last_s)

        try:
            yield from self._answer(connection, chat, out, done)
        except simpy.Interrupt:
            self._event("cancelled", chat, done.tokens)
            return
        self._event("finished", chat, done.tokens)

    def _take_turn(
        self, connection: Connection, chat: Chat, entry: Entry, desk: Desk
    ) -> Generator[simpy.Event, Any, None]:
        """Answer as the server gets on with it; the desk writes down how it went."""
        try:
            yield from self._answer(connection, chat, lambda index: desk.out(entry, index), _Done())
        except simpy.Interrupt:
            desk.leave(entry)

    def _answer(
        self, connection: Connection, chat: Chat, out: "_Out", done: "_Done"
    ) -> Generator[simpy.Event, Any, None]:
        return (self._stream if chat.stream else self._plain)(connection, chat, out, done)

    def _stream(
        self, connection: Connection, chat: Chat, out: "_Out", done: "_Done"
    ) -> Generator[simpy.Event, Any, None]:
        service = self._pool.service
        events = answers.stream_events(chat.request_id, self._pool.model, service)
        for index in range(service.tokens):
            yield from out(index)
            if index == 0:
                connection.say(Head(200))
            connection.say(events[index])
            done.tokens = index + 1
        connection.say(*events[service.tokens :])
        connection.close(Close.WHOLE)

    def _plain(
        self, connection: Connection, chat: Chat, out: "_Out", done: "_Done"
    ) -> Generator[simpy.Event, Any, None]:
        service = self._pool.service
        yield from out(service.tokens - 1)
        connection.say(Head(200), answers.plain_answer(chat.request_id, self._pool.model, service))
        done.tokens = service.tokens
        connection.close(Close.WHOLE)

    def _at(self, at_s: float) -> simpy.Event:
        return self._env.timeout(max(0.0, at_s - self._env.now))

    def _event(self, kind: EventKind, chat: Chat, tokens: int | None = None) -> None:
        """Write down what was seen; the operation's id is in the body, so a head does not tell it."""
        self._journal.pool_events.append(
            PoolEvent(
                pool=self._pool.id,
                frontend=self._name,
                kind=kind,
                t=self._env.now,
                operation_id=None if kind == "head" else chat.operation_id,
                request_id=chat.request_id,
                tokens=tokens,
            )
        )

    def _note(self, note: Note) -> None:
        """Write down what happened at the desk."""
        self._journal.pool_events.append(
            PoolEvent(
                pool=self._pool.id,
                frontend=self._name,
                kind=note.kind,
                t=note.t_s,
                operation_id=note.entry.operation_id,
                request_id=note.entry.request_id,
                tokens=note.tokens,
            )
        )


class _Done:
    """How many tokens of an answer have been said."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens = 0


_Out = Callable[[int], Generator[simpy.Event, Any, None]]
"""Waits until the token of this index, from 0, is out."""


def _refuse(connection: Connection, refusal: Refusal) -> None:
    body = answers.error_body(refusal.code, refusal.message)
    connection.say(Head(refusal.status, code=refusal.code, retry_after_s=refusal.retry_after_s), body)
    connection.close(Close.WHOLE)
