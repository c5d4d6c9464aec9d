"""Every live test of clients that leave, on the virtual clock; and a departure at each moment of a request's life."""

import pytest

from router.core.config import RouterConfig
from router.settings import ShellConfig
from tests.router import test_departures
from tests.virtual.laws import broken_laws
from tests.virtual.network import Cut
from tests.virtual.observed import Observed
from tests.virtual.plan import Answer, Ask, Event, Kind, NextCut, Trouble, What, World, pool_of
from tests.virtual.play import play
from tests.virtual.rows import rows_of

globals().update(rows_of(test_departures))

LATENCY_S = 0.01
STEP_S = 0.001
MOMENTS = 80
"""Moments at which the client leaves, each a round of the event loop after the other; they span the whole request."""


def left_at(moment_s: float, *, answer: Answer, events: tuple[Event, ...] = (), body_bytes: int = 60) -> Observed:
    """Let one client leave, and others ask after it, on the connections that it may have left behind."""
    left = Ask(at_s=0.1, name="left", lane=0, answer=answer, body_bytes=body_bytes, leaves_s=moment_s, upload_pieces=2)
    others = [Ask(at_s=0.3 + number / 20, name=f"r{number}", lane=1, answer=Answer()) for number in range(2)]
    world = World(
        seed=1,
        pools=(pool_of("a", 9001, 1), pool_of("b", 9002, 1)),
        rules=RouterConfig(
            connect_timeout_s=0.2, connect_slow_s=0.1, deadline_s=5.0, cooldown_s=0.1, cooldown_s_max=1.0
        ),
        shell=ShellConfig(seed=1),
        events=(left, *others, *events),
        latency_s=LATENCY_S,
        tick_s=STEP_S,
    )
    return play(world)


STAGES: dict[str, tuple[Answer, tuple[Event, ...]]] = {
    "plain": (Answer(think_s=0.01), ()),
    "stream": (Answer(kind=Kind.CHUNKED, pieces=10, pause_s=0.005), ()),
    "silent": (Answer(kind=Kind.SILENT), ()),
    "refused_first": (Answer(), (Trouble(at_s=0.0, frontend="a-0", what=What.REFUSES, for_s=9.0),)),
    "hole_first": (Answer(), (Trouble(at_s=0.0, frontend="a-0", what=What.HOLE, for_s=9.0),)),
    "cut_upload": (Answer(), (NextCut(at_s=0.0, frontend="a-0", cut=Cut(100, downstream=False, by_reset=True)),)),
    "large_body_unread": (Answer(kind=Kind.SILENT, reads_bytes=0), ()),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_may_leave_at_any_moment(stage: str) -> None:
    """Nothing is left of it, whatever was under way, and nobody else gets what was meant for it."""
    answer, events = STAGES[stage]
    large = 600_000 if stage == "large_body_unread" else 60
    seen_left = 0
    for step in range(MOMENTS):
        observed = left_at(step * STEP_S, answer=answer, events=events, body_bytes=large)
        assert broken_laws(observed) == [], f"it left after {step * STEP_S:g} s"
        seen_left += observed.heard["left"].end == "left"
    assert seen_left > MOMENTS / 4, "the moments span the request"


def test_the_pool_hears_of_it_within_a_second() -> None:
    for moment_s in (0.05, 0.1, 0.3):
        observed = left_at(moment_s, answer=Answer(kind=Kind.SILENT))
        (row,) = observed.rows_of("left")
        assert (row.delivery, row.cause) == ("unknown", "client_left")
        left_s = observed.start_s + 0.1 + 2 * LATENCY_S + moment_s
        assert row.t_end - left_s < 4 * LATENCY_S
