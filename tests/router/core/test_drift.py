"""Clocks that are apart: our own, each source's, and what cannot be told."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.alarms import Alarm, AlarmKind, Alarms
from router.core.config import ConfigError
from router.core.drift import Drift, DriftConfig, Reading, checking_clocks, own_offset_s
from router.core.effects import Failed, Fetch, Wait
from tests.router.core.playbook import START_S, ManualClock, Playbook, after, wait

WALL_S = 1_800_000_000.0


def reading(offset_s: float) -> Reading:
    """Return what a source says whose clock is so far ahead of ours."""
    return Reading(source_s=WALL_S + offset_s, asked_s=WALL_S, answered_s=WALL_S)


class Checks:
    """Checks one after the other, a second apart, with every alarm that was raised or cleared."""

    def __init__(self, **knobs: Any) -> None:
        self.alarms = Alarms()
        self.events: list[Alarm] = []
        self.alarms.on_event = self.events.append
        self.drift = Drift(DriftConfig(**knobs), self.alarms)
        self.now_s = 0.0

    def check(self, **offsets_s: float | str) -> "Checks":
        """Make one check: an offset for each source, or why it is silent."""
        self.now_s += 1
        answers = {name: Failed(o) if isinstance(o, str) else reading(o) for name, o in offsets_s.items()}
        self.drift.measured(answers, self.now_s)
        return self

    @property
    def told(self) -> list[tuple[str, float, float | None]]:
        return [(event.about, event.since_s, event.cleared_s) for event in self.events]


# ---- our own offset


@pytest.mark.parametrize(
    ("offsets_s", "own_s"),
    [
        ([], None),
        ([0.0], None),
        ([0.0, 0.4], 0.2),
        ([0.0, 1.0], 0.5),
        ([0.0, 1.1], None),
        ([0.0, 40.0], None),
        ([0.0, 0.2, 40.0], 0.2),
        ([-40.0, 0.0, 0.2], 0.0),
        ([-40.0, 0.0, 40.0], None),
        ([39.5, 40.0, 40.2], 40.0),
        ([0.0, 0.0, 9.0, 9.0], None),
        ([0.0, 0.0, 0.4, 9.0], 0.2),
        ([0.0, 0.0, 0.0, 9.0, 9.0], 0.0),
    ],
)
def test_it_is_the_median_of_the_sources_if_two_agree(offsets_s: list[float], own_s: float | None) -> None:
    found = own_offset_s(reversed(offsets_s), agree_s=1.0)
    assert found == (own_s if own_s is None else pytest.approx(own_s))


@given(st.lists(st.floats(-100, 100), max_size=9), st.floats(-50, 50))
def test_it_lies_between_two_sources_that_agree(offsets_s: list[float], own_s: float) -> None:
    found = own_offset_s(offsets_s, agree_s=1.0)
    if found is None:
        return
    below, above = [o for o in offsets_s if o <= found], [o for o in offsets_s if o >= found]
    assert below
    assert above
    assert len(below) >= len(offsets_s) / 2
    assert len(above) >= len(offsets_s) / 2


def test_a_clock_that_is_right_is_told_from_one_that_cannot_be_told() -> None:
    assert repr(Checks().check(a=0.0, b=0.2).drift) == "<Drift +0.1 s from 2 sources>"
    assert repr(Checks().check(a=0.0).drift) == "<Drift cannot tell from 1 sources>"


def test_our_own_drift_is_raised_and_cleared_once() -> None:
    checks = Checks()
    for own_s in (0.0, 4.9, 5.1, 40.0, 6.0, 5.0, 0.0):
        checks.check(a=own_s, b=own_s)
    assert checks.told == [("own", 3, None), ("own", 3, 6)]
    assert checks.events[0].detail == "+5.1 s"


def test_a_clock_that_is_behind_drifts_too() -> None:
    assert Checks().check(a=-6.0, b=-6.0).told == [("own", 1, None)]


def test_what_cannot_be_told_neither_raises_nor_clears() -> None:
    checks = Checks().check(a=40.0, b=40.0).check(a="timeout", b="timeout").check(a="timeout", b=40.0)
    assert [event.about for event in checks.events if event.about == "own"] == ["own"]
    assert checks.drift.own_s is None
    assert ("own", 1, 4) in checks.check(a=0.0, b=0.0).told


# ---- sources by themselves


def test_one_pool_with_a_wrong_clock_is_that_pools_drift() -> None:
    checks = Checks().check(a=40.0, b=0.0, c=0.1)
    assert checks.drift.own_s == pytest.approx(0.1)
    assert checks.drift.of("a") == pytest.approx(39.9)
    assert checks.told == [("source a", 1, None)]
    assert checks.check(a=0.0, b=0.0, c=0.1).told == [("source a", 1, None), ("source a", 1, 2)]


def test_a_wrong_clock_of_our_own_is_no_pools_drift() -> None:
    checks = Checks().check(a=40.0, b=40.0, c=39.5)
    assert [round(checks.drift.of(source), 1) for source in "abc"] == [0.0, 0.0, -0.5]
    assert [about for about, *_ in checks.told] == ["own"]


def test_where_our_own_cannot_be_told_a_source_is_held_against_our_clock() -> None:
    checks = Checks().check(a=40.0, b=0.0)
    assert checks.drift.of("a") == 40
    assert checks.told == [("source a", 1, None)]


def test_a_source_that_is_silent_keeps_its_alarm_and_one_that_is_gone_does_not() -> None:
    checks = Checks().check(a=40.0, b=0.0, c=0.0).check(a="refused", b=0.0, c=0.0)
    assert checks.drift.silent == {"a": "refused"}
    assert checks.told == [("source a", 1, None)]
    assert checks.check(b=0.0, c=0.0).told == [("source a", 1, None), ("source a", 1, 3)]


# ---- readings


def test_a_date_header_is_half_a_second_more_and_as_uncertain() -> None:
    date = Reading(source_s=WALL_S + 10, asked_s=WALL_S, answered_s=WALL_S + 0.4, resolution_s=1.0)
    assert date.offset_s == pytest.approx(10.3)
    assert date.error_s_max == pytest.approx(0.7)


@given(st.floats(-100, 100), st.floats(0, 2), st.floats(0, 1), st.sampled_from([0.0, 1.0]))
def test_an_offset_is_right_within_its_error(true_s: float, trip_s: float, share: float, resolution_s: float) -> None:
    source_s = WALL_S + trip_s * share + true_s
    cut_s = float(int(source_s)) if resolution_s else source_s
    found = Reading(source_s=cut_s, asked_s=WALL_S, answered_s=WALL_S + trip_s, resolution_s=resolution_s)
    assert abs(found.offset_s - true_s) <= found.error_s_max + 1e-6


def test_a_wall_clock_that_is_set_back_meanwhile_gives_no_negative_error() -> None:
    assert Reading(source_s=WALL_S, asked_s=WALL_S, answered_s=WALL_S - 4).error_s_max == 2


# ---- the loop


def test_every_source_is_asked_at_once_and_then_on_the_interval() -> None:
    clock, drift = ManualClock(), Drift(DriftConfig(), Alarms())
    loop = Playbook(checking_clocks(drift, clock, lambda: ["ntp", "a"]))
    for begin in (0, 600):
        for source in ("ntp", "a"):
            assert isinstance(loop.step, Fetch)
            assert (loop.step.source, loop.step.until_s) == (source, clock.now_s + 5)
            loop >>= after(clock, 1, reading(0.0) if source == "ntp" else Failed("timeout"))
        assert (drift.sources, drift.silent) == ({"ntp": 0.0}, {"a": "timeout"})
        assert loop << wait(begin + 600) >> after(clock, 598)


def test_a_check_that_takes_longer_than_the_interval_is_followed_at_once() -> None:
    clock, drift = ManualClock(), Drift(DriftConfig(check_interval_s=1.0), Alarms())
    loop = Playbook(checking_clocks(drift, clock, lambda: ["a"]))
    loop >>= after(clock, 3, Failed("timeout"))
    assert isinstance(loop.step, Wait)
    assert loop.step.until_s == START_S + 3


@pytest.mark.parametrize("knob", [field.name for field in fields(DriftConfig)])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_knob_must_be_positive_and_finite(knob: str, value: float) -> None:
    knobs: dict[str, Any] = {knob: value}
    with pytest.raises(ConfigError, match=f"{knob} must be a positive number of seconds"):
        DriftConfig(**knobs)


def test_its_alarm_is_a_drift_alarm() -> None:
    assert Checks().check(a=9.0, b=9.0).alarms.count(AlarmKind.DRIFT) == 1
