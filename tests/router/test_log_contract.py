"""One line for every failed or refused send, and in it everything that somebody who looks for the cause needs."""

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from router.core.config import RouterConfig
from router.core.topology import Pool
from tests.router import raw_pool
from tests.router.live import Live, live
from tests.router.raw_pool import Behaviour, BlackHole, RawPool, Refusing, cut, ok

FIELDS = {
    "stamp", "event", "request_id", "operation_id", "attempt", "pool", "frontend", "delivery", "slot", "cause", "error",
    "blame",
}  # fmt: skip
RULES = RouterConfig(connect_timeout_s=0.3, deadline_s=10.0, patience_s=0.2, cooldown=False)
IDS = {"x-request-id": "r-1", "x-pooldrill-operation-id": "op-1"}

AFTER_HAND_OVER: list[tuple[str, Behaviour, dict[str, Any]]] = [
    ("close", raw_pool.close, {"event": "send_failed", "cause": "lost", "delivery": "unknown", "blame": "frontend"}),
    ("reset", raw_pool.reset, {"event": "send_failed", "cause": "reset", "delivery": "unknown", "blame": "frontend"}),
    ("garbage", raw_pool.garbage, {"event": "send_failed", "cause": "protocol", "delivery": "unknown"}),
    ("cut", cut(stream=True, by_reset=False), {"event": "stream_broken", "cause": "lost", "delivery": "answered"}),
    ("cut off", cut(stream=False, by_reset=True), {"event": "stream_broken", "cause": "reset", "delivery": "answered"}),
]


def the_line(router: Live) -> dict[str, Any]:
    (line,) = router.events
    assert set(line) >= FIELDS, FIELDS - set(line)
    assert datetime.fromisoformat(line["stamp"]).utcoffset() is not None
    assert (line["request_id"], line["operation_id"]) == ("r-1", "op-1")
    assert (line["pool"], line["frontend"], line["attempt"]) == ("a", "a-0", 1)
    assert line["error"]
    return line


@pytest.mark.parametrize(
    ("behave", "said"), [row[1:] for row in AFTER_HAND_OVER], ids=[row[0] for row in AFTER_HAND_OVER]
)
async def test_a_send_that_failed_after_the_hand_over(behave: Behaviour, said: dict[str, Any], tmp_path: Path) -> None:
    async with RawPool(behave) as pool, live(tmp_path, pool.url, rules=RULES) as router:
        await router.post(b'{"model": "m", "stream": true}', headers=IDS)
        line = the_line(router)
        assert line["slot"] == "taken"
        assert {key: line[key] for key in said} == said


@pytest.mark.parametrize(
    ("pool", "cause"), [(Refusing, "refused"), (BlackHole, "connect_timeout")], ids=["refused", "hole"]
)
async def test_a_send_that_never_was_one(pool: type[Refusing], cause: str, tmp_path: Path) -> None:
    async with pool() as dead, live(tmp_path, dead.url, rules=RULES) as router:
        await router.post(b'{"model": "m"}', headers=IDS)
        line = the_line(router)
        assert (line["event"], line["slot"], line["delivery"], line["cause"]) == (
            "send_failed",
            "full",
            "unsent",
            cause,
        )
        assert (line["blame"], line["reason"]) == ("frontend", "no_other_pool")


@pytest.mark.parametrize(
    ("body", "code"), [(b"{}", "bad_request"), (b'{"model": "nobodys"}', "model_not_found")], ids=["body", "model"]
)
async def test_a_request_that_was_refused_before_any_send(body: bytes, code: str, tmp_path: Path) -> None:
    async with RawPool(ok) as pool:
        pools = (Pool.of_urls("a", [pool.url], ["m"]),)
        async with live(tmp_path, pools=pools, rules=RULES) as router:
            assert (await router.post(body, headers=IDS)).code == code
            (line,) = router.events
    assert (line["event"], line["request_id"], line["operation_id"]) == ("request_refused", "r-1", "op-1")
    assert (line["code"], bool(line["reason"])) == (code, True)


async def test_every_send_without_a_whole_answer_has_its_one_line(tmp_path: Path) -> None:
    behaviours = [raw_pool.close, raw_pool.reset, raw_pool.garbage, ok, cut(stream=True, by_reset=True)]
    turn = iter(behaviours * 6)

    async def each_in_turn(call: raw_pool.Call) -> None:
        await next(turn)(call)

    async with RawPool(each_in_turn) as a, Refusing() as b:
        async with live(tmp_path, a.url, b.url, rules=RULES) as router:
            for number in range(24):
                await router.ask(f"r-{number}", stream=True)
        failed = Counter((row.request_id, row.attempt) for row in router.rows() if row.cause is not None)
        told = Counter((line["request_id"], line["attempt"]) for line in router.events)
        assert failed == told
        assert len(failed) > 24
        assert set(told.values()) == {1}
