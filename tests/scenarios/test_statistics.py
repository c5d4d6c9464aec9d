"""Intervals against tables and against their own coverage."""

import math
from random import Random

import numpy as np
import pytest

from scenarios.statistics import (
    REPLICATIONS_MIN,
    by_class,
    enough,
    mean_interval,
    paired_interval,
    replication_seed,
    t_quantile,
    wilson,
)

COLLAPSED = ("metastable",)


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 3, 3.18245),
        (0.975, 7, 2.36462),
        (0.975, 9, 2.26216),
        (0.975, 30, 2.04227),
        (0.975, 199, 1.97196),
        (0.95, 9, 1.83311),
        (0.995, 9, 3.24984),
        (0.5, 9, 0.0),
        (0.025, 9, -2.26216),
    ],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: int, expected: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(expected, abs=1e-4)


def test_an_interval_covers_the_mean_as_often_as_it_says() -> None:
    draws = Random(1)
    covered = 0
    for _ in range(1000):
        interval = mean_interval([draws.gauss(10, 3) for _ in range(10)])
        covered += interval.low <= 10 <= interval.high
    assert covered / 1000 == pytest.approx(0.95, abs=0.02)


def test_an_interval_of_three_by_hand() -> None:
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.half_width == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    assert (interval.low, interval.high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)


def test_one_replication_tells_no_spread() -> None:
    interval = mean_interval([4.0])
    assert (interval.mean, interval.half_width, interval.narrow) == (4.0, math.inf, False)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 100, 0.0018, 0.0545)],
)
def test_wilsons_interval(hits: int, count: int, low: float, high: float) -> None:
    assert wilson(hits, count) == pytest.approx((low, high), abs=1e-3)


def test_pairs_cancel_what_both_arms_share() -> None:
    """Common random numbers: the noise is the same in both, the difference is exact."""
    draws = Random(2)
    noise = [draws.gauss(0, 5) for _ in range(10)]
    difference = paired_interval([value + 0.1 for value in noise], noise)
    assert difference.mean == pytest.approx(0.1)
    assert difference.half_width < 1e-9
    assert mean_interval(noise).half_width > 1


def test_seeds_of_replications_are_all_their_own_and_stay_what_they_are() -> None:
    seeds = [replication_seed(7, replication) for replication in range(1000)]
    assert len(set(seeds)) == 1000
    assert seeds[0] == 7
    assert all(0 <= seed < 2**63 for seed in seeds)
    drawn = np.random.SeedSequence(7, spawn_key=(3,)).generate_state(1, np.uint64)[0]
    assert seeds[3] == int(drawn >> 1)
    assert replication_seed(8, 3) != seeds[3]


def test_there_are_enough_when_every_measure_is_narrow() -> None:
    draws = Random(3)
    classes = ["degraded"] * 60
    values = [10 + draws.gauss(0, 1) for _ in classes]
    narrow = next(count for count in range(2, 61) if enough(classes[:count], {"m": values[:count]}, COLLAPSED))
    assert REPLICATIONS_MIN < narrow < 30
    assert not enough(classes[:9], {"m": [10.0] * 9}, COLLAPSED), "never fewer than the least"
    assert enough(classes[:10], {"m": [0.0] * 10}, COLLAPSED), "a share of 0 has no relative width"


def test_a_mixture_is_never_averaged() -> None:
    """Half of the runs collapse: within each class nothing varies, but their share is not known after ten runs."""
    classes = ["degraded", "metastable"] * 100
    values = {"goodput": [0.99, 0.0] * 100}
    assert by_class(classes[:4], values["goodput"][:4]) == {"degraded": [0.99, 0.99], "metastable": [0.0, 0.0]}
    stop = next(
        count for count in range(10, 201) if enough(classes[:count], {"g": values["goodput"][:count]}, COLLAPSED)
    )
    assert 80 < stop < 120
    assert enough(["metastable"] * 10, {"goodput": [0.0] * 10}, COLLAPSED), "all collapsed is no mixture"


def test_wilsons_interval_ends_exactly_where_nothing_or_everything_was_hit() -> None:
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0
