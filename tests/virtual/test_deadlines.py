"""Every time-out at its real length, in milliseconds: what a live test would have to wait minutes for.

The bounds are the defaults that users run with; each is kept to a few latencies. The live tests of faults, streams and
uploads, with their short bounds, run here too.
"""

from dataclasses import replace

import pytest

from router.core.config import RouterConfig
from router.settings import ShellConfig
from router.upstream.connection import UPLOAD_LOOKS
from tests.router import test_faults, test_intake, test_streams, test_timeouts
from tests.virtual.clients import Heard
from tests.virtual.laws import broken_laws
from tests.virtual.observed import Observed
from tests.virtual.plan import Answer, Ask, Break, Event, Kind, Trouble, What, World, pool_of
from tests.virtual.play import play
from tests.virtual.rows import rows_of

# Threads are outside: names are looked up in them, and a pool that is to race with the router runs in one.
NEED_A_MACHINE = (
    "test_a_name_that_cannot_be_looked_up",
    "test_an_early_answer_is_passed_on_though_a_write_meets_the_reset_first",
)
globals().update(rows_of(test_faults, test_streams, test_intake, test_timeouts, but=NEED_A_MACHINE))

LATENCY_S = 0.001
WITHIN_S = 0.1
DEFAULTS = RouterConfig()
DAY_S = 86_400.0


def asked(ask: Ask, *events: Event, pools: int = 2, rules: RouterConfig = DEFAULTS) -> tuple[Heard, Observed]:
    world = World(
        seed=1,
        pools=tuple(pool_of(name, 9001 + number, 1) for number, name in enumerate("abcd"[:pools])),
        rules=rules,
        shell=ShellConfig(seed=1),
        events=(ask, *events),
        latency_s=LATENCY_S,
    )
    observed = play(world, end_s=DAY_S, looks_s=10.0)
    assert broken_laws(observed) == []
    return observed.heard[ask.name], observed


def an_ask(answer: Answer, **more: object) -> Ask:
    return replace(Ask(at_s=0.0, name="r0", lane=0, answer=answer), **more)  # type: ignore[arg-type] # fields of it


def took_s(heard: Heard) -> float:
    return heard.ended_s - heard.began_s


def hole(*frontends: str) -> list[Event]:
    return [Trouble(at_s=0.0, frontend=one, what=What.HOLE, for_s=DAY_S) for one in frontends]


def test_a_silent_pool_is_waited_for_until_the_first_byte_is_late() -> None:
    heard, observed = asked(an_ask(Answer(kind=Kind.SILENT)))
    assert took_s(heard) == pytest.approx(DEFAULTS.first_byte_timeout_s, abs=WITHIN_S)
    assert (heard.reading.status, heard.code) == (504, "unknown")
    assert observed.rows[0].cause == "first_byte"


def test_without_that_time_out_it_is_waited_for_until_the_deadline() -> None:
    heard, observed = asked(an_ask(Answer(kind=Kind.SILENT)), rules=replace(DEFAULTS, first_byte_timeout_s=0.0))
    assert took_s(heard) == pytest.approx(DEFAULTS.deadline_s, abs=WITHIN_S)
    assert (heard.reading.status, heard.code) == (504, "unknown")
    assert observed.rows[0].cause == "deadline"


def test_a_clients_own_deadline_ends_it_to_the_moment() -> None:
    for asked_ms in (1, 10, 250, 60_000):
        heard, _ = asked(an_ask(Answer(kind=Kind.SILENT), deadline_ms=asked_ms))
        assert took_s(heard) == pytest.approx(asked_ms / 1000, abs=0.02)


def test_a_black_hole_costs_one_connect_time_out() -> None:
    heard, observed = asked(an_ask(Answer()), *hole("a-0"))
    assert took_s(heard) == pytest.approx(DEFAULTS.connect_timeout_s, abs=WITHIN_S)
    assert [row.cause for row in observed.rows] == ["connect_timeout", None]
    assert heard.reading.status == 200


def test_two_black_holes_cost_two_and_are_said_to_be_unsent() -> None:
    heard, observed = asked(an_ask(Answer()), *hole("a-0", "b-0"))
    assert took_s(heard) == pytest.approx(2 * DEFAULTS.connect_timeout_s, abs=WITHIN_S)
    assert (heard.reading.status, heard.code) == (503, "unsent")
    assert [row.cause for row in observed.rows] == ["connect_timeout", "connect_timeout"]


