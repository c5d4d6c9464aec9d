"""A fake frontend answers like a pool, to the byte, and logs what it saw."""

import asyncio
import contextlib
import hashlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from chaos.frontend import connection as connection_module
from chaos.frontend.connection import Listener
from chaos.frontend.log import EventLog
from chaos.frontend.process import READY, arguments
from chaos.frontend.service import FrontendService
from chaos.frontend.wire import HEAD_BYTES, wire_bytes
from chaos.ports import LOOPBACK, PortReservations
from scenarios.record import PoolEvent, Sample
from scenarios.spec import Pool, Service
from scenarios.world import answers
from scenarios.world.condition import Condition
from tests.chaos.live_frontend import MODEL, LiveFrontend, eventually

ROOT = Path(__file__).resolve().parents[2]
CHAT = "/v1/chat/completions"


def chat_body(*, stream: bool = False, operation_id: str = "op-0-0", model: str = MODEL) -> bytes:
    messages = [{"role": "user", "content": "hi"}]
    return json.dumps(
        {"model": model, "messages": messages, "stream": stream, "operation_id": operation_id, "temperature": 0.5}
    ).encode()


def post(body: bytes, *headers: str, path: str = CHAT, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def converse(port: int, request: bytes, *, size: int | None = None) -> bytes:
    """Send bytes, and return `size` bytes of the answer, or all until the server closes."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(request)
        async with asyncio.timeout(5):
            return await (reader.read() if size is None else reader.readexactly(size))
    finally:
        writer.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


def kinds(events: list[PoolEvent]) -> list[str]:
    return [event.kind for event in events]


class TestWire:
    @pytest.mark.parametrize("request_id", ["op-0-0-r0", "op-12-34567-r10", "probe-" + "x" * 122, None])
    @pytest.mark.parametrize("close", [False, True])
    async def test_every_count_of_events_has_its_count_of_bytes(
        self, frontend: LiveFrontend, service: Service, request_id: str | None, close: bool
    ) -> None:
        headers = [f"x-request-id: {request_id}"] if request_id else []
        request = post(chat_body(stream=True), *headers, *(["connection: close"] if close else []))
        expected = answers.stream_events(request_id or "", MODEL, service)
        for count in range(1, service.tokens + 1):
            got = await converse(frontend.port, request, size=wire_bytes(count, model=MODEL))
            head, _, body = got.partition(b"\r\n\r\n")
            assert len(head) + 4 == HEAD_BYTES
            assert body == b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in expected[:count])

    async def test_the_rest_is_the_finish_reason_the_end_mark_and_the_last_chunk(
        self, frontend: LiveFrontend, service: Service
    ) -> None:
        request = post(chat_body(stream=True), "x-request-id: op-0-0-r0", "connection: close")
        got = await converse(frontend.port, request)
        rest = got[wire_bytes(service.tokens, model=MODEL) :]
        finish, done = answers.stream_events("op-0-0-r0", MODEL, service)[-2:]
        assert rest == b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(finish), finish, len(done), done)

    def test_bytes_grow_with_the_models_name(self) -> None:
        assert wire_bytes(2, model="longer-name") - wire_bytes(2, model="name") == 2 * len("longer-")


class TestAnswers:
    async def test_plain(self, frontend: LiveFrontend, service: Service, session: aiohttp.ClientSession) -> None:
        body = chat_body()
        start = asyncio.get_running_loop().time()
        async with session.post(frontend.url + CHAT, data=body, headers={"x-request-id": "op-0-0-r0"}) as response:
            assert response.status == 200
            assert response.headers["x-request-id"] == "op-0-0-r0"
            assert await response.read() == answers.plain_answer("op-0-0-r0", MODEL, service)
        assert asyncio.get_running_loop().time() - start >= service.total_s
        events = frontend.events()
        assert kinds(events) == ["head", "body_complete", "started", "finished"]
        assert {event.request_id for event in events} == {"op-0-0-r0"}
        assert {event.operation_id for event in events[1:]} == {"op-0-0"}
        assert events[1].sha256 == hashlib.sha256(body).hexdigest()
        assert events[-1].tokens == service.tokens
        assert events[-1].t - events[1].t >= service.total_s

    async def test_stream_keeps_its_pace(
        self, frontend: LiveFrontend, service: Service, session: aiohttp.ClientSession
    ) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        arrivals: list[float] = []
        async with session.post(frontend.url + CHAT, data=chat_body(stream=True)) as response:
            assert loop.time() - start >= service.first_token_s
            arrivals.extend([loop.time() - start async for _ in response.content.iter_any()])
        assert arrivals[-1] >= service.total_s
        assert len(arrivals) >= 2, "tokens do not come all at once"

    async def test_a_connection_serves_one_request_after_the_other(
        self, frontend: LiveFrontend, service: Service
    ) -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as one:
            for turn in range(3):
                headers = {"x-request-id": f"op-0-{turn}-r0"}
                async with one.post(frontend.url + CHAT, data=chat_body(stream=True), headers=headers) as response:
                    expected = answers.stream_events(f"op-0-{turn}-r0", MODEL, service)
                    assert await response.read() == b"".join(expected)
                async with one.get(frontend.url + "/health") as response:
                    assert response.status == 200

    async def test_pipelined_requests_are_answered_in_order(self, frontend: LiveFrontend) -> None:
        first = post(chat_body(), "x-request-id: op-0-0-r0")
        second = post(chat_body(), "x-request-id: op-0-1-r0", "connection: close")
        got = await converse(frontend.port, first + second)
        assert got.index(b"op-0-0-r0") < got.index(b"op-0-1-r0")
        assert got.count(b"HTTP/1.1 200 OK") == 2

    @pytest.mark.parametrize("path", ["/health", "/live", "/v1/models"])
    async def test_other_paths(self, frontend: LiveFrontend, session: aiohttp.ClientSession, path: str) -> None:
        async with session.get(frontend.url + path) as response:
            assert response.status == 200
            content = await response.json()
        if path == "/v1/models":
            assert [model["id"] for model in content["data"]] == [MODEL]
        assert frontend.events() == []

    async def test_a_body_that_comes_in_pieces_is_received_whole(
        self, frontend: LiveFrontend, session: aiohttp.ClientSession
    ) -> None:
        body = chat_body()

        async def pieces() -> AsyncIterator[bytes]:
            for byte in body:
                yield bytes([byte])

        async with session.post(frontend.url + CHAT, data=pieces()) as response:
            assert response.status == 200
        assert frontend.events()[1].sha256 == hashlib.sha256(body).hexdigest()

    async def test_expect_100_continue(self, frontend: LiveFrontend, session: aiohttp.ClientSession) -> None:
        async with session.post(frontend.url + CHAT, data=chat_body(), expect100=True) as response:
            assert response.status == 200


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            (b"{", 400, "bad_request"),
            (b"[]", 400, "bad_request"),
            (b'{"model": "drill-model"}', 400, "bad_request"),
            (chat_body(model="other"), 404, "model_not_found"),
        ],
    )
    async def test_bad_bodies(
        self, frontend: LiveFrontend, session: aiohttp.ClientSession, body: bytes, status: int, code: str
    ) -> None:
        async with session.post(frontend.url + CHAT, data=body) as response:
            assert response.status == status
            error = (await response.json())["error"]
        assert error["code"] == code
        assert set(error) == {"message", "type", "code"}
        assert kinds(frontend.events()) == ["head", "body_complete", "rejected"]

    @pytest.mark.parametrize(("method", "path", "status"), [("GET", CHAT, 405), ("GET", "/v2", 404)])
    async def test_bad_paths(
        self, frontend: LiveFrontend, session: aiohttp.ClientSession, method: str, path: str, status: int
    ) -> None:
        async with session.request(method, frontend.url + path) as response:
            assert response.status == status
            assert "message" in (await response.json())["error"]

    async def test_bytes_that_are_not_http_are_refused_and_the_connection_closed(self, frontend: LiveFrontend) -> None:
        got = await converse(frontend.port, b"hello\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 400 ")

    async def test_a_body_beyond_the_bound_is_refused(
        self, frontend: LiveFrontend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_module, "BODY_BYTES_MAX", 1000)
        got = await converse(frontend.port, post(b"x" * 1001))
        assert got.startswith(b"HTTP/1.1 413 ")
        assert kinds(frontend.events()) == ["head"]

    async def test_a_peer_that_sends_too_much_ahead_is_cut_off(
        self, frontend: LiveFrontend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_module, "AHEAD_BYTES_MAX", 1000)
        reader, writer = await asyncio.open_connection(LOOPBACK, frontend.port)
        writer.write(post(chat_body(stream=True)))
        await reader.readexactly(10)
        writer.write(b"x" * 2000)
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
        writer.close()
        assert kinds(frontend.events())[-1] == "cancelled"

    async def test_an_id_that_cannot_be_echoed_counts_as_none(
        self, frontend: LiveFrontend, session: aiohttp.ClientSession
    ) -> None:
        async with session.post(frontend.url + CHAT, data=chat_body(), headers={"x-request-id": "x" * 129}) as response:
            assert response.status == 200
            assert "x-request-id" not in response.headers


class TestDepartures:
    async def test_a_router_that_leaves_cancels_the_work(self, frontend: LiveFrontend) -> None:
        reader, writer = await asyncio.open_connection(LOOPBACK, frontend.port)
        writer.write(post(chat_body(stream=True), "x-request-id: op-0-0-r0"))
        await reader.readexactly(wire_bytes(2, model=MODEL))
        assert frontend.frontend.in_flight == 1
        writer.transport.abort()
        await eventually(lambda: frontend.frontend.in_flight == 0)
        events = frontend.events()
        assert kinds(events) == ["head", "body_complete", "started", "cancelled"]
        assert events[-1].tokens == 2

    async def test_half_a_body_starts_nothing(self, frontend: LiveFrontend) -> None:
        _, writer = await asyncio.open_connection(LOOPBACK, frontend.port)
        writer.write(post(chat_body())[:-5])
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.05)
        assert kinds(frontend.events()) == ["head"]

    async def test_an_idle_connection_is_closed(self, frontend: LiveFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection_module, "KEEP_ALIVE_S", 0.05)
        got = await converse(frontend.port, post(chat_body()))
        assert got.startswith(b"HTTP/1.1 200 OK")

    async def test_a_slow_reader_holds_the_stream_back(self, ports: PortReservations, tmp_path: Path) -> None:
        log_path, port, model = tmp_path / "log.jsonl", ports.take(), "m" * 4_000
        service = Service(first_token_s=0, token_gap_s=0, tokens=4_000)  # 16 MB, more than sockets hold
        log = EventLog(log_path)
        clock = asyncio.get_running_loop().time
        pool = Pool(id="a", model=model, service=service)
        frontend = FrontendService(pool, name="a-0", seed=1, log=log, clock=clock)
        listener = Listener(frontend)
        await listener.open(LOOPBACK, port)
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(post(chat_body(stream=True, model=model), "connection: close"))
        await asyncio.sleep(1)
        assert b"finished" not in log_path.read_bytes()
        async with asyncio.timeout(10):
            got = await reader.read()
        assert got.endswith(b"0\r\n\r\n")
        assert b"finished" in log_path.read_bytes()
        writer.close()
        await listener.close()
        log.close()


class TestReadDrop:
    async def test_the_body_is_read_and_the_connection_closed(
        self, frontend: LiveFrontend, session: aiohttp.ClientSession
    ) -> None:
        async with session.post(frontend.control_url + "/mode", data=b'{"mode": "read_drop"}') as response:
            assert (await response.json()).items() >= {"mode": "read_drop", "in_flight": 0}.items()
        body = chat_body()
        with socket.create_connection((LOOPBACK, frontend.port)) as raw:
            raw.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(raw, post(body, "x-request-id: op-0-0-r0"))
            assert await asyncio.get_running_loop().sock_recv(raw, 100) == b"", "FIN, not RST"
        events = frontend.events()
        assert kinds(events) == ["head", "body_complete"]
        assert events[1].sha256 == hashlib.sha256(body).hexdigest()
        async with session.post(frontend.control_url + "/mode", data=b'{"mode": "ok"}') as response:
            assert response.status == 200
        async with session.post(frontend.url + CHAT, data=body) as response:
            assert response.status == 200

    @pytest.mark.parametrize("body", [b"{", b'{"mode": "other"}', b'{"mode": "ok", "x": 1}', b"{}"])
    async def test_unknown_modes_are_refused(
        self, frontend: LiveFrontend, session: aiohttp.ClientSession, body: bytes
    ) -> None:
        async with session.post(frontend.control_url + "/mode", data=body) as response:
            assert response.status == 400
        assert frontend.frontend.mode == "ok"

    async def test_state(self, frontend: LiveFrontend, session: aiohttp.ClientSession) -> None:
        asked = asyncio.ensure_future(converse(frontend.port, post(chat_body(), "connection: close")))
        await eventually(lambda: frontend.frontend.in_flight == 1)
        async with session.get(frontend.control_url + "/state") as response:
            state = await response.json()
        assert state.pop("condition") == msgspec.structs.asdict(Condition())
        assert state == {"mode": "ok", "in_flight": 1}
        await asked
        async with session.post(frontend.control_url + "/other") as response:
            assert response.status == 404


class TestProcess:
    def argv(self, ports: PortReservations, log: Path) -> tuple[int, list[str]]:
        port = ports.take()
        pool = Pool(id="a", model=MODEL)
        options = arguments(pool, name="a-0", seed=1, port=port, control_port=ports.take(), log=log)
        return port, [sys.executable, "-m", "chaos.frontend", *options]

    def test_it_is_ready_answers_and_ends_in_order(self, ports: PortReservations, tmp_path: Path) -> None:
        log = tmp_path / "a-0.jsonl"
        port, argv = self.argv(ports, log)
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline().strip() == READY
                with socket.create_connection((LOOPBACK, port)) as raw:
                    raw.sendall(post(chat_body(stream=True)))
                    assert raw.recv(20).startswith(b"HTTP/1.1 200 OK")
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(5) == 0
            finally:
                process.kill()
        rows = [msgspec.json.decode(line, type=PoolEvent | Sample) for line in log.read_bytes().splitlines()]
        assert [row.kind for row in rows if isinstance(row, PoolEvent)][-1] == "cancelled"
        assert any(isinstance(row, Sample) and row.source == "a-0" for row in rows)

    def test_an_unexpected_error_ends_it(self, ports: PortReservations) -> None:
        port, argv = self.argv(ports, Path("/dev/full"))
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                assert process.stdout.readline().strip() == READY
                with socket.create_connection((LOOPBACK, port)) as raw:
                    raw.sendall(post(chat_body()))
                    assert process.wait(5) == 1
                assert "No space left on device" in process.stderr.read()
            finally:
                process.kill()

    def test_a_service_that_cannot_be_is_a_usage_error(self, tmp_path: Path) -> None:
        argv = [sys.executable, "-m", "chaos.frontend", "--name", "a-0", "--seed", "1", "--port", "1"]
        argv += ["--control-port", "2", "--log", str(tmp_path / "log")]
        argv += ["--pool", '{"id": "a", "service": {"tokens": 0}}']
        ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
        assert ended.returncode == 2
        assert "Expected `int` >= 1" in ended.stderr
