"""What a fake frontend does with a request: the behaviour of an OpenAI-compatible pool, timed by the scenario.

A streamed answer: the head goes out together with the first token, then one event a token, the finish reason and the
end mark right after the last one. A plain answer comes whole, when the last token would. In a pool without slots times
count from the moment the body was complete, each from there, so a late token does not delay the next. In one with slots
they are the server's (scenarios/world/pool_server.py), which takes requests in and works them off (desk.py).
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Literal

import msgspec

from chaos.frontend.connection import Call
from chaos.frontend.desk import Desk
from chaos.frontend.log import EventLog
from chaos.frontend.wire import stream_headers
from scenarios.record import EventKind, PoolEvent
from scenarios.spec import Pool
from scenarios.world import answers
from scenarios.world.arrivals import Ask
from scenarios.world.condition import Condition
from scenarios.world.station import Entry, Note, Refusal, Station

CHAT = "/v1/chat/completions"
Mode = Literal["ok", "read_drop"]


class Chat(msgspec.Struct):
    """What a frontend must know of a chat completion's body; other keys are nobody's business here."""

    model: str
    messages: list[dict[str, Any]]
    stream: bool = False
    operation_id: str | None = None
    session: str | None = None
    prompt_tokens: int = 1
    output_tokens: int = 1

    @property
    def ask(self) -> Ask:
        """What it asks of the pool."""
        return Ask(self.session, self.prompt_tokens, self.output_tokens)


class FrontendService:
    """One frontend of a pool. `seed` is the run's, `clock` the loop's monotonic time in seconds."""

    def __init__(self, pool: Pool, *, name: str, seed: int, log: EventLog, clock: Callable[[], float]) -> None:
        self.mode: Mode = "ok"
        self._pool = pool
        self._name = name
        self._log = log
        self._clock = clock
        self._working = 0
        self._station = Station(pool, seed=seed)
        self._desk = None if self._station.is_open else Desk(self._station, self._note)

    @property
    def in_flight(self) -> int:
        """Completions that wait or are worked on."""
        return self._working if self._desk is None else self._desk.in_flight

    @property
    def condition(self) -> Condition:
        """What it can do just now."""
        return self._station.condition

    def set_condition(self, condition: Condition) -> None:
        """Let a fault of the pool come or go."""
        if self._desk is None:
            self._station.set_condition(condition, self._clock())
        else:
            self._desk.set_condition(condition)

    def close(self) -> None:
        """Work no more, nor note anything."""
        if self._desk is not None:
            self._desk.close()

    def opened(self, call: Call) -> None:
        """Log that a completion's head has arrived."""
        if (call.method, call.path) == ("POST", CHAT):
            self._event("head", call)

    async def answer(self, call: Call) -> None:
        """Answer one call."""
        if (call.method, call.path) == ("POST", CHAT):
            await self._complete(call)
        elif call.method == "GET" and call.path == "/v1/models":
            model = {"id": self._pool.model, "object": "model", "created": 0, "owned_by": "pooldrill"}
            await call.whole(200, msgspec.json.encode({"object": "list", "data": [model]}))
        elif call.method == "GET" and call.path in {"/health", "/live"}:
            await call.whole(200, b'{"status": "ok"}')
        elif call.path in {CHAT, "/v1/models", "/health", "/live"}:
            await call.error(405, "method_not_allowed", f"{call.method} is not allowed here")
        else:
            await call.error(404, "not_found", f"no {call.path} here")

    async def _complete(self, call: Call) -> None:
        complete_s = self._clock()
        body = bytes(call.body)
        chat, wrong = _read(body)
        operation_id = chat.operation_id if chat is not None else None
        digest = hashlib.sha256(body).hexdigest()
        self._event("body_complete", call, operation_id, t=complete_s, sha256=digest)
        if self.mode == "read_drop":
            call.drop()
        elif chat is None:
            self._event("rejected", call, operation_id)
            await call.error(400, "bad_request", wrong)
        elif chat.model != self._pool.model:
            self._event("rejected", call, operation_id)
            await call.error(404, "model_not_found", f"the model {chat.model!r} does not exist")
        else:
            entry = self._station.entry(call.request_id or "", operation_id, chat.ask)
            await self._serve(call, chat, entry, complete_s)

    async def _serve(self, call: Call, chat: Chat, entry: Entry, complete_s: float) -> None:
        """Answer a completion that can be answered, unless the pool has no room for it or fails it."""
        if (refusal := self._station.refusal(entry)) is not None:
            self._event("rejected", call, entry.operation_id)
            await _refuse(call, refusal)
        elif self._desk is None:
            await self._work(call, chat, entry, complete_s)
        elif self._desk.arrive(entry, complete_s):
            await self._take_turn(call, chat, entry, self._desk)
        else:
            await _refuse(call, self._station.queue_full())

    async def _work(self, call: Call, chat: Chat, entry: Entry, start_s: float) -> None:
        """Do the work of one completion at once, and log how it ended."""
        self._event("started", call, chat.operation_id, t=start_s)
        self._working += 1
        sent = _Sent()

        async def out(index: int) -> None:
            at_s = start_s + entry.prefill_s + index * entry.gap_s if chat.stream else start_s + entry.work_s
            await self._until(at_s)

        try:
            await self._answer(call, chat, out, sent)
        except asyncio.CancelledError:
            self._event("cancelled", call, chat.operation_id, tokens=sent.tokens)
            raise
        finally:
            self._working -= 1
        self._event("finished", call, chat.operation_id, tokens=sent.tokens)

    async def _take_turn(self, call: Call, chat: Chat, entry: Entry, desk: Desk) -> None:
        """Answer one completion as the server gets on with it; the desk logs how it went."""
        try:
            await self._answer(call, chat, lambda index: desk.out(entry, index), _Sent())
        finally:
            desk.leave(entry)

    async def _answer(self, call: Call, chat: Chat, out: "_Out", sent: "_Sent") -> None:
        await (self._stream(call, out, sent) if chat.stream else self._plain(call, out, sent))

    async def _stream(self, call: Call, out: "_Out", sent: "_Sent") -> None:
        service = self._pool.service
        count = service.tokens
        events = answers.stream_events(call.request_id or "", self._pool.model, service)
        for index in range(count):
            await out(index)
            if index == 0:
                head = stream_headers(call.request_id, date=formatdate(usegmt=True), close=call.close)
                await call.head(200, head, *([] if count == 1 else events[:1]))
            elif index < count - 1:
                await call.pieces(events[index])
            sent.tokens = index + 1
        await call.pieces(*events[count - 1 :], last=True)

    async def _plain(self, call: Call, out: "_Out", sent: "_Sent") -> None:
        service = self._pool.service
        answer = answers.plain_answer(call.request_id or "", self._pool.model, service)
        await out(service.tokens - 1)
        await call.whole(200, answer)
        sent.tokens = service.tokens

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._clock()))

    def _event(
        self,
        kind: EventKind,
        call: Call,
        operation_id: str | None = None,
        *,
        t: float | None = None,
        sha256: str | None = None,
        tokens: int | None = None,
    ) -> None:
        self._log.write(
            PoolEvent(
                pool=self._pool.id,
                frontend=self._name,
                kind=kind,
                t=self._clock() if t is None else t,
                operation_id=operation_id,
                request_id=call.request_id,
                sha256=sha256,
                tokens=tokens,
            )
        )

    def _note(self, note: Note) -> None:
        """Log what happened at the desk."""
        self._log.write(
            PoolEvent(
                pool=self._pool.id,
                frontend=self._name,
                kind=note.kind,
                t=note.t_s,
                operation_id=note.entry.operation_id,
                request_id=note.entry.request_id or None,
                tokens=note.tokens,
            )
        )


class _Sent:
    """How many tokens of an answer have been written."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens = 0


_Out = Callable[[int], Awaitable[None]]
"""Waits until the token of this index, from 0, is out."""


async def _refuse(call: Call, refusal: Refusal) -> None:
    retry_after = [] if refusal.retry_after_s is None else [("retry-after", f"{refusal.retry_after_s:g}")]
    await call.error(refusal.status, refusal.code, refusal.message, retry_after)


def _read(body: bytes) -> tuple[Chat | None, str]:
    """Read a completion's body, or say what is wrong with it."""
    try:
        return msgspec.json.decode(body, type=Chat), ""
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return None, str(error)
