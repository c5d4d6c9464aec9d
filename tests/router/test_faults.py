"""Every way a send can fail, at the first pool and at both: what the client is told, and what each pool received."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router.core.config import RouterConfig
from tests.router import raw_pool
from tests.router.live import Live, Seen, live
from tests.router.raw_pool import AcceptingAndClosing, BlackHole, Faulty, RawPool, Refusing, cut, ok, status


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, what the slot says of it, and the cause that is named."""

    make: Callable[[], Faulty]
    cause: str
    slot_taken: bool = True
    status: int = 503
    code: str = "maybe_running"
    bodies: int = 1
    """Whole bodies that the faulty pool receives."""
    deadline_s: float = 10.0


UNSENT = {
    "refused": Case(Refusing, "refused", slot_taken=False, bodies=0),
    "black_hole": Case(BlackHole, "connect_timeout", slot_taken=False, bodies=0),
}
UNKNOWN = {
    "accepted_then_closed": Case(AcceptingAndClosing, "lost or reset", bodies=0),
    "body_read_then_closed": Case(lambda: RawPool(raw_pool.close), "lost"),
    "body_read_then_reset": Case(lambda: RawPool(raw_pool.reset), "reset"),
    "not_http": Case(lambda: RawPool(raw_pool.garbage), "protocol"),
    "silent": Case(lambda: RawPool(raw_pool.silent), "deadline", status=504, code="pool_timeout", deadline_s=0.5),
}


@pytest.mark.parametrize("name", UNSENT)
async def test_what_was_not_sent_is_answered_by_the_other_pool(name: str, tmp_path: Path) -> None:
    case = UNSENT[name]
    async with case.make() as faulty, RawPool(ok) as good:
        async with live(tmp_path, faulty.url, good.url) as router:
            told = await router.ask("r-1", text="x" * 70_000)
        assert (told.status, told.body) == (200, raw_pool.PLAIN)
        assert told.headers["x-pooldrill-delivery"] == "answered"
        assert told.headers["x-pooldrill-pool"] == "b"
        assert told.headers["x-pooldrill-attempts"] == "2"
        assert (len(faulty.bodies), len(good.bodies)) == (0, 1)
        assert len(good.bodies[0]) > 70_000
        failed, answered = router.rows()
        assert (failed.attempt, failed.pool, failed.frontend, failed.delivery, failed.cause, failed.blame) == (
            1, "a", "a-0", "unsent", case.cause, "frontend",
        )  # fmt: skip
        assert not failed.slot_taken
        assert failed.t_connected is None
        assert (answered.attempt, answered.pool, answered.outcome) == (2, "b", ("answered", "", 200))
        assert answered.slot_taken
        assert answered.t_connected is not None
        assert failed.t_start <= failed.t_end <= answered.t_start <= answered.t_connected <= answered.t_end
        assert event(router, "send_failed")["reason"] == "failover"


@pytest.mark.parametrize("name", UNSENT)
async def test_what_no_pool_took_is_said_to_be_unsent(name: str, tmp_path: Path) -> None:
    case = UNSENT[name]
    async with case.make() as one, case.make() as other:
        async with live(tmp_path, one.url, other.url) as router:
            told = await router.ask()
        assert (told.status, told.code) == (503, "pool_unreachable")
        assert told.headers["x-pooldrill-delivery"] == "unsent"
        assert told.headers["x-pooldrill-attempts"] == "2"
        assert "x-should-retry" not in told.headers
        assert "Pool a " in told.message
        assert "Pool b " in told.message
        assert [row.outcome for row in router.rows()] == [("unsent", case.cause, None)] * 2
        assert router.app.policy.tally.failovers_refused == {"two_sends": 1}


