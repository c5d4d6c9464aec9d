"""When operations arrive and what they ask, in open loop, each load entry with draws of its own."""

from itertools import islice, pairwise, repeat
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.spec import Load
from scenarios.world import blocks
from scenarios.world.arrivals import Ask, Phase, arrivals, asks, phased


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


def test_the_draws_of_poisson_arrivals_are_those_that_records_were_made_with() -> None:
    times = arrivals(Load(rate_rps=20.0, start_s=0.5, end_s=1.0, arrivals="poisson"), 7, 2)
    assert [round(t, 9) for t in times[:4]] == [0.631984871, 0.653459503, 0.703310514, 0.710278257]


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gamma_arrivals_have_the_rate_and_the_cv_that_they_were_given(cv: float) -> None:
    times = arrivals(Load(rate_rps=100.0, start_s=1.0, end_s=401.0, arrivals="gamma", cv=cv), 3, 0)
    gaps = [b - a for a, b in pairwise(times)]
    assert fmean(gaps) == pytest.approx(0.01, rel=4 * cv / len(gaps) ** 0.5)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.06)
    assert all(1.0 <= t < 401.0 for t in times)


def test_several_entries_add_up_to_phases_and_spikes() -> None:
    base = Load(rate_rps=2.0, start_s=0.0, end_s=10.0)
    spike = Load(rate_rps=10.0, start_s=4.0, end_s=5.0)
    both = sorted(arrivals(base, 1, 0) + arrivals(spike, 1, 1))
    assert [sum(start <= t < start + 1 for t in both) for start in range(10)] == [2, 2, 2, 2, 12, 2, 2, 2, 2, 2]


def test_a_stream_of_phases_keeps_its_gaps_through_a_change_of_rate() -> None:
    """Gaps of 1 at rate 1, with a second of rate 3 and one of nothing: the gaps that are cut go on where they were."""
    phases = [Phase(0.0, 2.5, 1.0), Phase(2.5, 3.5, 3.0), Phase(3.5, 4.5, 0.0), Phase(4.5, 6.4, 1.0)]
    times = list(phased(repeat(1.0), phases))
    assert times == pytest.approx([1.0, 2.0, 2.5 + 0.5 / 3, 2.5 + 1.5 / 3, 2.5 + 2.5 / 3, 5.0, 6.0])


@pytest.mark.parametrize("cv", [1.0, 2.5])
def test_a_stream_of_phases_has_the_rates_of_its_phases(cv: float) -> None:
    phases = [Phase(0.0, 100.0, 50.0), Phase(100.0, 150.0, 200.0), Phase(150.0, 300.0, 20.0)]
    times = list(phased(blocks.gamma(blocks.generator(4, "arrivals/x"), cv=cv), phases))
    for start_s, end_s, rate_rps in phases:
        count = sum(start_s <= t < end_s for t in times)
        assert count == pytest.approx((end_s - start_s) * rate_rps, rel=5 * cv / ((end_s - start_s) * rate_rps) ** 0.5)
    assert times == sorted(times)


def test_what_operations_ask_is_drawn_apart_from_when_they_come() -> None:
    plain = Load(rate_rps=20.0, start_s=0.0, end_s=5.0, arrivals="poisson")
    rich = Load(
        rate_rps=20.0,
        start_s=0.0,
        end_s=5.0,
        arrivals="poisson",
        sessions=5,
        prompt_cv2=1.3,
        output_cv2=2.0,
    )
    assert arrivals(plain, 1, 0) == arrivals(rich, 1, 0)
    assert list(islice(asks(plain, 1, 0), 2)) == [Ask(None, 1155, 211)] * 2
    drawn = list(islice(asks(rich, 1, 0), 8_000))
    assert {ask.session for ask in drawn} == {f"s0-{number}" for number in range(5)}
    assert fmean(ask.prompt_tokens for ask in drawn) == pytest.approx(1155, rel=0.06)
    assert fmean(ask.output_tokens for ask in drawn) == pytest.approx(211, rel=0.08)
    assert min(min(ask.prompt_tokens, ask.output_tokens) for ask in drawn) >= 1


def test_no_knob_shifts_the_draws_of_another() -> None:
    def drawn(**knobs: object) -> list[Ask]:
        fields = {"sessions": 5, "prompt_cv2": 1.0, "output_cv2": 1.0} | knobs
        return list(islice(asks(Load(rate_rps=1.0, start_s=0.0, end_s=5.0, **fields), 1, 0), 50))  # type: ignore[arg-type]

    base = drawn()
    assert [ask[1:] for ask in drawn(sessions=0)] == [ask[1:] for ask in base]
    assert [(ask.session, ask.output_tokens) for ask in drawn(prompt_cv2=0.0)] == [(a.session, a[2]) for a in base]
    assert [ask[:2] for ask in drawn(output_cv2=0.0)] == [ask[:2] for ask in base]
