"""Each fault is really on when it says so, and says so when it is not."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import msgspec
import pytest

from chaos.faults import probes
from chaos.faults.black_hole import BlackHole
from chaos.faults.cut import AFTER_BYTES_MAX, Cut
from chaos.faults.fault import Fault, FrontendMode, ProbeIds, Target
from chaos.faults.read_drop import ReadDrop
from chaos.faults.refused import Refused
from chaos.faults.weakened import Weakened
from chaos.frontend.wire import wire_bytes
from chaos.ports import LOOPBACK, PortReservations, is_free
from chaos.toxiproxy import Proxy, Toxiproxy, ToxiproxyError
from scenarios.world.condition import Condition
from tests.chaos.live_frontend import MODEL, LiveFrontend, eventually

RawServer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpControl:
    """The frontend's control, over HTTP as in a run."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def set_mode(self, mode: FrontendMode) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._url}/mode", json={"mode": mode}, raise_for_status=True) as response,
        ):
            assert (await response.json())["mode"] == mode

    async def set_condition(self, condition: Condition) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{self._url}/condition", json=msgspec.structs.asdict(condition), raise_for_status=True
            ) as response,
        ):
            assert (await response.json())["condition"] == msgspec.structs.asdict(condition)


class NoControl:
    """For servers that do what they do."""

    async def set_mode(self, mode: FrontendMode) -> None:
        """Do nothing."""

    async def set_condition(self, condition: Condition) -> None:
        """Do nothing."""


def issue() -> Callable[[], ProbeIds]:
    numbers = itertools.count()
    return lambda: ProbeIds(operation_id=f"probe-{(n := next(numbers))}", request_id=f"probe-{n}-r0")


@pytest.fixture
async def target(frontend: LiveFrontend, toxiproxy: Toxiproxy, ports: PortReservations) -> Target:
    proxy = await toxiproxy.create("a-0", listen_port=ports.take(), upstream_port=frontend.port)
    return Target("a/a-0", proxy, HttpControl(frontend.control_url), issue())


@pytest.fixture
async def target_of(
    toxiproxy: Toxiproxy, ports: PortReservations
) -> AsyncIterator[Callable[[RawServer], Awaitable[Target]]]:
    """Make a target of a server that speaks raw bytes."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(serve: RawServer) -> Target:
            port = ports.take()
            await stack.enter_async_context(await asyncio.start_server(serve, LOOPBACK, port))
            proxy = await toxiproxy.create(f"raw-{port}", listen_port=ports.take(), upstream_port=port)
            return Target("raw", proxy, NoControl(), issue())

        yield make


async def stream(port: int, *, connect_timeout_s: float = 5.0) -> tuple[bytes, bool]:
    """Ask for a streamed completion; returns the body's bytes, and whether it ended as HTTP says."""
    body = {"model": MODEL, "messages": [], "stream": True, "operation_id": "op-1"}
    got = b""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(connect=connect_timeout_s)) as session:
        url = f"http://{LOOPBACK}:{port}/v1/chat/completions"
        async with session.post(url, json=body, headers={"x-request-id": "op-1-r0"}) as response:
            try:
                async for piece in response.content.iter_any():
                    got += piece
            except aiohttp.ClientPayloadError:
                return got, False
    return got, True


ALL: list[Callable[[], Fault]] = [Refused, BlackHole, ReadDrop, lambda: Cut(700)]


@pytest.mark.parametrize("make", ALL, ids=["refused", "black_hole", "read_drop", "cut"])
async def test_a_fault_is_proved_on_and_off_twice_in_a_row(make: Callable[[], Fault], target: Target) -> None:
    fault = make()
    for _ in range(2):
        on = await fault.inject(target)
        assert on.proved, on.detail
        assert on.begin_s <= on.effect_s
        off = await fault.clear(target)
        assert off.proved, off.detail
        assert on.effect_s < off.begin_s <= off.effect_s
    whole, complete = await stream(target.proxy.listen_port)
    assert complete
    assert whole.endswith(b"data: [DONE]\n\n")