def test_both_connects_fit_into_a_short_deadline() -> None:
    heard, observed = asked(an_ask(Answer(), deadline_ms=4_000), *hole("a-0", "b-0"))
    first, second = observed.rows
    assert first.t_end - first.t_start == pytest.approx(2.0, abs=WITHIN_S)
    assert second.t_end - first.t_start == pytest.approx(4.0, abs=WITHIN_S)
    assert took_s(heard) == pytest.approx(4.0, abs=WITHIN_S)
    assert (heard.reading.status, heard.code) == (504, "unsent")


@pytest.mark.parametrize("kind", [Kind.CHUNKED, Kind.PLAIN])
def test_a_pool_that_falls_silent_is_given_the_idle_time_out(kind: Kind) -> None:
    answer = Answer(kind=kind, pieces=5, piece_bytes=100, pause_s=7.0, breaks_at=300, breaks_by=Break.SILENCE)
    heard, observed = asked(an_ask(answer))
    heard_s = 7.0 * (-(-len(heard.reading.body) // 100) - (kind is Kind.PLAIN))
    assert took_s(heard) == pytest.approx(heard_s + DEFAULTS.idle_timeout_s, abs=WITHIN_S)
    assert heard.end in {"fin", "reset"}
    assert observed.rows[0].cause == "idle"


def test_a_stream_with_a_word_now_and_then_may_last_until_the_deadline() -> None:
    answer = Answer(kind=Kind.CHUNKED, pieces=20, pause_s=DEFAULTS.idle_timeout_s - 1.0)
    heard, observed = asked(an_ask(answer))
    assert not heard.clean
    assert took_s(heard) == pytest.approx(DEFAULTS.deadline_s, abs=WITHIN_S)
    assert observed.rows[0].cause == "deadline"
    heard, _ = asked(an_ask(answer), rules=replace(DEFAULTS, deadline_s=DAY_S))
    assert heard.clean
    assert took_s(heard) > 1.5 * 3600


def test_a_bound_on_the_whole_answer_is_named() -> None:
    answer = Answer(kind=Kind.CHUNKED, pieces=20, pause_s=1.0)
    heard, observed = asked(an_ask(answer), rules=replace(DEFAULTS, total_timeout_s=10.5))
    assert took_s(heard) == pytest.approx(10.5, abs=WITHIN_S)
    assert observed.rows[0].cause == "total"
    assert bytes(heard.reading.body).count(b"\n\n") == 10


def test_while_nothing_is_usable_requests_wait_for_the_patience_and_no_longer() -> None:
    rules = replace(DEFAULTS, cooldown_failures=1, cooldown_s=30.0)
    first = an_ask(Answer(kind=Kind.DROPPED))
    second = an_ask(Answer(), at_s=1.0, name="r1", lane=1)
    down = Trouble(at_s=0.5, frontend="a-0", what=What.REFUSES, for_s=100.0)
    _, observed = asked(first, second, down, pools=1, rules=rules)
    waited = observed.heard["r1"]
    assert took_s(waited) == pytest.approx(rules.patience_s, abs=WITHIN_S)
    assert (waited.reading.status, waited.code) == (503, "unsent")
    assert 1 <= int(waited.reading.headers["retry-after"]) <= 60


def test_a_pool_that_returns_within_the_patience_gets_who_waited() -> None:
    rules = replace(DEFAULTS, cooldown_failures=1, cooldown_s=30.0)
    first = an_ask(Answer(kind=Kind.DROPPED))
    second = an_ask(Answer(), at_s=1.0, name="r1", lane=1)
    down = Trouble(at_s=0.5, frontend="a-0", what=What.REFUSES, for_s=1.5)
    _, observed = asked(first, second, down, pools=1, rules=rules)
    waited = observed.heard["r1"]
    assert waited.reading.status == 200
    assert 1.0 <= took_s(waited) < 1.0 + rules.trial_pause_s + WITHIN_S


def test_a_pool_that_reads_nothing_of_a_large_body_is_given_the_upload_time_out() -> None:
    heard, observed = asked(an_ask(Answer(kind=Kind.SILENT, reads_bytes=0), body_bytes=2_000_000))
    bound_s = DEFAULTS.upload_timeout_s
    assert bound_s <= took_s(heard) <= bound_s * (1 + 1 / UPLOAD_LOOKS) + WITHIN_S
    assert (heard.reading.status, heard.code) == (504, "unknown")
    assert [row.cause for row in observed.rows] == ["upload"]
