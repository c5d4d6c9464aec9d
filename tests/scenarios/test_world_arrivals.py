"""When operations arrive: even and Poisson, in open loop, each load entry with draws of its own."""

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.spec import Load
from scenarios.world.arrivals import arrivals


def test_even_arrivals_are_a_grid() -> None:
    assert arrivals(Load(rate_rps=4.0, start_s=1.0, end_s=2.5), 1, 0) == [1.0, 1.25, 1.5, 1.75, 2.0, 2.25]


@pytest.mark.parametrize(
    ("rate_rps", "length_s", "count"), [(10.0, 0.3, 3), (10.0, 0.7, 7), (3.0, 1.0, 3), (50, 5, 250)]
)
def test_even_arrivals_are_rate_times_length_in_spite_of_binary_fractions(
    rate_rps: float, length_s: float, count: int
) -> None:
    assert len(arrivals(Load(rate_rps=rate_rps, start_s=0.1, end_s=0.1 + length_s), 1, 0)) == count


def test_even_arrivals_need_no_seed() -> None:
    load = Load(rate_rps=7.0, start_s=0.0, end_s=3.0)
    assert arrivals(load, 1, 0) == arrivals(load, 2, 5)


@given(st.integers(0, 2**63 - 1), st.floats(0.5, 200.0), st.floats(0.0, 10.0), st.floats(0.1, 10.0))
def test_poisson_arrivals_ascend_within_their_span(seed: int, rate_rps: float, start_s: float, length_s: float) -> None:
    load = Load(rate_rps=rate_rps, start_s=start_s, end_s=start_s + length_s, arrivals="poisson")
    times = arrivals(load, seed, 0)
    assert all(a < b for a, b in pairwise(times))
    assert all(start_s <= t < load.end_s for t in times)
    assert times == arrivals(load, seed, 0)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_their_law() -> None:
    """20,000 gaps: their mean is 1/rate, and their standard deviation equals it, each within 4 standard errors."""
    times = arrivals(Load(rate_rps=100.0, start_s=0.0, end_s=200.0, arrivals="poisson"), 3, 0)
    gaps = [b - a for a, b in pairwise(times)]
    mean_s = fmean(gaps)
    spread_s = fmean((gap - mean_s) ** 2 for gap in gaps) ** 0.5
    assert abs(mean_s - 0.01) < 4 * 0.01 / len(gaps) ** 0.5
    assert abs(spread_s - 0.01) < 4 * 0.01 * (2 / len(gaps)) ** 0.5


def test_entries_and_seeds_draw_apart() -> None:
    load = Load(rate_rps=20.0, start_s=0.0, end_s=5.0, arrivals="poisson")
    drawn = [tuple(arrivals(load, seed, index)) for seed, index in ((1, 0), (1, 1), (2, 0))]
    assert len(set(drawn)) == 3


def test_a_longer_load_begins_as_the_shorter_one_does() -> None:
    short, long = (Load(rate_rps=20.0, start_s=0.0, end_s=end_s, arrivals="poisson") for end_s in (2.0, 4.0))
    first = arrivals(short, 1, 0)
    assert arrivals(long, 1, 0)[: len(first)] == first
