"""The programs that ask, in the model: a raw client without retries, and the OpenAI SDK with its own.

Open loop: every operation is a process of its own, begun at its intended time whatever became of the ones before.
"""

import hashlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import simpy

from router.core.chain import STAINLESS_READ_TIMEOUT, STAINLESS_RETRY_COUNT
from scenarios.plan import Planned
from scenarios.record import Operation, Request, RequestEnd
from scenarios.spec import Load
from scenarios.world.answers import DONE
from scenarios.world.arrivals import SESSION_HEADER, Ask
from scenarios.world.sdk_schedule import Result, SdkSchedule
from scenarios.world.streams import stream
from simulator.connection import Close, Connection, Head, Piece
from simulator.frontend import Chat
from simulator.journal import Journal
from simulator.timers import LATE, Late, Timers

Server = Callable[[Connection, Chat], Generator[simpy.Event, Any, None]]

_SDK_STATUS_ERRORS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
"""What openai raises for a status, besides InternalServerError from 500 on and APIStatusError for the rest."""


class Clients:
    """All clients of one run. `server` is what answers them, `seed` the run's."""

    def __init__(
        self,
        env: simpy.Environment,
        timers: Timers,
        journal: Journal,
        loads: tuple[Load, ...],
        server: Server,
        seed: int,
    ) -> None:
        self._env = env
        self._timers = timers
        self._journal = journal
        self._loads = loads
        self._server = server
        self._seed = seed

    def arrive(self, planned: Planned) -> None:
        """Begin one operation now."""
        self._env.process(self._operate(planned, self._loads[planned.load]))

    def _operate(self, planned: Planned, load: Load) -> Generator[simpy.Event, Any, None]:
        operation_id = planned.operation_id
        schedule = SdkSchedule.openai(retries_max=load.max_retries if load.client == "openai" else 0)
        # One stream for each operation: what one draws never shifts another's draws.
        draws = stream(self._seed, f"sdk/{operation_id}")
        taken = 0
        while True:
            request_id, headers = f"{operation_id}-r{taken}", _headers(load, planned.session, taken)
            chat = Chat(operation_id, request_id, load.model, load.stream, headers, planned.ask or Ask())
            exchange = _Exchange(self._env, chat)
            yield from exchange.run(Connection(self._env, self._timers), load, self._server)
            self._journal.requests.append(exchange.row(taken))
            sleep_s = schedule.sleep_before_retry_s(exchange.result, retries_taken=taken, draws=draws)
            if sleep_s is None:
                break
            taken += 1
            yield self._env.timeout(sleep_s)
        self._journal.operations.append(
            Operation(
                operation_id=operation_id,
                load=planned.load,
                t_intended=planned.t_s,
                t_end=self._env.now,
                ok=exchange.ok,
                requests=taken + 1,
                session=planned.session,
                error=_raised(exchange, load),
            )
        )


class _Exchange:
    """One HTTP request as its client sees it."""

    def __init__(self, env: simpy.Environment, chat: Chat) -> None:
        self._env = env
        self._chat = chat
        self._t_start = self._t_end = env.now
        self._t_headers: float | None = None
        self._t_first_token: float | None = None
        self._t_last_byte: float | None = None
        self._gap_max_s = 0.0
        self._bytes = 0
        self._events = 0
        self._end_mark = False
        self._sha256_down = hashlib.sha256()
        self.head: Head | None = None
        self.end: RequestEnd = "reset"

    def run(self, connection: Connection, load: Load, server: Server) -> Generator[simpy.Event, Any, None]:
        """Send the request and take its answer, to its end or to the client's own time-out."""
        connection.ask(lambda opened: server(opened, self._chat))
        bound_s = self._t_start + load.timeout_s
        while True:
            # The raw client bounds the whole request, the SDK every silence.
            until_s = bound_s if load.client == "raw" else self._env.now + load.timeout_s
            piece = yield from connection.receive(until_s)
            if isinstance(piece, Close | Late):
                break
            self._take(piece)
        connection.leave()
        self._t_end = self._env.now
        self.end = self._ended(piece)

    def _take(self, piece: Head | bytes) -> None:
        now = self._env.now
        if isinstance(piece, Head):
            self.head, self._t_headers = piece, now
            return
        if self._t_last_byte is not None:
            self._gap_max_s = max(self._gap_max_s, now - self._t_last_byte)
        self._t_last_byte = now
        self._bytes += len(piece)
        self._sha256_down.update(piece)
        if self._is_stream:
            self._end_mark = piece == DONE
            self._events += not self._end_mark
            self._t_first_token = now if self._t_first_token is None else self._t_first_token

    def _ended(self, last: Piece | Late) -> RequestEnd:
        if last is LATE:
            return "timeout"
        if last is Close.BROKEN:
            return "reset"
        return "eof_no_done" if self._is_stream and not self._end_mark else "done"

    @property
    def _is_stream(self) -> bool:
        return self._chat.stream and self.head is not None and self.head.code is None

    @property
    def ok(self) -> bool:
        """Whether a good answer came whole."""
        return self.end == "done" and self.head is not None and self.head.status < 400

    @property
    def result(self) -> Result:
        """What the SDK's schedule may act on."""
        head = self.head
        if head is None or (self.end != "done" and not self._is_stream):
            return Result()
        return Result(
            status=head.status,
            begun=self._is_stream,
            retry_after_s=head.retry_after_s,
            should_retry=head.should_retry,
        )

    def row(self, attempt: int) -> Request:
        """Return what was measured."""
        head = self.head or Head(0)
        return Request(
            operation_id=self._chat.operation_id,
            request_id=self._chat.request_id,
            attempt=attempt,
            t_start=self._t_start,
            t_headers=self._t_headers,
            t_first_token=self._t_first_token,
            t_last_byte=self._t_last_byte,
            t_end=self._t_end,
            end=self.end,
            status=head.status or None,
            code=head.code,
            stream=self._chat.stream,
            events=self._events,
            bytes=self._bytes,
            sha256_down=self._sha256_down.hexdigest() if self._bytes else None,
            gap_max_s=self._gap_max_s,
            delivery=head.delivery,
            pool=head.pool,
            sends=head.sends,
        )


def _headers(load: Load, session: str | None, retries_taken: int) -> Mapping[str, str]:
    """Return what a client tells of itself: its session; the SDK counts its retries and names its time-out too."""
    known = {} if session is None else {SESSION_HEADER: session}
    if load.client == "raw":
        return known
    return known | {STAINLESS_RETRY_COUNT: str(retries_taken), STAINLESS_READ_TIMEOUT: str(load.timeout_s)}


def _raised(exchange: _Exchange, load: Load) -> str:
    """Name what the client library raises at the end of an operation; empty: nothing."""
    raw = load.client == "raw"
    if exchange.end == "timeout":
        return "TimeoutError" if raw else "APITimeoutError"
    if exchange.end == "reset":
        return "ClientPayloadError" if raw else "APIConnectionError"
    status = 0 if exchange.head is None else exchange.head.status
    if raw or status < 400:
        return ""
    return _SDK_STATUS_ERRORS.get(status, "InternalServerError" if status >= 500 else "APIStatusError")
