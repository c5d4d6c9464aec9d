"""The end of the router at its real lengths: SIGTERM at any moment, and a second one."""

import pytest

from router.core.config import RouterConfig
from router.settings import ShellConfig
from tests.virtual.laws import broken_laws
from tests.virtual.observed import Observed
from tests.virtual.plan import Answer, Ask, Kind, Signal, World, pool_of
from tests.virtual.play import play

DRAIN_S = ShellConfig().drain_timeout_s
STREAM = Answer(kind=Kind.CHUNKED, pieces=10, pause_s=1.0)
"""Takes 12 s."""
MOMENTS = 40


def signalled(
    answer: Answer, *, at_s: float, again_s: float | None = None, later: int = 0, old: bool = False
) -> Observed:
    """Ask once at 0 s, and `later` times at 5, 6, ... s; the signal comes at `at_s`."""
    asks = [Ask(at_s=0.0, name="r0", lane=0, answer=answer, old=old)]
    asks += [Ask(at_s=5.0 + number, name=f"r{number + 1}", lane=number + 1, answer=Answer()) for number in range(later)]
    world = World(
        seed=1,
        pools=(pool_of("a", 9001, 1), pool_of("b", 9002, 1)),
        rules=RouterConfig(),
        shell=ShellConfig(seed=1),
        events=(*asks, Signal(at_s=at_s, again_s=again_s)),
        latency_s=0.001,
    )
    observed = play(world, end_s=10_000.0, looks_s=1.0)
    assert broken_laws(observed) == []
    return observed


def took_s(observed: Observed) -> float:
    return observed.drained_s - observed.signalled_s


def test_a_running_stream_ends_whole_and_then_the_router_does() -> None:
    observed = signalled(STREAM, at_s=2.0)
    assert observed.heard["r0"].clean
    assert took_s(observed) == pytest.approx(10.0, abs=0.5)
    assert [row.cause for row in observed.rows] == [None]


def test_a_stream_that_does_not_end_is_cut_at_the_drain_time_out() -> None:
    observed = signalled(Answer(kind=Kind.CHUNKED, pieces=500, pause_s=1.0), at_s=2.0)
    heard = observed.heard["r0"]
    assert heard.end in {"fin", "reset"}
    assert took_s(observed) == pytest.approx(DRAIN_S, abs=0.5)
    assert len(heard.reading.body) > 30 * 50, "what had come until then was passed on"


def test_a_second_signal_ends_it_at_once() -> None:
    observed = signalled(STREAM, at_s=2.0, again_s=3.0)
    assert observed.heard["r0"].end in {"fin", "reset"}
    assert took_s(observed) == pytest.approx(3.0, abs=0.25)


def test_two_signals_at_one_moment_end_it_at_once() -> None:
    observed = signalled(STREAM, at_s=2.0, again_s=0.0)
    assert took_s(observed) < 0.25


@pytest.mark.parametrize("again_s", [None, 3.0], ids=["time_out", "second_signal"])
def test_to_a_client_of_http_1_0_a_cut_stream_does_not_look_whole(again_s: float | None) -> None:
    """For it the end of the connection is the end of the answer: only a reset shows that something is missing."""
    endless = Answer(kind=Kind.CHUNKED, pieces=500, pause_s=1.0)
    observed = signalled(endless, at_s=2.0, again_s=again_s, old=True)
    assert observed.heard["r0"].end == "reset"
    assert observed.heard["r0"].reading.body


def test_a_router_without_work_ends_at_once() -> None:
    assert took_s(signalled(Answer(), at_s=30.0)) < 0.25


def test_after_the_signal_nobody_gets_in() -> None:
    observed = signalled(STREAM, at_s=4.0, later=3)
    assert [observed.heard[f"r{number}"].end for number in (1, 2, 3)] == ["refused"] * 3
    assert observed.heard["r0"].clean
    assert {served.name for served in observed.served} == {"r0"}


def test_a_request_before_its_head_is_drained_too() -> None:
    observed = signalled(Answer(think_s=20.0), at_s=1.0)
    assert observed.heard["r0"].clean
    assert took_s(observed) == pytest.approx(19.0, abs=0.5)


@pytest.mark.parametrize("answer", [Answer(), STREAM, Answer(kind=Kind.UNTIL_CLOSE, pieces=3)], ids=lambda a: a.kind)
def test_whenever_it_comes_a_request_is_answered_whole_or_was_never_taken(answer: Answer) -> None:
    for step in range(MOMENTS):
        observed = signalled(answer, at_s=step * 0.0005)
        heard = observed.heard["r0"]
        assert heard.clean or not observed.served, f"{heard} with a signal after {step * 0.5} ms"


def test_a_client_that_is_idle_does_not_hold_up_the_end() -> None:
    asks = (Ask(at_s=0.0, name="r0", lane=0, answer=Answer()), Ask(at_s=50.0, name="r1", lane=0, answer=Answer()))
    world = World(
        seed=1,
        pools=(pool_of("a", 9001, 1),),
        shell=ShellConfig(seed=1),
        events=(*asks, Signal(at_s=10.0)),
        latency_s=0.001,
    )
    observed = play(world)
    assert broken_laws(observed) == []
    assert took_s(observed) < 0.25
    assert observed.heard["r1"].end == "refused"
