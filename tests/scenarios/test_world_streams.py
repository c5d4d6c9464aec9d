"""Named random streams: the same on every machine, and none shifts another."""

from hypothesis import given
from hypothesis import strategies as st

from scenarios.world.streams import stream


def test_a_stream_is_the_same_on_every_machine() -> None:
    draws = stream(1, "arrivals/0")
    assert [round(draws.random(), 12) for _ in range(3)] == [0.408091194083, 0.339147396421, 0.484139209048]


def test_purposes_and_seeds_are_apart() -> None:
    firsts = {stream(seed, purpose).random() for seed in range(50) for purpose in ("arrivals/0", "arrivals/1", "sdk")}
    assert len(firsts) == 150


@given(st.integers(0, 2**63 - 1), st.text(max_size=20), st.integers(0, 50))
def test_draws_of_another_purpose_change_nothing(seed: int, purpose: str, others: int) -> None:
    alone = stream(seed, purpose)
    beside, other = stream(seed, purpose), stream(seed, purpose + "x")
    for _ in range(others):
        other.random()
    assert alone.random() == beside.random()
