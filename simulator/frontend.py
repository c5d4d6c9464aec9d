"""A fake frontend of a pool in the model, with the behaviour and the text of the real one."""

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import simpy

from scenarios.record import EventKind, PoolEvent
from scenarios.spec import Pool
from scenarios.world import answers
from simulator.connection import Close, Connection, Head
from simulator.journal import Journal


class Chat(NamedTuple):
    """A request for a chat completion, as its client makes it and every hop passes it on."""

    operation_id: str
    request_id: str
    model: str
    stream: bool
    headers: Mapping[str, str] = MappingProxyType({})
    """What its client tells of retries and time-outs."""


class Drops:
    """Bodies that were read and dropped while this was put into a frontend."""

    __slots__ = ("bodies",)

    def __init__(self) -> None:
        self.bodies = 0


class Frontend:
    """One frontend of a pool; it works on everything at once, each at the full speed of its service."""

    def __init__(self, env: simpy.Environment, journal: Journal, *, pool: Pool, name: str) -> None:
        self._env = env
        self._journal = journal
        self._pool = pool
        self._name = name
        self.drops: Drops | None = None

    def serve(self, connection: Connection, chat: Chat) -> Generator[simpy.Event, Any, None]:
        """Answer one request whose whole body has just arrived. A simpy process, interrupted when its client leaves."""
        self._event("head", chat)
        self._event("body_complete", chat)
        if self.drops is not None:
            self.drops.bodies += 1
            connection.close(Close.BROKEN)
            return
        self._event("started", chat)
        done = _Done()
        try:
            yield from (self._stream if chat.stream else self._plain)(connection, chat, done)
        except simpy.Interrupt:
            self._event("cancelled", chat, done.tokens)
            return
        self._event("finished", chat, done.tokens)

    def _stream(self, connection: Connection, chat: Chat, done: "_Done") -> Generator[simpy.Event, Any, None]:
        service = self._pool.service
        events = answers.stream_events(chat.request_id, self._pool.model, service)
        first_s = self._env.now + service.first_token_s
        for index in range(service.tokens):
            yield self._at(first_s + index * service.token_gap_s)
            if index == 0:
                connection.say(Head(200))
            connection.say(events[index])
            done.tokens = index + 1
        connection.say(*events[service.tokens :])
        connection.close(Close.WHOLE)

    def _plain(self, connection: Connection, chat: Chat, done: "_Done") -> Generator[simpy.Event, Any, None]:
        service = self._pool.service
        yield self._at(self._env.now + service.total_s)
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


class _Done:
    """How many tokens of an answer have been said."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens = 0
