"""One fake frontend in two arms: on real sockets and in the model it says and notes the same."""

import asyncio
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
import simpy

from chaos.ports import PortReservations
from scenarios.record import PoolEvent
from scenarios.spec import Pool, Service
from simulator.connection import Close, Connection, Head
from simulator.frontend import Chat, Drops, Frontend
from simulator.journal import Journal
from simulator.timers import Timers
from tests.chaos.live_frontend import MODEL, LiveFrontend, eventually

SERVICE = Service(first_token_s=0.2, token_gap_s=0.2, tokens=4)
"""Gaps so wide that a client on a busy machine leaves within the one it means to."""
REQUEST_ID = "op-0-0-r0"


Ending = Literal["whole", "broken", "left"]


class Act(NamedTuple):
    """What a client does: `leaves_after` so many events (0: as soon as the work has begun); None: it stays."""

    stream: bool = True
    leaves_after: int | None = None
    read_drop: bool = False


class Seen(NamedTuple):
    """What came of it, for the client and in the frontend's log."""

    body: bytes
    end: Ending
    noted: list[tuple[str, str | None, int | None]]


ACTS = {
    "a stream": Act(),
    "a plain answer": Act(stream=False),
    "a stream left at once": Act(leaves_after=0),
    "a plain answer left at once": Act(stream=False, leaves_after=0),
    "a stream left in the middle": Act(leaves_after=2),
    "a body that is dropped": Act(read_drop=True),
}


def noted(events: list[PoolEvent]) -> list[tuple[str, str | None, int | None]]:
    assert {event.request_id for event in events} == {REQUEST_ID}
    return [(event.kind, event.operation_id, event.tokens) for event in events]


def modelled(act: Act) -> Seen:
    env, journal = simpy.Environment(), Journal()
    timers = Timers(env)
    frontend = Frontend(env, timers, journal, Pool(id="a", model=MODEL, service=SERVICE), name="a-0", seed=1)
    frontend.drops = Drops() if act.read_drop else None
    connection = Connection(env, timers)
    body = bytearray()
    ends: list[Ending] = []

    def client() -> Generator[simpy.Event, Any, None]:
        connection.ask(lambda opened: frontend.serve(opened, Chat("op-0-0", REQUEST_ID, MODEL, act.stream)))
        if act.leaves_after == 0:
            yield env.timeout(0.1)
        while act.leaves_after is None or body.count(b"\n\n") < act.leaves_after:
            piece = yield from connection.receive(10.0)
            if isinstance(piece, bytes):
                body.extend(piece)
            elif not isinstance(piece, Head):
                ends.append("whole" if piece is Close.WHOLE else "broken")
                return
        ends.append("left")
        connection.leave()

    env.process(client())
    env.run()
    return Seen(bytes(body), ends[0], noted(journal.pool_events))


async def real(act: Act, frontend: LiveFrontend) -> Seen:
    frontend.frontend.mode = "read_drop" if act.read_drop else "ok"
    asked = {"model": MODEL, "messages": [], "stream": act.stream, "operation_id": "op-0-0"}
    body = bytearray()
    end: Ending = "whole"
    async with aiohttp.ClientSession() as session:
        try:
            if act.leaves_after == 0:
                await left_at_once(session, frontend, asked)
                end = "left"
            else:
                async with post(session, frontend, asked) as response:
                    async for piece in response.content.iter_any():
                        body += piece
                        if act.leaves_after is not None and body.count(b"\n\n") >= act.leaves_after:
                            end = "left"
                            break
        except aiohttp.ClientError:
            end = "broken"
    last = "body_complete" if act.read_drop else "cancelled" if end == "left" else "finished"
    await eventually(lambda: frontend.events()[-1].kind == last)
    return Seen(bytes(body), end, noted(frontend.events()))


def post(session: aiohttp.ClientSession, frontend: LiveFrontend, asked: dict[str, Any]) -> Any:
    headers = {"x-request-id": REQUEST_ID}
    return session.post(f"{frontend.url}/v1/chat/completions", json=asked, headers=headers)


async def left_at_once(session: aiohttp.ClientSession, frontend: LiveFrontend, asked: dict[str, Any]) -> None:
    async def ask() -> None:
        async with post(session, frontend, asked):
            pytest.fail("the answer came before the client left")

    asking = asyncio.ensure_future(ask())
    await eventually(lambda: any(event.kind == "started" for event in frontend.events()))
    asking.cancel()
    await asyncio.wait([asking])


@pytest_asyncio.fixture
async def frontend(tmp_path: Path) -> AsyncIterator[LiveFrontend]:
    with PortReservations() as ports:
        live = LiveFrontend(ports.take(), ports.take(), tmp_path / "a-0.jsonl", SERVICE)
        await live.open()
        yield live
        await live.close()


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
async def test_both_arms_say_and_note_the_same(act: Act, frontend: LiveFrontend) -> None:
    assert await real(act, frontend) == modelled(act)
