"""The SDK's retry schedule by itself; tests/conformance holds it to the real package."""

from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.world.sdk_schedule import Result, SdkSchedule

results = st.builds(
    Result,
    status=st.none() | st.integers(400, 599),
    retry_after_s=st.none() | st.floats(-5.0, 200.0),
    should_retry=st.none() | st.booleans(),
)


def sleep_s(result: Result, *, taken: int = 0, retries_max: int = 2, seed: int = 1) -> float | None:
    schedule = SdkSchedule.openai(retries_max=retries_max)
    return schedule.sleep_before_retry_s(result, retries_taken=taken, draws=Random(seed))


@given(results, st.integers(0, 12))
def test_there_are_never_more_retries_than_allowed(result: Result, retries_max: int) -> None:
    assert sleep_s(result, taken=retries_max, retries_max=retries_max) is None


@given(results, st.integers(0, 9), st.integers(0, 1000))
def test_a_sleep_is_what_was_asked_for_or_within_its_step(result: Result, taken: int, seed: int) -> None:
    slept = sleep_s(result, taken=taken, retries_max=10, seed=seed)
    if slept is None:
        return
    asked_s = result.retry_after_s
    if asked_s is not None and 0 < asked_s <= 120:
        assert slept == asked_s
    else:
        step_s = min(0.5 * 2**taken, 8.0)
        assert 0.75 * step_s < slept <= step_s


@pytest.mark.parametrize(("retries", "mean_s", "max_s"), [(1, 0.4375, 0.5), (2, 1.3125, 1.5), (3, 3.0625, 3.5)])
def test_the_sum_of_all_sleeps(retries: int, mean_s: float, max_s: float) -> None:
    """Closed form: a step of s sleeps 7/8 s in the mean and s at most."""
    draws, schedule = Random(7), SdkSchedule.openai(retries_max=retries)
    sums = []
    for _ in range(20_000):
        sleeps = [
            schedule.sleep_before_retry_s(Result(status=503), retries_taken=taken, draws=draws) or 0.0
            for taken in range(retries)
        ]
        sums.append(sum(sleeps))
    assert fmean(sums) == pytest.approx(mean_s, rel=0.01)
    assert max(sums) <= max_s


def test_a_sleep_that_was_asked_for_draws_nothing() -> None:
    draws = Random(3)
    before = draws.getstate()
    SdkSchedule().sleep_before_retry_s(Result(status=503, retry_after_s=2.0), retries_taken=0, draws=draws)
    assert draws.getstate() == before


@pytest.mark.parametrize("status", [None, 404, 503])
def test_only_a_good_answer_becomes_a_stream(status: int | None) -> None:
    with pytest.raises(ValueError, match="only a good answer is handed to the caller"):
        Result(status=status, begun=True)


def test_a_stream_that_has_begun_is_the_callers() -> None:
    assert sleep_s(Result(status=200, begun=True)) is None
