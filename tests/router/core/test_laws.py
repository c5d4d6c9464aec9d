"""The laws of the decisions over any topology, any knobs, any order of outcomes, any departure, any clock."""

import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.core.config import RouterConfig
from router.core.effects import End
from router.core.refusal import Reason
from tests.router.core.worlds import CONFIGS, OUTCOMES, SESSIONS, SHAPES, Shape, Step, World, drawn_world

RESUME = st.tuples(st.just("resume"), st.integers(0, 99), st.sampled_from(OUTCOMES), st.sampled_from(End))
STEP: st.SearchStrategy[Step] = st.one_of(
    st.tuples(
        st.just("arrive"),
        st.floats(0.0, 30.0),
        st.integers(0, 2),
        st.sampled_from(SESSIONS),
        st.integers(0, 120),
    ),
    RESUME,
    RESUME,
    st.tuples(st.just("leave"), st.integers(0, 99)),
    st.tuples(st.just("trial"), st.integers(0, 99), st.sampled_from(["ok", "timeout", "status"])),
    st.tuples(st.just("stop"), st.integers(0, 99)),
    st.tuples(st.just("clock"), st.floats(0.0, 20.0)),
    st.tuples(st.just("publish"), st.sampled_from(SHAPES)),
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SHAPES), st.sampled_from(CONFIGS), st.lists(STEP, max_size=50))
def test_the_laws_hold_in_every_world(shape: Shape, config: RouterConfig, steps: list[Step]) -> None:
    World(shape, config).run(steps)


def test_random_worlds_reach_every_reason_and_every_departure() -> None:
    draws, saw = random.Random(1), Counter[str]()
    for _ in range(250):
        saw += drawn_world(draws, 60).saw
    departures = {f"left at {effect}" for effect in ("Send", "Relay", "Waiting")}
    stops = {f"stopped at {effect}" for effect in ("Connect", "Probe", "Wait")}
    others = {"second send", "wait", "relay", "Connect", "Probe", "tried alone"}
    rare = {what: saw[what] for what in set(Reason) | departures | stops | others if saw[what] < 20}
    assert not rare, f"the worlds say nothing about {rare}"
