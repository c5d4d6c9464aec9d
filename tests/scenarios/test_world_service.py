"""How much work a request is: profiles worked out by hand, laws of random services by their moments."""

from itertools import islice
from random import Random
from statistics import fmean, pvariance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.world import blocks
from scenarios.world.service import PROFILES, Kind, Profile, Work, drawn_s, lognormal
from scenarios.world.streams import stream


def test_prefill_reads_what_is_not_cached_and_decode_writes_all_but_the_first() -> None:
    profile = Profile(overhead_s=0.1, prompt_token_s=0.001, token_gap_s=0.02)
    assert profile.work(200, 11) == pytest.approx((0.3, 0.5))
    assert profile.work(200, 11, cached_tokens=150) == pytest.approx((0.15, 0.35))
    assert profile.work(200, 1, cached_tokens=200) == pytest.approx((0.1, 0.1))
    assert profile.work(200, 0, cached_tokens=900) == Work(0.1, 0.1)


@pytest.mark.parametrize(
    ("name", "overhead_s", "prompt_token_s", "token_gap_s"),
    [
        ("8b-h100", (0.025, 0.040), (0.15e-3, 0.30e-3), (0.010, 0.015)),
        ("70b-tp8", (0.060, 0.100), (0.4e-3, 0.6e-3), (0.018, 0.028)),
    ],
)
def test_profiles_lie_within_what_is_told_of_them(
    name: str,
    overhead_s: tuple[float, float],
    prompt_token_s: tuple[float, float],
    token_gap_s: tuple[float, float],
) -> None:
    profile = PROFILES[name]
    assert overhead_s[0] <= profile.overhead_s <= overhead_s[1]
    assert prompt_token_s[0] <= profile.prompt_token_s <= prompt_token_s[1]
    assert token_gap_s[0] <= profile.token_gap_s <= token_gap_s[1]


@pytest.mark.parametrize(("kind", "cv2"), [("deterministic", 0.0), ("exponential", 1.0), ("lognormal", 4.0)])
def test_simple_services_have_mean_and_spread_of_their_law(kind: Kind, cv2: float) -> None:
    """One draw a request, each from a stream of its own: 40,000 of them."""
    drawn = [drawn_s(kind, 2.0, cv2=cv2, draws=stream(3, f"service/{turn}")) for turn in range(40_000)]
    # The variance of a lognormal's sample mean and variance is large: bounds by 4 standard errors, computed by hand.
    assert fmean(drawn) == pytest.approx(2.0, rel=0.04)
    assert pvariance(drawn) == pytest.approx(4.0 * cv2, rel=0.35 if kind == "lognormal" else 0.06)
    assert min(drawn) > 0


@given(st.floats(0.01, 100.0), st.floats(0.01, 10.0))
def test_a_lognormal_has_the_median_of_its_law(mean: float, cv2: float) -> None:
    """The median is mean / sqrt(1 + cv2), exactly where the normal draw is 0."""

    class Zero(Random):
        def normalvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
            return mu + 0.0 * sigma

    assert lognormal(mean, cv2=cv2, draws=Zero()) == pytest.approx(mean / (1 + cv2) ** 0.5)


BLOCKS = {
    "uniform": lambda draws, block: blocks.uniform(draws, block=block),
    "exponential": lambda draws, block: blocks.exponential(draws, 0.3, block=block),
    "gamma": lambda draws, block: blocks.gamma(draws, 0.3, cv=2.5, block=block),
    "lognormal": lambda draws, block: blocks.lognormal(draws, 0.3, cv2=2.5, block=block),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_size_of_blocks_changes_no_bit(name: str) -> None:
    made = [list(islice(BLOCKS[name](blocks.generator(7, name), block), 9_000)) for block in (1, 7, 4_096, 9_000)]
    assert made[0] == made[1] == made[2] == made[3]


@pytest.mark.parametrize("name", BLOCKS)
def test_streams_of_blocks_do_not_shift_each_other(name: str) -> None:
    alone = list(islice(BLOCKS[name](blocks.generator(7, "a"), 4_096), 5_000))
    one, other = BLOCKS[name](blocks.generator(7, "a"), 4_096), blocks.uniform(blocks.generator(7, "b"))
    beside = []
    for value in islice(one, 5_000):
        beside.append(value)
        next(other)
    assert beside == alone
    assert alone != list(islice(BLOCKS[name](blocks.generator(8, "a"), 4_096), 5_000))


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [("uniform", 0.5, 1 / 12), ("exponential", 0.3, 0.09), ("gamma", 0.3, 0.5625), ("lognormal", 0.3, 0.225)],
)
def test_blocks_have_mean_and_spread_of_their_law(name: str, mean: float, variance: float) -> None:
    drawn = np.array(list(islice(BLOCKS[name](blocks.generator(5, name), 4_096), 400_000)))
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.var() == pytest.approx(variance, rel=0.12)


def test_a_lognormal_without_spread_is_its_mean() -> None:
    draws = blocks.lognormal(blocks.generator(1, "x"), 2.5, cv2=0.0)
    assert list(islice(draws, 3)) == [2.5, 2.5, 2.5]
    assert list(islice(blocks.constant(4.0), 2)) == [4.0, 4.0]
