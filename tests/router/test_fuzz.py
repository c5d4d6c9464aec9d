"""Random requests: no crash, no hang, no unexplained error of the router's own, no body that was not sent."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from router import connection
from router.core.config import RouterConfig
from router.core.refusal import Code
from router.settings import ShellConfig
from tests.router.fuzzed import CANARY, Ending, Fuzzed, case, reading_of
from tests.router.live import Live, live
from tests.router.raw_pool import Call, RawPool, head, ok
from tests.router.wire import Answer, wire

AT_ONCE = 200
EXPLAINED = {Code.DEADLINE, Code.POOL_TIMEOUT, Code.LOOP_DETECTED}
"""What the router may say with a status of 500 or above while its pool is well."""
SLOW_S = 0.1
"""Half of the shortest time-out below: a client that is slower may find its connection closed."""
MODELS = b'{"object": "list", "data": [{"id": "m"}]}'
RULES = RouterConfig(deadline_s=60.0, connect_timeout_s=20.0, connect_slow_s=20.0, idle_timeout_s=60.0)
"""Pool, router and clients share one event loop: nothing of theirs may hang on its delays."""
SHELL = ShellConfig(
    body_bytes_max=60_000, head_timeout_s=0.2, body_idle_timeout_s=0.2, keep_alive_timeout_s=2.0, drain_timeout_s=5.0
)


async def test_two_thousand_random_requests(tmp_path: Path) -> None:
    await fuzz(range(2_000), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("thousands", range(100))
async def test_a_hundred_thousand_random_requests(thousands: int, tmp_path: Path) -> None:
    await fuzz(range(10_000 + thousands * 1_000, 11_000 + thousands * 1_000), tmp_path)


async def test_a_router_that_takes_what_it_must_refuse_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "fault_of", lambda _: None)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)seed (\d+), then \w+:\n\[b'"):
        await fuzz(range(500), tmp_path)


def test_a_case_is_made_by_its_seed_alone() -> None:
    assert [case(seed) for seed in range(50)] == [case(seed) for seed in range(50)]
    assert len({case(seed).data for seed in range(50)}) == 50


def test_right_and_wrong_requests_are_both_made() -> None:
    """Else the fuzz would show nothing."""
    found = Counter(len(reading_of(case(seed).data).bodies) for seed in range(500))
    assert min(found[0], found[1], found[2]) > 25


@pytest.mark.parametrize(("data", "bodies"), [
    (b"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 1\r\n\r\na" * 2, [b"a", b"a"]),
    (b"POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", [b"a"]),
    (b"POST / HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length: 1\r\n\r\na" * 2, [b"a"]),
    (b"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\na", []),
])  # fmt: skip
def test_what_the_second_reader_finds(data: bytes, bodies: list[bytes]) -> None:
    assert reading_of(data).bodies == bodies


async def fuzz(seeds: range, tmp_path: Path) -> None:
    """Send the cases of these seeds, many at once; a batch in which something is wrong is sent again one by one."""
    async with RawPool(well, keep=True) as pool, live(tmp_path, pool.url, rules=RULES, shell=SHELL) as router:
        for first in range(seeds.start, seeds.stop, AT_ONCE):
            batch = [case(seed) for seed in range(first, min(first + AT_ONCE, seeds.stop))]
            if problem := await problem_with(batch, router, pool):
                for single in batch:
                    if alone := await problem_with([single], router, pool):
                        pytest.fail(f"{alone}\n{single}")
                pytest.fail(f"{problem}\nin seeds {first} to {first + AT_ONCE - 1} together, but in none alone")


async def problem_with(batch: list[Fuzzed], router: Live, pool: RawPool) -> str | None:
    """Send these cases at once; returns what is wrong."""
    pool.bodies.clear()
    pool.heads.clear()
    router.forget_events()
    ends = await asyncio.gather(*(ask(router, fuzzed) for fuzzed in batch), return_exceptions=True)
    for fuzzed, end in zip(batch, ends, strict=True):
        if isinstance(end, BaseException):
            return f"seed {fuzzed.seed}: {end!r}"
        for answer in end:
            if answer.status >= 500 and answer.named.partition(" ")[2] not in EXPLAINED:
                return f"seed {fuzzed.seed}: {answer}"
    await router.settled()
    received = Counter(body for head, body in zip(pool.heads, pool.bodies, strict=True) if head.startswith(b"POST "))
    more = received - Counter(body for fuzzed in batch for body in reading_of(fuzzed.data).bodies)
    if more:
        return f"bodies that are no request's: {[body[:200] for body in more]}"
    for event in router.events:
        if event["event"] == "library" or CANARY in str(event):
            return f"logged: {event}"
    return None


async def well(call: Call) -> None:
    """Answer as a pool that is well, whatever a body holds besides the model."""
    if call.head.startswith(b"GET /v1/models "):
        await call.say(head(200, f"Content-Length: {len(MODELS)}") + MODELS)
        return
    call.body = b'{"stream": true}' if b'"stream": true' in call.body else b"{}"
    await ok(call)


async def ask(router: Live, fuzzed: Fuzzed) -> list[Answer]:
    """Send one case; returns the answers to a client that waits. Raises for a hang and for what is no answer.

    Where the bytes end between two requests the connection may stay open; everywhere else the router must close it.
    """
    reading = reading_of(fuzzed.data)
    answers: list[Answer] = []
    async with wire(router) as client:
        slow = await client.send(fuzzed.pieces) > SLOW_S
        if fuzzed.ending is Ending.ABORT:
            return []
        if fuzzed.ending is Ending.HALF_CLOSE:
            with contextlib.suppress(OSError):
                client.writer.write_eof()
            await client.closed_after_all()
            return []
        while not (reading.ends_between and len(answers) == len(reading.bodies)):
            try:
                answer = await client.answer()
            except ConnectionError:
                if slow:  # it has sent to a connection that was closed for being late
                    break
                raise
            if answer is None:
                break
            answers.append(answer)
    return answers