async def test_refused_refuses_and_hands_nothing_over(target: Target, frontend: LiveFrontend) -> None:
    proof = await Refused().inject(target)
    assert proof.detail.startswith("connect: ECONNREFUSED after ")
    with pytest.raises(aiohttp.ClientConnectorError):
        await stream(target.proxy.listen_port)
    assert frontend.events() == []


async def test_accepted_then_closed_is_not_taken_for_refused(toxiproxy: Toxiproxy, ports: PortReservations) -> None:
    """A dead upstream behind an enabled proxy: the body slot would be taken."""
    proxy = await toxiproxy.create("dead", listen_port=ports.take(), upstream_port=ports.take())
    assert (await probes.connect(proxy.listen_port, wait_s=1)).kind == "connected"
    proof = await Refused().clear(Target("dead", proxy, NoControl(), issue()))
    assert not proof.proved
    assert proof.detail in {"GET: 0 bytes, fin", "GET: 0 bytes, reset"}


async def test_refused_is_not_proved_when_somebody_else_listens(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    squatters: list[socket.socket] = []

    async def disable_and_squat(proxy: Proxy) -> None:
        await disable(proxy)
        squatters.append(socket.create_server((LOOPBACK, proxy.listen_port)))

    disable = Proxy.disable
    monkeypatch.setattr(Proxy, "disable", disable_and_squat)
    proof = await Refused().inject(target)
    squatters[0].close()
    assert not proof.proved
    assert proof.detail.startswith("connect: connected after ")


async def test_a_black_hole_lets_no_connect_end(target: Target, frontend: LiveFrontend) -> None:
    hole = BlackHole()
    assert (await hole.inject(target)).detail.startswith("connect: hung after ")
    port = target.proxy.listen_port
    tries = await asyncio.gather(*(probes.connect(port, wait_s=0.7) for _ in range(30)))
    assert {tried.kind for tried in tries} == {"hung"}
    with pytest.raises(aiohttp.ConnectionTimeoutError):
        await stream(port, connect_timeout_s=0.3)
    assert frontend.events() == []
    assert (await hole.clear(target)).detail.startswith("GET: status 200, ")


async def test_nobody_is_swallowed_while_the_hole_is_dug(target: Target) -> None:
    """A connect that the hole's queue took would look like a frontend that accepts and stays silent."""
    hole, port = BlackHole(), target.proxy.listen_port
    stop = asyncio.Event()
    seen: list[str] = []

    async def hammer() -> None:
        while not stop.is_set():
            seen.append((await probes.connect(port, wait_s=0.05)).kind)

    hammers = [asyncio.create_task(hammer()) for _ in range(10)]
    await eventually(lambda: len(seen) > 20)
    assert (await hole.inject(target)).proved
    stop.set()
    await asyncio.gather(*hammers)
    assert {"connected", "hung"} <= set(seen)
    # one place in the kernel's queue, and it is ours
    assert sum(probes.is_connected(sock) for sock in hole._hole[1:]) == 1
    assert (await hole.clear(target)).proved


async def test_a_black_hole_that_could_not_be_dug_is_cleared(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.faults.black_hole.BIND_WAIT_S", 0.05)
    hole = BlackHole()
    await target.proxy.disable()
    with socket.create_server((LOOPBACK, target.proxy.listen_port)):
        with pytest.raises(OSError, match="Address already in use"):
            await hole.inject(target)
        with pytest.raises(ToxiproxyError, match="address already in use"):
            await hole.clear(target)
    assert (await hole.clear(target)).proved
    await target.proxy.disable()
    assert is_free(target.proxy.listen_port)


async def test_read_drop_reads_the_whole_body_and_runs_nothing(target: Target, frontend: LiveFrontend) -> None:
    proof = await ReadDrop().inject(target)
    assert proof.detail in {"POST: 0 bytes, fin", "POST: 0 bytes, reset"}
    assert [(event.kind, event.request_id) for event in frontend.events()] == [
        ("head", "probe-0-r0"),
        ("body_complete", "probe-0-r0"),
    ]
    with pytest.raises((aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
        await stream(target.proxy.listen_port)
    assert [event.kind for event in frontend.events()][2:] == ["head", "body_complete"]


async def test_read_drop_is_cleared_by_an_answer_that_takes_no_slot(target: Target, frontend: LiveFrontend) -> None:
    fault = ReadDrop()
    await fault.inject(target)
    assert (await fault.clear(target)).detail.startswith("POST: status 404, ")
    assert {event.kind for event in frontend.events()} == {"head", "body_complete", "rejected"}


async def test_a_close_before_the_body_is_no_read_drop(
    target_of: Callable[[RawServer], Awaitable[Target]],
) -> None:
    async def close_after_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    proof = await ReadDrop().inject(await target_of(close_after_head))
    assert not proof.proved
    assert proof.detail.endswith(" before the body was whole")


async def test_an_answer_is_no_read_drop(target: Target) -> None:
    proof = await ReadDrop().inject(Target(target.name, target.proxy, NoControl(), target.issue_probe))
    assert not proof.proved
    assert proof.detail.startswith("POST: status 404, ")


async def test_silence_is_no_read_drop(
    target_of: Callable[[RawServer], Awaitable[Target]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(probes, "PROBE_WAIT_S", 0.2)
    proof = await ReadDrop().inject(await target_of(stay_silent))
    assert not proof.proved
    assert proof.detail == "POST: 0 bytes, open"


@pytest.mark.parametrize("after_bytes", [1, 137, 512, 40_000])
async def test_cut_passes_exactly_its_bytes(target: Target, after_bytes: int) -> None:
    fault = Cut(after_bytes)
    on = await fault.inject(target)
    assert on.proved
    assert on.detail.endswith(f"{after_bytes} bytes, fin")
    assert (await fault.clear(target)).proved


@pytest.mark.parametrize("events", [1, 3])
async def test_cut_ends_a_stream_after_whole_events(target: Target, events: int) -> None:
    whole, complete = await stream(target.proxy.listen_port)
    assert complete
    fault = Cut(wire_bytes(events, model=MODEL))
    assert (await fault.inject(target)).proved
    got, complete = await stream(target.proxy.listen_port)
    assert not complete
    assert whole.startswith(got)
    assert got.count(b"\n\n") == events
    assert got.endswith(b"\n\n")
    assert (await fault.clear(target)).proved
    assert await stream(target.proxy.listen_port) == (whole, True)


async def test_an_end_at_another_byte_is_no_cut(target_of: Callable[[RawServer], Awaitable[Target]]) -> None:
    async def answer_ten_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"0123456789")
        writer.close()

    target = await target_of(answer_ten_bytes)
    on = await Cut(11).inject(target)
    assert not on.proved
    assert on.detail in {"GET: 10 bytes, fin", "GET: 10 bytes, reset"}
    assert not (await Cut(11).clear(target)).proved


@pytest.mark.parametrize("after_bytes", [0, -1, AFTER_BYTES_MAX + 1])
def test_a_cut_out_of_range_is_refused(after_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"cut after {after_bytes} bytes; use 1 to 1000000"):
        Cut(after_bytes)


class TestWeakened:
    @pytest.mark.parametrize(
        "condition",
        [Condition(slots_lost=1), Condition(speed=0.25), Condition(fail_share=0.5, fail_status=502)],
        ids=str,
    )
    async def test_the_frontend_is_in_the_condition_until_it_is_not(
        self, target: Target, frontend: LiveFrontend, condition: Condition
    ) -> None:
        fault = Weakened(on=condition, off=Condition())
        on = await fault.inject(target)
        assert on.proved
        assert on.detail.startswith(f"{condition}; GET: status 200")
        assert frontend.frontend.condition == condition
        off = await fault.clear(target)
        assert off.proved
        assert off.detail.startswith("in order; GET: ")
        assert frontend.frontend.condition == Condition()
        assert on.begin_s <= on.effect_s <= off.begin_s <= off.effect_s

    async def test_a_condition_that_cannot_be_is_refused(self, target: Target) -> None:
        with pytest.raises(aiohttp.ClientResponseError, match="400"):
            await Weakened(on=Condition(speed=-1.0), off=Condition()).inject(target)
