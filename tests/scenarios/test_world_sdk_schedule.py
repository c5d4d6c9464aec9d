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


def sleeps(schedule: SdkSchedule, result: Result, *, seed: int = 1) -> list[float]:
    """Return all sleeps of a call whose every request comes to this result."""
    draws, slept = Random(seed), []
    for taken in range(20):
        sleep_s = schedule.sleep_before_retry_s(result, retries_taken=taken, draws=draws)
        if sleep_s is None:
            break
        slept.append(sleep_s)
    return slept


@pytest.mark.parametrize(
    ("asked_s", "second", "third"),
    [(60.0, [60.0], [60.0]), (61.0, "own", [61.0]), (120.0, "own", [120.0]), (121.0, "own", [])],
)
def test_openai_2_and_3_differ_in_a_long_retry_after(
    asked_s: float, second: list[float] | str, third: list[float]
) -> None:
    result = Result(status=503, retry_after_s=asked_s)
    own = sleeps(SdkSchedule(retries_max=1), Result(status=503))
    assert sleeps(SdkSchedule.openai_2(retries_max=1), result) == (own if second == "own" else second)
    assert sleeps(SdkSchedule.openai(retries_max=1), result) == third


def test_aws_sleeps_with_full_jitter_and_longer_when_throttled() -> None:
    """Steps of .05 s, of 1 s when throttled, doubling, at most 20 s; each sleep uniform below its step."""
    schedule = SdkSchedule.aws(retries_max=7)
    for status, initial_s in ((503, 0.05), (429, 1.0)):
        runs = [sleeps(schedule, Result(status=status), seed=seed) for seed in range(2_000)]
        steps_s = [min(initial_s * 2**taken, 20.0) for taken in range(7)]
        for slept, step_s in zip(zip(*runs, strict=True), steps_s, strict=True):
            assert fmean(slept) == pytest.approx(step_s / 2, rel=0.05)
            assert 0.99 * step_s < max(slept) <= step_s


@pytest.mark.parametrize(
    ("result", "retried"),
    [
        (Result(), True),
        (Result(status=429), True),
        (Result(status=504), True),
        (Result(status=408), False),
        (Result(status=501), False),
        (Result(status=529), False),
        (Result(status=503, should_retry=False), True),
        (Result(status=400, should_retry=True), False),
        (Result(status=503, retry_after_s=900.0), True),
    ],
)
def test_aws_listens_to_its_own_statuses_alone(result: Result, retried: bool) -> None:
    slept = sleeps(SdkSchedule.aws(), result)
    assert bool(slept) == retried
    assert len(slept) in (0, 2)
    assert all(sleep_s <= 2.0 for sleep_s in slept)


def test_a_back_off_of_ones_own() -> None:
    schedule = SdkSchedule(retries_max=4, sleep_initial_s=0.2, factor=1.5, sleep_max_s=0.4, jitter=0.0)
    assert sleeps(schedule, Result(status=500)) == pytest.approx([0.2, 0.3, 0.4, 0.4])


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
