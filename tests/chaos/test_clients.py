"""What clients write down of an answer, whatever becomes of it: the same for raw aiohttp and for the real SDK."""

import asyncio
import contextlib
import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

import pytest

from chaos.clients.exchange import EventCount
from chaos.clients.ledger import Ledger
from chaos.clients.raw import RawClient
from chaos.clients.sdk import SdkClient
from chaos.ports import LOOPBACK, PortReservations
from scenarios.plan import Planned
from scenarios.record import Operation, Request
from scenarios.spec import Load, Service
from scenarios.world import answers
from scenarios.world.arrivals import Ask
from tests.chaos.live_frontend import MODEL, LiveFrontend, eventually

ClientName = Literal["raw", "openai"]
CLIENTS: tuple[ClientName, ...] = ("raw", "openai")
Answer = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]
"""Answers one request on a connection; the bytes are the request's head."""

TOKENS = answers.stream_events("any", MODEL, Service(tokens=3))
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + (b"0\r\n\r\n" if end else b"")


def whole(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Scripted:
    """A server that answers the first request by the first answer, and so on; the last one stays."""

    def __init__(self, port: int, script: list[bytes | Answer], *, close: bool) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self._port = port
        self._script = script
        self._close = close
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Scripted"]:
        async with await asyncio.start_server(self._serve, LOOPBACK, self._port) as server:
            yield self
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        try:
            await self._converse(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(length))
                answer = self._script[min(len(self.heads), len(self._script)) - 1]
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(writer, head)
                await writer.drain()
                if self._close:
                    writer.close()
                    await writer.wait_closed()
                    break


def load(client: ClientName, *, stream: bool = False, timeout_s: float = 5.0, max_retries: int = 0) -> Load:
    return Load(
        rate_rps=1, start_s=0, end_s=1, client=client, stream=stream, timeout_s=timeout_s, max_retries=max_retries
    )


async def operate(asked: Load, url: str, *, times: int = 1, ask: Ask | None = None) -> Ledger:
    """Make operations one after the other."""
    ledger = Ledger()
    make = RawClient if asked.client == "raw" else SdkClient
    async with make(asked, url, ledger) as client:
        for turn in range(times):
            await client.operate(Planned(0, turn, 0.0, ask), asyncio.get_running_loop().time())
    return ledger


async def one(asked: Load, url: str) -> tuple[Operation, Request]:
    ledger = await operate(asked, url)
    assert (len(ledger.operations), len(ledger.requests)) == (1, 1)
    return ledger.operations[0], ledger.requests[0]


async def scripted(
    ports: PortReservations, asked: Load, *script: bytes | Answer, close: bool = True
) -> tuple[Scripted, Ledger]:
    async with Scripted(ports.take(), list(script), close=close).running() as server:
        return server, await operate(asked, server.url)


@pytest.mark.parametrize("client", CLIENTS)
class TestGoodAnswers:
    async def test_plain(self, frontend: LiveFrontend, service: Service, client: ClientName) -> None:
        operation, request = await one(load(client), frontend.url)
        answer = answers.plain_answer("op-0-0-r0", MODEL, service)
        assert (operation.operation_id, operation.ok, operation.error) == ("op-0-0", True, "")
        assert (request.request_id, request.attempt, request.answer, request.stream) == ("op-0-0-r0", 0, "200", False)
        assert request.bytes == len(answer)
        assert request.sha256_down == hashlib.sha256(answer).hexdigest()
        assert (request.events, request.t_first_token) == (0, None)

    async def test_the_pool_gets_what_was_sent_with_both_ids(self, frontend: LiveFrontend, client: ClientName) -> None:
        _, request = await one(load(client), frontend.url)
        body = next(event for event in frontend.events() if event.kind == "body_complete")
        assert body.sha256 == request.sha256_up
        assert (body.operation_id, body.request_id) == ("op-0-0", "op-0-0-r0")

    async def test_stream(self, frontend: LiveFrontend, service: Service, client: ClientName) -> None:
        operation, request = await one(load(client, stream=True), frontend.url)
        expected = b"".join(answers.stream_events("op-0-0-r0", MODEL, service))
        assert operation.ok
        assert request.answer == "200"
        assert request.stream
        assert request.events == service.tokens + 1, "every token, and the finish reason"
        assert request.bytes == len(expected)
        assert request.sha256_down == hashlib.sha256(expected).hexdigest()

    async def test_times_are_in_order(self, frontend: LiveFrontend, service: Service, client: ClientName) -> None:
        operation, request = await one(load(client, stream=True), frontend.url)
        assert request.t_headers is not None
        assert request.t_first_token is not None
        assert request.t_last_byte is not None
        assert operation.t_intended <= request.t_start < request.t_headers <= request.t_first_token
        assert request.t_first_token < request.t_last_byte <= request.t_end <= operation.t_end
        assert request.t_first_token - request.t_start >= service.first_token_s
        assert request.t_last_byte - request.t_start >= service.total_s
        assert service.token_gap_s * 0.5 < request.gap_max_s <= request.t_last_byte - request.t_first_token

    async def test_a_probe_is_not_written_down(self, frontend: LiveFrontend, client: ClientName) -> None:
        ledger = Ledger()
        make = RawClient if client == "raw" else SdkClient
        async with make(load(client), "http://127.0.0.1:1", ledger) as made:
            assert await made.probe("probe-0", frontend.url) == "200"
        assert (ledger.operations, ledger.requests) == ([], [])


@pytest.mark.parametrize("client", CLIENTS)
class TestBadEnds:
    async def test_nobody_listens(self, ports: PortReservations, client: ClientName) -> None:
        operation, request = await one(load(client), f"http://{LOOPBACK}:{ports.take()}")
        assert not operation.ok
        assert operation.error == {"raw": "ClientConnectorError", "openai": "APIConnectionError"}[client]
        assert (request.answer, request.status, request.t_headers) == ("refused", None, None)

    async def test_closed_before_an_answer(self, ports: PortReservations, client: ClientName) -> None:
        _, ledger = await scripted(ports, load(client), b"")
        assert (ledger.requests[0].answer, ledger.requests[0].status) == ("reset", None)
        assert not ledger.operations[0].ok

    async def test_an_answer_that_never_comes(self, ports: PortReservations, client: ClientName) -> None:
        async def silence(_writer: asyncio.StreamWriter, _head: bytes) -> None:
            await asyncio.sleep(0.5)

        _, ledger = await scripted(ports, load(client, timeout_s=0.1), silence)
        assert ledger.requests[0].answer == "timeout"
        assert ledger.operations[0].error == {"raw": "TimeoutError", "openai": "APITimeoutError"}[client]

    async def test_a_stream_that_breaks_gives_every_byte_first(
        self, ports: PortReservations, client: ClientName
    ) -> None:
        cut = SSE_HEAD + chunked(*TOKENS[:2], end=False)
        _, ledger = await scripted(ports, load(client, stream=True), cut)
        request, operation = ledger.requests[0], ledger.operations[0]
        assert (request.answer, request.status, request.events) == ("break", 200, 2)
        assert request.bytes == sum(map(len, TOKENS[:2]))
        assert not operation.ok
        assert operation.error == {"raw": "ClientPayloadError", "openai": "APIConnectionError"}[client]

    async def test_half_an_event_does_not_count(self, ports: PortReservations, client: ClientName) -> None:
        cut = SSE_HEAD + chunked(TOKENS[0], TOKENS[1][:-1], end=False)
        _, ledger = await scripted(ports, load(client, stream=True), cut)
        assert (ledger.requests[0].answer, ledger.requests[0].events) == ("break", 1)

    async def test_a_stream_without_its_end_mark_is_no_good_answer(
        self, ports: PortReservations, client: ClientName
    ) -> None:
        _, ledger = await scripted(ports, load(client, stream=True), SSE_HEAD + chunked(*TOKENS[:2]))
        assert ledger.requests[0].answer == "eof_no_done"
        assert not ledger.operations[0].ok

    async def test_an_error_within_a_stream(self, ports: PortReservations, client: ClientName) -> None:
        frame = b"data: " + answers.error_body("gone", "lost it") + b"\n\n"
        _, ledger = await scripted(ports, load(client, stream=True), SSE_HEAD + chunked(TOKENS[0], frame, answers.DONE))
        assert ledger.requests[0].answer == "error_frame"
        assert not ledger.operations[0].ok

    async def test_a_plain_answer_cut_short(self, ports: PortReservations, client: ClientName) -> None:
        _, ledger = await scripted(ports, load(client), whole(200, b'{"x": 1}')[:-3])
        assert ledger.requests[0].answer == "break"
        assert not ledger.operations[0].ok

    async def test_a_refusal_is_told_with_its_code_and_the_routers_headers(
        self, ports: PortReservations, client: ClientName
    ) -> None:
        ours = ["x-pooldrill-delivery: unknown", "x-pooldrill-pool: a", "x-pooldrill-attempts: 1"]
        _, ledger = await scripted(ports, load(client), whole(503, answers.error_body("maybe_running", "lost"), *ours))
        request = ledger.requests[0]
        assert request.answer == "503 maybe_running"
        assert (request.delivery, request.pool, request.sends) == ("unknown", "a", 1)
        assert not ledger.operations[0].ok
        assert ledger.operations[0].error == {"raw": "", "openai": "InternalServerError"}[client]

    @pytest.mark.parametrize("body", [b"no JSON", b"{}", b'{"error": "text"}', b'{"error": {"code": 5}}', b""])
    async def test_a_refusal_without_a_code(self, ports: PortReservations, client: ClientName, body: bytes) -> None:
        _, ledger = await scripted(ports, load(client), whole(500, body))
        assert ledger.requests[0].answer == "500"


class TestEveryByteBeforeABreak:
    """aiohttp drops what it holds when a connection breaks, unless its reader is waiting."""

    @pytest.mark.parametrize("client", CLIENTS)
    async def test_however_late_the_loop_is(self, ports: PortReservations, client: ClientName) -> None:
        cut = SSE_HEAD + chunked(*TOKENS[:2], end=False)

        async def late(writer: asyncio.StreamWriter, _head: bytes) -> None:
            writer.write(cut)
            writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            # The client's loop is this one: while it stands still, bytes and FIN pile up in the kernel.
            time.sleep(0.003)  # noqa: ASYNC251 - that is the point

        async with Scripted(ports.take(), [late], close=True).running() as server:
            ledger = await operate(load(client, stream=True), server.url, times=50)
        assert {(request.answer, request.events) for request in ledger.requests} == {("break", 2)}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("session", ["s0-3", None])
async def test_the_router_is_told_the_session(ports: PortReservations, client: ClientName, session: str | None) -> None:
    good = whole(200, answers.plain_answer("x", MODEL, Service(tokens=1)))
    async with Scripted(ports.take(), [good], close=True).running() as server:
        await operate(load(client), server.url, ask=Ask(session))
    told = [line for line in server.heads[0].lower().split(b"\r\n") if line.startswith(b"x-session-id")]
    assert told == ([] if session is None else [b"x-session-id: s0-3"])
    assert json.loads(server.bodies[0]).get("session") == session


class TestSdkRetries:
    async def test_each_request_has_an_id_and_a_row_of_its_own(self, ports: PortReservations) -> None:
        busy = whole(503, answers.error_body("no_pool", "wait"), "retry-after-ms: 10")
        good = whole(200, answers.plain_answer("x", MODEL, Service(tokens=1)))
        server, ledger = await scripted(ports, load("openai", max_retries=2), busy, busy, good)
        assert [request.request_id for request in ledger.requests] == ["op-0-0-r0", "op-0-0-r1", "op-0-0-r2"]
        assert [request.attempt for request in ledger.requests] == [0, 1, 2]
        assert [request.answer for request in ledger.requests] == ["503 no_pool", "503 no_pool", "200"]
        assert (ledger.operations[0].requests, ledger.operations[0].ok, ledger.operations[0].error) == (3, True, "")
        sent = [line for head in server.heads for line in head.lower().split(b"\r\n") if b"x-request-id" in line]
        assert sent == [b"x-request-id: op-0-0-r%d" % k for k in range(3)]
        assert len(set(server.bodies)) == 1, "the SDK's retries are byte-identical"
        assert json.loads(server.bodies[0])["operation_id"] == "op-0-0"

    @pytest.mark.parametrize("stream", [False, True])
    async def test_the_code_of_a_retried_refusal_is_known(self, ports: PortReservations, stream: bool) -> None:
        busy = whole(503, answers.error_body("no_pool", "wait"), "retry-after-ms: 10")
        _, ledger = await scripted(ports, load("openai", max_retries=1, stream=stream), busy, close=False)
        assert [request.answer for request in ledger.requests] == ["503 no_pool", "503 no_pool"]
        assert (ledger.operations[0].ok, ledger.operations[0].error) == (False, "InternalServerError")

    async def test_it_obeys_x_should_retry(self, ports: PortReservations) -> None:
        lost = whole(503, answers.error_body("maybe_running", "lost"), "x-should-retry: false")
        server, ledger = await scripted(ports, load("openai", max_retries=2), lost)
        assert len(server.heads) == len(ledger.requests) == 1

    async def test_a_lost_connection_is_tried_again(self, ports: PortReservations) -> None:
        good = whole(200, answers.plain_answer("x", MODEL, Service(tokens=1)))
        _, ledger = await scripted(ports, load("openai", max_retries=1), b"", good)
        assert [request.answer for request in ledger.requests] == ["reset", "200"]

    async def test_a_refusals_body_may_break_too(self, ports: PortReservations) -> None:
        broken = whole(503, answers.error_body("no_pool", "wait"), "x-should-retry: false")[:-2]
        _, ledger = await scripted(ports, load("openai", stream=True), broken)
        assert ledger.requests[0].answer == "break"
        assert not ledger.operations[0].ok

    async def test_an_answer_that_trickles_is_bounded(
        self, ports: PortReservations, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("chaos.clients.sdk.SLEEP_MAX_S", 0.0)

        async def trickle(writer: asyncio.StreamWriter, _head: bytes) -> None:
            writer.write(SSE_HEAD)
            while not writer.transport.is_closing():
                writer.write(chunked(b": still here\n\n", end=False))
                await asyncio.sleep(0.02)

        _, ledger = await scripted(ports, load("openai", stream=True, timeout_s=0.2), trickle)
        assert ledger.operations[0].error == "TimeoutError"
        assert ledger.requests[0].end == "client_left"

    async def test_a_proxy_in_the_environment_is_passed_over(
        self, frontend: LiveFrontend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        for client in CLIENTS:
            operation, _ = await one(load(client), frontend.url)
            assert operation.ok


class TestEventCount:
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    @pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
    def test_however_the_bytes_are_cut(self, size: int, line_end: bytes) -> None:
        stream = b"".join([b": comment\n\n", *TOKENS]).replace(b"\n", line_end)
        count = EventCount()
        for start in range(0, len(stream), size):
            count.feed(stream[start : start + size])
        assert (count.seen, count.end_mark, count.error) == (4, True, False)

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b'{"error": {"message": "x"}}', True),
            (b'{"error": null}', False),
            (b'{"choices": [{"delta": {"content": "\\"error\\""}}]}', False),
            (b'"error"', False),
            (b'{"error"', False),
        ],
    )
    def test_errors(self, data: bytes, error: bool) -> None:
        count = EventCount()
        count.feed(b"data: " + data + b"\n\n")
        assert (count.seen, count.error) == (1, error)


async def test_a_client_that_is_stopped_ends_at_once(ports: PortReservations) -> None:
    async def silence(_writer: asyncio.StreamWriter, _head: bytes) -> None:
        await asyncio.sleep(5)

    ledger = Ledger()
    async with (
        Scripted(ports.take(), [silence], close=True).running() as server,
        RawClient(load("raw"), server.url, ledger) as client,
    ):
        task = asyncio.create_task(client.operate(Planned(0, 0, 0.0), 0.0))
        await eventually(lambda: bool(server.bodies))
        task.cancel()
        await asyncio.wait([task], timeout=1)
        assert task.cancelled()
    assert ledger.requests == []