@pytest.mark.parametrize("where", ["first", "both"])
@pytest.mark.parametrize("name", UNKNOWN)
async def test_what_may_be_running_is_never_sent_again(name: str, where: str, tmp_path: Path) -> None:
    case = UNKNOWN[name]
    async with case.make() as faulty, RawPool(ok) if where == "first" else case.make() as other:
        async with live(tmp_path, faulty.url, other.url, rules=rules(case.deadline_s)) as router:
            told = await router.ask("r-7")
        assert_maybe_running(told, case)
        assert (len(faulty.bodies), len(other.bodies)) == (case.bodies, 0)
        (row,) = router.rows()
        assert (row.request_id, row.delivery, row.status, row.slot_taken) == ("r-7", "unknown", None, True)
        assert row.cause in case.cause.split(" or ")
        logged = event(router, "send_failed")
        expected = {"request_id": "r-7", "pool": "a", "frontend": "a-0", "slot": "taken", "delivery": "unknown",
                    "cause": row.cause, "reason": "maybe_sent"}  # fmt: skip
        assert logged.items() >= expected.items()
        assert logged["error"]
        assert router.app.policy.tally.sends == {("a", "no_response"): 1}


async def test_a_second_send_that_may_be_running_is_told_as_such(tmp_path: Path) -> None:
    async with Refusing() as faulty, RawPool(raw_pool.close) as dropping:
        async with live(tmp_path, faulty.url, dropping.url) as router:
            told = await router.ask()
        assert (told.status, told.code) == (503, "maybe_running")
        assert told.headers["x-pooldrill-attempts"] == "2"
        assert told.headers["x-pooldrill-pool"] == "b"
        assert len(dropping.bodies) == 1
        assert [row.outcome for row in router.rows()] == [("unsent", "refused", None), ("unknown", "lost", None)]


@pytest.mark.parametrize("number", [200, 307, 400, 404, 408, 422, 429, 500, 502, 503, 529])
async def test_any_status_is_the_answer_unchanged(number: int, tmp_path: Path) -> None:
    async with RawPool(status(number)) as pool, RawPool(ok) as other:
        async with live(tmp_path, pool.url, other.url) as router:
            told = await router.ask()
        assert (told.status, told.code) == (number, "of_the_pool")
        assert told.headers["Retry-After"] == "7"
        assert told.headers["X-Of-Pool"] == "yes"
        assert told.headers["x-pooldrill-delivery"] == "answered"
        assert "x-should-retry" not in told.headers
        assert (len(pool.bodies), len(other.bodies)) == (1, 0)
        assert router.app.policy.tally.client_requests == {(str(number), 1): 1}


