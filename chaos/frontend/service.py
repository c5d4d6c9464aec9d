"""What a fake frontend does with a request: the behaviour of an OpenAI-compatible pool, timed by the scenario.

A streamed answer: the head goes out together with the first token, then one event a token, the finish reason and the
end mark right after the last one. A plain answer comes whole, when the last token would. Times count from the moment
the body was complete, each from there, so a late token does not delay the next.
"""

import asyncio
import hashlib
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Literal

import msgspec

from chaos.frontend.connection import Call
from chaos.frontend.log import EventLog
from chaos.frontend.wire import stream_headers
from scenarios.record import EventKind, PoolEvent
from scenarios.spec import Service
from scenarios.world import answers

CHAT = "/v1/chat/completions"
Mode = Literal["ok", "read_drop"]


class Chat(msgspec.Struct):
    """What a frontend must know of a chat completion's body; other keys are nobody's business here."""

    model: str
    messages: list[dict[str, Any]]
    stream: bool = False
    operation_id: str | None = None


class FrontendService:
    """One frontend of a pool. `clock` is the loop's monotonic time in seconds."""

    def __init__(
        self, *, pool: str, name: str, model: str, service: Service, log: EventLog, clock: Callable[[], float]
    ) -> None:
        self.mode: Mode = "ok"
        self.in_flight = 0
        self._pool = pool
        self._name = name
        self._model = model
        self._service = service
        self._log = log
        self._clock = clock

    def opened(self, call: Call) -> None:
        """Log that a completion's head has arrived."""
        if (call.method, call.path) == ("POST", CHAT):
            self._event("head", call)

    async def answer(self, call: Call) -> None:
        """Answer one call."""
        if (call.method, call.path) == ("POST", CHAT):
            await self._complete(call)
        elif call.method == "GET" and call.path == "/v1/models":
            model = {"id": self._model, "object": "model", "created": 0, "owned_by": "pooldrill"}
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
        elif chat.model != self._model:
            self._event("rejected", call, operation_id)
            await call.error(404, "model_not_found", f"the model {chat.model!r} does not exist")
        else:
            await self._work(call, chat, complete_s)

    async def _work(self, call: Call, chat: Chat, start_s: float) -> None:
        """Do the work of one completion, and log how it ended."""
        self._event("started", call, chat.operation_id, t=start_s)
        self.in_flight += 1
        sent = _Sent()
        try:
            await (self._stream(call, start_s, sent) if chat.stream else self._plain(call, start_s, sent))
        except asyncio.CancelledError:
            self._event("cancelled", call, chat.operation_id, tokens=sent.tokens)
            raise
        finally:
            self.in_flight -= 1
        self._event("finished", call, chat.operation_id, tokens=sent.tokens)

    async def _stream(self, call: Call, start_s: float, sent: "_Sent") -> None:
        count, gap_s = self._service.tokens, self._service.token_gap_s
        events = answers.stream_events(call.request_id or "", self._model, self._service)
        first_s = start_s + self._service.first_token_s
        for index in range(count):
            await self._until(first_s + index * gap_s)
            if index == 0:
                head = stream_headers(call.request_id, date=formatdate(usegmt=True), close=call.close)
                await call.head(200, head, *([] if count == 1 else events[:1]))
            elif index < count - 1:
                await call.pieces(events[index])
            sent.tokens = index + 1
        await call.pieces(*events[count - 1 :], last=True)

    async def _plain(self, call: Call, start_s: float, sent: "_Sent") -> None:
        answer = answers.plain_answer(call.request_id or "", self._model, self._service)
        await self._until(start_s + self._service.total_s)
        await call.whole(200, answer)
        sent.tokens = self._service.tokens

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
                pool=self._pool,
                frontend=self._name,
                kind=kind,
                t=self._clock() if t is None else t,
                operation_id=operation_id,
                request_id=call.request_id,
                sha256=sha256,
                tokens=tokens,
            )
        )


class _Sent:
    """How many tokens of an answer have been written."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens = 0


def _read(body: bytes) -> tuple[Chat | None, str]:
    """Read a completion's body, or say what is wrong with it."""
    try:
        return msgspec.json.decode(body, type=Chat), ""
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return None, str(error)
