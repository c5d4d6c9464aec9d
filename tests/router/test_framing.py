"""What is no request is refused and never reaches a pool; what is one is read as the RFC reads it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from router.settings import ShellConfig
from tests.router.framing_corpus import BODY, CHUNKED, GROUPS, HIDDEN, HOST, LENGTH, POST, Case, head
from tests.router.live import Live, live, until
from tests.router.raw_pool import Call, RawPool, ok, silent
from tests.router.wire import Answer, wire

WHOLE = head(LENGTH) + BODY
HASTY = ShellConfig(head_timeout_s=0.2, body_idle_timeout_s=0.2, keep_alive_timeout_s=30.0)


def test_the_corpus_is_large_and_each_case_has_a_name_of_its_own() -> None:
    for cases in GROUPS.values():
        assert len({case.name for case in cases}) == len(cases)
    assert sum(len(cases) for cases in GROUPS.values()) >= 130


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
@pytest.mark.parametrize("group", GROUPS)
async def test_every_case_has_the_one_right_answer(group: str, torn: bool, tmp_path: Path) -> None:
    await check(group, tmp_path, torn=torn)


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
@pytest.mark.parametrize("group", GROUPS)
def test_uvloop_which_reads_at_other_moments_makes_no_difference(group: str, torn: bool, tmp_path: Path) -> None:
    uvloop.run(check(group, tmp_path, torn=torn))


async def check(group: str, tmp_path: Path, *, torn: bool) -> None:
    wrong = []
    async with RawPool(ok, keep=True) as pool, live(tmp_path, pool.url) as router:
        told: list[Answer] = []
        for case in GROUPS[group]:
            if torn and not case.torn:
                continue
            if problem := await wrong_with(case, router, pool, told, torn=torn):
                wrong.append(f"{case.name}: {problem}")
        assert wrong == []
        await router.settled()
        assert_counted_and_logged(told, router)


async def wrong_with(case: Case, router: Live, pool: RawPool, told: list[Answer], *, torn: bool) -> str | None:
    """Send one case; returns what is wrong with what came of it."""
    before = len(pool.bodies)
    async with wire(router) as client:
        await client.send(pieces(case.data) if torn else [case.data])
        answers = [await client.answer() for _ in case.answers]
        told += [answer for answer in answers if answer is not None]
        named = tuple(answer and answer.named for answer in answers)
        if named != case.answers:
            return f"was answered {named}"
        if case.closes:
            if not await client.closed():
                return "is not the end of the connection"
        else:
            await client.send([WHOLE])
            following = await client.answer()
            if following is None or following.status != 200:
                return "spoils the connection"
            told.append(following)
    got = len(pool.bodies) - before
    expected = case.bodies + (not case.closes)
    if got != expected or set(pool.bodies[before:]) - {BODY}:
        return f"sends {got} bodies to the pool, not {expected}"
    return None


def assert_counted_and_logged(told: list[Answer], router: Live) -> None:
    """Check that every refusal is counted once and logged once, and says that nothing was sent."""
    refused = [answer.named.partition(" ")[2] for answer in told if answer.status >= 400]
    for answer in told:
        assert answer.headers["x-pooldrill-delivery"] == "unsent" if answer.status >= 400 else True
        assert answer.headers["server"] == "pooldrill" if answer.status >= 400 else True
    counted = {code: count for (code, _), count in router.app.policy.tally.client_requests.items() if code != "200"}
    assert counted == {code: refused.count(code) for code in refused}
    logged = [event["code"] for event in router.events if event["event"] == "request_refused"]
    assert sorted(logged) == sorted(refused)


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


@pytest.mark.parametrize(
    ("data", "bound"),
    [
        (POST + HOST, "The head"),
        (POST[:10], "The head"),
        (b"GET /healthz\r\n", "The head"),
        (head(LENGTH), "The body"),
        (head(LENGTH) + BODY[:5], "The body"),
        (head(CHUNKED) + b"e\r\n" + BODY, "The body"),
        (head(CHUNKED) + b"ffffffffffffffff\r\n" + HIDDEN, "The body"),
        (head(CHUNKED) + b"e;" + b"x" * 100_000, "The body"),
        (head(LENGTH, b"Expect: 100-continue\r\n"), "The body"),
    ],
    ids=range(9),
)
async def test_what_is_never_finished_ends_in_408(data: bytes, bound: str, tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=HASTY) as router, wire(router) as client:
        await client.send([data])
        answer = await client.answer()
        assert answer is not None
        assert answer.named == "408 client_too_slow"
        assert bound.encode() in answer.body
        assert b"0.2 s" in answer.body
        assert await client.closed()
        assert pool.connections == 0
        await router.settled()
        assert_counted_and_logged([answer], router)


@pytest.mark.parametrize(
    "behind",
    [[b"garbage\r\n\r\n"], [head(CHUNKED) + b"e\r\n", BODY + b"\r\nz\r\n"], [head(CHUNKED), b"z\r\n", b"more"]],
    ids=["garbage", "a broken body", "a broken size"],
)
async def test_what_is_wrong_behind_a_request_under_way_waits_for_its_turn(behind: list[bytes], tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(call: Call) -> None:
        await go_on.wait()
        await ok(call)

    async with RawPool(waits, keep=True) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([WHOLE])
        await until(lambda: pool.bodies)
        for piece in behind:
            await client.send([piece])
            await asyncio.sleep(0.02)
        go_on.set()
        first, second = await client.answer(), await client.answer()
        assert first is not None
        assert second is not None
        assert (first.named, second.named) == ("200", "400 bad_request")
        assert await client.closed()
        assert pool.bodies == [BODY]
        await router.settled()
        assert_counted_and_logged([first, second], router)


async def test_who_sends_too_much_before_its_turn_is_cut_off(tmp_path: Path) -> None:
    async with RawPool(silent, keep=True) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([WHOLE])
        await until(lambda: pool.bodies)
        lines = (b"X-%d: %b\r\n" % (number, b"a" * 20_000) for number in range(100))
        await client.send([POST + HOST, *lines])
        await client.closed_after_all()
        await until(lambda: pool.departures)
        await router.settled()
        assert router.app.policy.tally.client_requests == {("client_left", 1): 1, ("headers_too_large", 0): 1}
        assert "1048576 bytes" in router.events[0]["reason"]


async def test_a_head_that_trickles_is_as_late_as_one_that_stops(tmp_path: Path) -> None:
    async with live(tmp_path, shell=HASTY) as router, wire(router) as client:
        answering = asyncio.ensure_future(client.answer())
        for byte in POST + HOST + b"X: " + b"a" * 10_000:
            await client.send([b"%c" % byte])
            await asyncio.sleep(0.01)
            if answering.done():
                break
        answer = await answering
        assert answer is not None
        assert answer.named == "408 client_too_slow"


async def test_an_idle_connection_is_closed_without_a_word(tmp_path: Path) -> None:
    """An answer that nobody asked for would be taken for that of the next request."""
    shell = ShellConfig(keep_alive_timeout_s=0.2, head_timeout_s=0.1)
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=shell) as router:
        for before in ([], [b"\r\n\r\n"], [WHOLE], [WHOLE, b"\r\n"]):
            async with wire(router) as client:
                await client.send(before)
                if WHOLE in before:
                    answer = await client.answer()
                    assert answer is not None
                    assert answer.status == 200
                assert await client.closed()


async def test_a_head_in_pieces_is_in_time_if_it_ends_in_time(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=HASTY) as router, wire(router) as client:
        for _ in range(2):
            await client.send([WHOLE[:20]])
            await asyncio.sleep(0.05)
            await client.send([WHOLE[20:]])
            answer = await client.answer()
            assert answer is not None
            assert answer.status == 200
        await asyncio.sleep(0.3)  # the time-out of a head is over, and no head is under way
        await client.send([WHOLE])
        answer = await client.answer()
        assert answer is not None
        assert answer.status == 200


@pytest.mark.parametrize("data", [WHOLE, POST + HOST, head(LENGTH) + BODY[:5], b""], ids=["whole", "head", "body", "0"])
async def test_who_closes_the_sending_side_has_left(data: bytes, tmp_path: Path) -> None:
    """Nothing else tells that a client is gone, and a client that is gone must not hold a slot of a pool."""
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([data])
        client.writer.write_eof()
        assert await client.closed()
        await router.settled()
        assert len(pool.bodies) <= 1


async def test_one_connection_too_many_is_told_so_and_the_others_go_on(tmp_path: Path) -> None:
    shell = ShellConfig(connections_max=2)
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=shell) as router:
        async with wire(router) as first, wire(router) as second:
            for client in (first, second):
                await client.send([WHOLE])
                assert (await client.answer() or client).status == 200  # type: ignore[union-attr]
            async with wire(router) as third:
                await third.send([WHOLE])
                answer = await third.answer()
                assert answer is not None
                assert answer.named == "503 router_overloaded"
                assert int(answer.headers["retry-after"]) > 0
                assert await third.closed()
            await first.send([WHOLE])
            assert (await first.answer() or first).status == 200  # type: ignore[union-attr]
            assert_counted_and_logged([answer], router)
        assert len(pool.bodies) == 3
        await until(lambda: not router.app.public.connections)
        async with wire(router) as again:
            await again.send([WHOLE])
            assert (await again.answer() or again).status == 200  # type: ignore[union-attr]
