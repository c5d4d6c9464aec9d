"""The laws of forwarding over any topology, any order of outcomes, any departure, any step of the clock."""

import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.core.forwarding import End
from router.core.refusal import Reason
from tests.router.core.worlds import OUTCOMES, SHAPES, Shape, Step, World, drawn_world

STEP: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("arrive"), st.floats(0.0, 30.0), st.integers(0, 2)),
    st.tuples(st.just("resume"), st.integers(0, 99), st.sampled_from(OUTCOMES), st.sampled_from(End)),
    st.tuples(st.just("resume"), st.integers(0, 99), st.sampled_from(OUTCOMES), st.sampled_from(End)),
    st.tuples(st.just("leave"), st.integers(0, 99)),
    st.tuples(st.just("clock"), st.floats(0.0, 20.0)),
    st.tuples(st.just("publish"), st.sampled_from(SHAPES)),
)


@settings(max_examples=250, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SHAPES), st.lists(STEP, max_size=50))
def test_the_laws_hold_in_every_world(shape: Shape, steps: list[Step]) -> None:
    World(shape).run(steps)


def test_random_worlds_reach_every_reason_and_every_departure() -> None:
    draws, saw = random.Random(1), Counter[str]()
    for _ in range(400):
        saw += drawn_world(draws, 40).saw
    reachable = set(Reason) - {Reason.OVERLOADED}
    departures = {"left at Send", "left at Relay", "left at Wait"}
    rare = {what: saw[what] for what in reachable | departures | {"second send", "wait", "relay"} if saw[what] < 20}
    assert not rare, f"the worlds say nothing about {rare}"
