"""One frontend with slots and a queue in two arms: on real sockets and in the model it says and notes the same."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
import simpy

from chaos.ports import PortReservations
from scenarios.record import PoolEvent
from scenarios.spec import Pool, Service
from scenarios.world.arrivals import Ask
from scenarios.world.condition import Condition
from simulator.connection import Close, Connection, Head
from simulator.frontend import Chat, Frontend, Weakness
from simulator.journal import Journal
from simulator.timers import LATE, Late, Timers
from tests.chaos.live_frontend import MODEL, LiveFrontend, eventually

SERVICE = Service(first_token_s=0.2, token_gap_s=0.2, tokens=4)
FAR_S = 60.0
SETTLE_S = 0.5
"""From the set-up of all cases to the first of them, so that none is late because of another's."""
APART_S = 0.023
"""Between the beginnings of two cases that run side by side."""


class Visit(NamedTuple):
    """One client: when it asks, when it leaves (None: it stays to the end), in seconds since the beginning."""

    at_s: float
    leaves_s: float | None = None
    stream: bool = True
    ask: Ask = Ask()


class Case(NamedTuple):
    """A pool's knobs, its visitors, and what becomes of it, by seconds since the beginning."""

    knobs: dict[str, Any]
    visits: list[Visit]
    conditions: dict[float, Condition] = {}  # noqa: RUF012 - a named tuple's default, which nobody changes


class Seen(NamedTuple):
    """What each client got (status, Retry-After, code, events; None: it left before), and what the log says of whom."""

    got: list[tuple[int, str | None, str | None, int] | None]
    noted: list[tuple[str, str | None, int | None]]


ONE_SLOT = {"slots": 1, "queue_max": 1}
CASES = {
    "served in turn": Case({"slots": 1}, [Visit(0.0), Visit(0.1), Visit(0.2, stream=False)]),
    "the youngest first": Case({"slots": 1, "order": "lifo"}, [Visit(0.0), Visit(0.1), Visit(0.2)]),
    "a full queue": Case(ONE_SLOT, [Visit(0.0), Visit(0.1), Visit(0.2), Visit(0.3)]),
    "a full queue with a word of its own": Case(
        ONE_SLOT | {"reject_status": 529, "reject_retry_after_s": 1.5}, [Visit(0.0), Visit(0.1), Visit(0.2)]
    ),
    "leaves the queue": Case({"slots": 1, "cancel": "queue"}, [Visit(0.0), Visit(0.1, 0.5), Visit(0.2)]),
    "leaves its slot": Case({"slots": 1, "cancel": "service"}, [Visit(0.0, 0.5), Visit(0.1)]),
    "leaves its slot and is worked for": Case({"slots": 1, "cancel": "queue"}, [Visit(0.0, 0.5), Visit(0.1)]),
    "leaves the queue and is worked for": Case({"slots": 1, "cancel": "never"}, [Visit(0.0), Visit(0.1, 0.5)]),
    "slower together": Case({"slots": 2, "load": 2.0}, [Visit(0.0), Visit(0.1), Visit(0.15, stream=False)]),
    "slower for a while": Case(
        {"slots": 1}, [Visit(0.0), Visit(0.1, stream=False)], {0.3: Condition(speed=0.5), 1.1: Condition()}
    ),
    "stands still for a while": Case(
        {"slots": 1}, [Visit(0.0), Visit(0.1)], {0.1: Condition(speed=0.0), 0.7: Condition()}
    ),
    "loses a slot for a while": Case(
        {"slots": 2}, [Visit(0.0), Visit(0.1), Visit(0.2), Visit(0.3)], {0.4: Condition(slots_lost=1), 1.2: Condition()}
    ),
    "fails for a while": Case(
        {"slots": 2}, [Visit(0.0), Visit(0.3), Visit(0.6)], {0.2: Condition(fail_share=1.0), 0.5: Condition()}
    ),
    "a share fails": Case({"slots": 4, "fail_share": 0.5, "fail_status": 502}, [Visit(0.0), Visit(0.1)]),
    "a session comes back": Case(
        {"slots": 1, "cache_sessions": 1, "by_tokens": True},
        [Visit(0.0, ask=Ask("s0-1", 1500, 4)), Visit(1.7, ask=Ask("s0-1", 1500, 4)), Visit(1.8, ask=Ask(None, 9, 4))],
    ),
}


def pool_of(case: Case) -> dict[str, Any]:
    """Return a case's knobs with its service."""
    knobs = dict(case.knobs)
    service = msgspec.structs.replace(SERVICE, load_factor=knobs.pop("load", 1.0))
    if knobs.pop("by_tokens", False):
        service = msgspec.structs.replace(service, kind="by_tokens", overhead_s=0.1, prompt_token_s=0.0004)
    return {"service": service, **knobs}


def noted(events: list[PoolEvent]) -> list[tuple[str, str | None, int | None]]:
    """Return what a log says, in the order of time; heads and bodies come with what follows them."""
    told = sorted((e for e in events if e.kind not in ("head", "body_complete")), key=lambda event: event.t)
    return [(event.kind, event.request_id, event.tokens) for event in told]


