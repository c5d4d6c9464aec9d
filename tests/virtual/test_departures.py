"""Every live test of clients that leave, on the virtual clock; and a departure at each moment of a request's life."""

import pytest

from router.core.config import RouterConfig
from router.settings import ShellConfig
from tests.router import test_departures
from tests.virtual.laws import broken_laws
from tests.virtual.network import Cut
from tests.virtual.plan import Answer, Ask, Event, Kind, NextCut, Trouble, What, World, pool_of
from tests.virtual.play import Observed, play
from tests.virtual.rows import rows_of

globals().update(rows_of(test_departures))

LATENCY_S = 0.01
STEPS = 60
"""Moments at which the client leaves; together they span the whole request."""


def left_at(moment_s: float, *, answer: Answer, events: tuple[Event, ...] = (), body_bytes: int = 60) -> Observed:
    ask = Ask(at_s=0.1, name="r0", lane=0, answer=answer, body_bytes=body_bytes, leaves_s=moment_s, upload_pieces=2)
    world = World(
        seed=1,
        pools=(pool_of("a", 9001, 1), pool_of("b", 9002, 1)),
        rules=RouterConfig(
            connect_timeout_s=0.2, connect_slow_s=0.1, deadline_s=5.0, cooldown_s=0.1, cooldown_s_max=1.0
        ),
        shell=ShellConfig(seed=1),
        events=(ask, *events),
        latency_s=LATENCY_S,
    )
    return play(world)


STAGES: dict[str, tuple[Answer, tuple[Event, ...]]] = {
    "plain": (Answer(think_s=0.05), ()),
    "stream": (Answer(kind=Kind.CHUNKED, pieces=10, pause_s=0.02), ()),
    "silent": (Answer(kind=Kind.SILENT), ()),
    "refused_first": (Answer(), (Trouble(at_s=0.0, frontend="a-0", what=What.REFUSES, for_s=9.0),)),
    "hole_first": (Answer(), (Trouble(at_s=0.0, frontend="a-0", what=What.HOLE, for_s=9.0),)),
    "cut_upload": (Answer(), (NextCut(at_s=0.0, frontend="a-0", cut=Cut(100, downstream=False, by_reset=True)),)),
    "large_body_unread": (Answer(kind=Kind.SILENT, reads_bytes=0), ()),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_may_leave_at_any_moment(stage: str) -> None:
    """Nothing is left of it, whatever was under way, and it is counted once, as what it was."""
    answer, events = STAGES[stage]
    large = 600_000 if stage == "large_body_unread" else 60
    seen_left = 0
    for step in range(STEPS):
        observed = left_at(step * LATENCY_S / 2, answer=answer, events=events, body_bytes=large)
        assert broken_laws(observed) == []
        told = observed.tally.client_requests
        assert sum(told.values()) <= 1, "one request, counted once; none where its head had not come"
        seen_left += observed.heard["r0"].end == "left"
    assert seen_left > STEPS / 8, "the moments span the request"


def test_the_pool_hears_of_it_within_a_second() -> None:
    for moment_s in (0.05, 0.1, 0.3):
        observed = left_at(moment_s, answer=Answer(kind=Kind.SILENT))
        (row,) = observed.rows
        assert (row.delivery, row.cause) == ("unknown", "client_left")
        left_s = observed.start_s + 0.1 + 2 * LATENCY_S + moment_s
        assert row.t_end - left_s < 4 * LATENCY_S