@pytest.mark.parametrize("by_reset", [False, True], ids=["fin", "rst"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_an_answer_cut_short_is_passed_on_to_its_last_byte_and_then_breaks_off(
    stream: bool, by_reset: bool, tmp_path: Path
) -> None:
    async with RawPool(cut(stream=stream, by_reset=by_reset)) as pool, RawPool(ok) as other:
        async with live(tmp_path, pool.url, other.url) as router:
            told = await router.ask(stream=stream)
        assert told.broken
        assert told.status == 200
        assert told.body == (b"".join(raw_pool.TOKENS) if stream else raw_pool.PLAIN[: len(raw_pool.PLAIN) // 2])
        assert (len(pool.bodies), len(other.bodies)) == (1, 0)
        (row,) = router.rows()
        assert row.outcome == ("answered", "reset" if by_reset else "lost", 200)
        assert row.blame == "frontend"
        assert event(router, "stream_broken")["cause"] == row.cause
        assert router.app.policy.tally.client_requests == {("200", 1): 1}


async def test_a_name_that_cannot_be_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def unknown(host: Any, *args: Any, **options: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with RawPool(ok) as good, live(tmp_path, "http://nowhere.invalid:80", good.url) as router:
        assert (await router.ask()).status == 200
        await router.settled()
    assert [row.outcome for row in router.rows()] == [("unsent", "name_lookup", None), ("answered", "", 200)]


async def test_a_pool_that_is_silent_before_tls_never_had_the_request(tmp_path: Path) -> None:
    """The same silence without TLS comes after the hand-over: nothing but the slot can tell the two apart."""
    async with RawPool(ok) as silent_before_tls, RawPool(ok) as good:
        https = silent_before_tls.url.replace("http:", "https:")
        async with live(tmp_path, https, good.url) as router:
            assert (await router.ask()).status == 200
        failed, _ = router.rows()
        assert (failed.outcome, failed.t_connected) == (("unsent", "connect_timeout", None), None)
        assert silent_before_tls.connections == 1


async def test_a_pool_that_answers_the_tls_handshake_with_http_never_had_the_request(tmp_path: Path) -> None:
    async def talks_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talks_http, "127.0.0.1", 0)
    async with server, RawPool(ok) as good:
        host, port = server.sockets[0].getsockname()
        async with live(tmp_path, f"https://{host}:{port}", good.url) as router:
            assert (await router.ask()).status == 200
        failed, _ = router.rows()
        assert (failed.outcome, failed.t_connected) == (("unsent", "tls", None), None)


async def test_a_single_pool_is_not_tried_twice(tmp_path: Path) -> None:
    async with Refusing() as faulty:
        async with live(tmp_path, faulty.url) as router:
            told = await router.ask()
        assert (told.status, told.code) == (503, "pool_unreachable")
        assert told.headers["x-pooldrill-attempts"] == "1"
        assert len(router.rows()) == 1
        assert event(router, "send_failed")["reason"] == "no_other_pool"


async def test_both_connects_fit_into_the_deadline(tmp_path: Path) -> None:
    async with BlackHole() as one, BlackHole() as other:
        limits = RouterConfig(connect_timeout_s=5.0, deadline_s=0.4)
        async with live(tmp_path, one.url, other.url, rules=limits) as router:
            told = await router.ask()
        assert (told.status, told.code) == (504, "deadline"), "the bound that ended it"
        first, second = router.rows()
        assert first.outcome == second.outcome == ("unsent", "connect_timeout", None)
        assert 0.19 < first.t_end - first.t_start < 0.39
        assert 0.39 < second.t_end - first.t_start < 2.0


async def test_a_deadline_that_has_passed_is_named(tmp_path: Path) -> None:
    async with RawPool(ok) as pool:
        async with live(tmp_path, pool.url) as router:
            told = await router.post(b'{"model": "m"}', headers={"x-pooldrill-deadline-ms": "0"})
        assert (told.status, told.code) == (504, "deadline")
        assert told.headers["x-pooldrill-delivery"] == "unsent"
        assert told.headers["x-pooldrill-attempts"] == "0"
        assert "deadline of 0 s" in told.message
        assert pool.connections == 0
        assert event(router, "request_refused")["reason"] == "deadline"


async def test_a_client_may_lower_its_deadline_but_not_raise_it(tmp_path: Path) -> None:
    async with RawPool(raw_pool.silent) as pool:
        async with live(tmp_path, pool.url, rules=rules(0.6)) as router:
            for asked_ms, bound in (("200", "0.2 s"), ("60000", "0.6 s")):
                told = await router.post(b'{"model": "m"}', headers={"x-pooldrill-deadline-ms": asked_ms})
                assert (told.status, told.code) == (504, "pool_timeout")
                assert bound in told.message
        assert pool.header("x-pooldrill-deadline-ms") == []


def assert_maybe_running(told: Seen, case: Case) -> None:
    assert (told.status, told.code) == (case.status, case.code)
    assert told.headers["x-pooldrill-delivery"] == "unknown"
    assert told.headers["x-should-retry"] == "false"
    assert told.headers["x-pooldrill-pool"] == "a"
    assert told.headers["x-pooldrill-attempts"] == "1"
    assert told.headers["x-request-id"] == "r-7"
    assert "Pool a " in told.message


def rules(deadline_s: float) -> RouterConfig:
    return RouterConfig(connect_timeout_s=0.3, deadline_s=deadline_s)


def event(router: Live, name: str) -> dict[str, Any]:
    (found,) = [line for line in router.events if line["event"] == name]
    return found