def modelled(case: Case) -> Seen:
    env, journal = simpy.Environment(), Journal()
    timers = Timers(env)
    frontend = Frontend(env, timers, journal, Pool(id="a", model=MODEL, **pool_of(case)), name="a-0", seed=1)
    got: list[tuple[int, str | None, str | None, int] | None] = [None] * len(case.visits)

    def client(number: int, visit: Visit) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(visit.at_s)
        connection = Connection(env, timers)
        chat = Chat(f"op-0-{number}", f"op-0-{number}-r0", MODEL, visit.stream, ask=visit.ask)
        connection.ask(lambda opened: frontend.serve(opened, chat))
        head, body = Head(0), bytearray()
        piece: Head | bytes | Close | Late = head
        while not isinstance(piece, Close):
            piece = yield from connection.receive(FAR_S if visit.leaves_s is None else visit.leaves_s)
            if piece is LATE:
                connection.leave()
                return
            head = piece if isinstance(piece, Head) else head
            body += piece if isinstance(piece, bytes) else b""
        retry_after = None if head.retry_after_s is None else f"{head.retry_after_s:g}"
        got[number] = (head.status, retry_after, head.code, body.count(b"\n\n"))

    def weaken(at_s: float, condition: Condition) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(at_s)
        frontend.weakness = Weakness(condition)

    for at_s, condition in case.conditions.items():
        env.process(weaken(at_s, condition))
    for number, visit in enumerate(case.visits):
        env.process(client(number, visit))
    env.run()
    return Seen(got, noted(journal.pool_events))


async def real(case: Case, tmp_path: Path, *, turn: int) -> Seen:
    """Run a case on sockets until nobody is worked for any more; `turn` keeps cases apart."""
    with PortReservations() as ports:
        knobs = pool_of(case)
        live = LiveFrontend(ports.take(), ports.take(), tmp_path / "a-0.jsonl", knobs.pop("service"), **knobs)
        await live.open()
        try:
            async with aiohttp.ClientSession() as session:
                loop = asyncio.get_running_loop()
                await session.get(f"{live.url}/health")  # the first call of a client builds and imports things
                begin_s = loop.time() + SETTLE_S + turn * APART_S
                for at_s, condition in case.conditions.items():
                    loop.call_at(begin_s + at_s, live.frontend.set_condition, condition)
                visits = (visit_of(session, live, number, visit, begin_s) for number, visit in enumerate(case.visits))
                got = await asyncio.gather(*visits)
            await eventually(lambda: live.frontend.in_flight == 0)
        finally:
            await live.close()
    return Seen(list(got), noted(live.events()))


async def visit_of(
    session: aiohttp.ClientSession, live: LiveFrontend, number: int, visit: Visit, begin_s: float
) -> tuple[int, str | None, str | None, int] | None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(begin_s + visit.at_s - loop.time())
    body = {"model": MODEL, "messages": [], "stream": visit.stream, "operation_id": f"op-0-{number}"}
    body |= {name: value for name, value in visit.ask._asdict().items() if value is not None}
    headers = {"x-request-id": f"op-0-{number}-r0"}
    try:
        async with (
            asyncio.timeout_at(None if visit.leaves_s is None else begin_s + visit.leaves_s),
            session.post(f"{live.url}/v1/chat/completions", json=body, headers=headers) as response,
        ):
            content = await response.read()
            code = (await response.json())["error"]["code"] if response.status >= 400 else None
            return response.status, response.headers.get("retry-after"), code, content.count(b"\n\n")
    except TimeoutError:
        return None


@pytest.fixture(scope="module")
def on_sockets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Every case on sockets, all at one time: most of it is waiting."""

    async def play() -> list[Seen]:
        plays = (real(case, tmp_path_factory.mktemp("case"), turn=turn) for turn, case in enumerate(CASES.values()))
        return await asyncio.gather(*plays)

    return dict(zip(CASES, asyncio.run(play()), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_both_arms_say_and_note_the_same(name: str, on_sockets: dict[str, Seen]) -> None:
    assert on_sockets[name] == modelled(CASES[name])


def test_the_cases_show_what_they_are_named_for() -> None:
    """Otherwise both arms could agree on having done nothing of the kind."""
    seen = {name: modelled(case) for name, case in CASES.items()}
    assert [note[:2] for note in seen["the youngest first"].noted if note[0] == "started"][1] == (
        "started",
        "op-0-2-r0",
    )
    assert seen["a full queue"].got[2:] == [(503, None, "queue_full", 0)] * 2
    assert seen["a full queue with a word of its own"].got[2] == (529, "1.5", "queue_full", 0)
    assert ("cancelled", "op-0-1-r0", 0) in seen["leaves the queue"].noted
    assert ("cancelled", "op-0-0-r0", 2) in seen["leaves its slot"].noted
    assert [note for note in seen["leaves its slot and is worked for"].noted if note[1] == "op-0-0-r0"] == [
        ("started", "op-0-0-r0", None),
        ("orphaned", "op-0-0-r0", 2),
        ("finished", "op-0-0-r0", 4),
    ]
    assert [note[0] for note in seen["leaves the queue and is worked for"].noted if note[1] == "op-0-1-r0"] == [
        "queued",
        "orphaned",
        "started",
        "finished",
    ]
    assert [note[:2] for note in seen["loses a slot for a while"].noted if note[0] == "started"][2:] == [
        ("started", "op-0-2-r0"),
        ("started", "op-0-3-r0"),
    ]
    assert [got[0] for got in seen["fails for a while"].got if got is not None] == [200, 500, 200]
    statuses = [got[0] for got in seen["a share fails"].got if got is not None]
    assert sorted(statuses) == [200, 502]
