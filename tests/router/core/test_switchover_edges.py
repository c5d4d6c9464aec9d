"""Edges of a switch: exactly at its thresholds, when each phase and end is dated, and who gave the traffic back."""

from collections.abc import Callable
from typing import Any

import pytest

from router.core.effects import Wait
from router.core.health import ProbeOutcome
from router.core.primary import Why
from router.core.switchover import Phase, SwitchConfig, SwitchEnd
from tests.router.core.playbook import START_S, pools
from tests.router.core.test_switchover import Drill

OK, TIMEOUT = ProbeOutcome.OK, ProbeOutcome.TIMEOUT


@pytest.mark.parametrize(
    ("knob", "least"),
    [
        ("total_s_max", 0.5),
        ("probe_interval_s", 0.5),
        ("probe_timeout_s", 0.5),
        ("verify_s", 0.5),
        ("good_probes", 1),
        ("good_sends", 1),
        ("failures_max", 1),
    ],
)
def test_the_least_value_of_a_knob_is_accepted(knob: str, least: float) -> None:
    knobs: dict[str, Any] = {knob: least}
    assert getattr(SwitchConfig(**knobs), knob) == least


def test_a_new_switch_says_since_when_it_probes() -> None:
    switch = Drill().switch
    assert (switch.phase, switch.since_s, switch.why) == (Phase.PROBING, START_S, "")


def test_failures_in_a_row_are_counted_from_the_last_good_probe() -> None:
    drill = Drill().probe(OK)
    for _ in range(4):
        drill.probe(TIMEOUT)
    assert not drill.switch.over
    assert drill.probe(TIMEOUT).ended[0] is SwitchEnd.ROLLED_BACK


def test_a_move_is_dated_and_the_operators() -> None:
    drill = Drill()
    drill.in_flight["a"] = 1
    drill.moved()
    assert (drill.switch.phase, drill.switch.since_s) == (Phase.DRAINING, START_S + 10)
    assert (drill.primary.active, drill.primary.why, drill.primary.since_s) == ("b", Why.OPERATOR, START_S + 10)


def test_a_drain_is_over_with_the_pool_itself() -> None:
    drill = Drill()
    drill.in_flight["a"] = 1
    drill.moved()
    while not isinstance(drill.effect, Wait):
        drill.advance(OK)
    del drill.in_flight["a"]
    drill.send(None)
    assert drill.switch.phase is Phase.VERIFYING


def test_sends_count_also_before_anybody_waits_for_them() -> None:
    drill = Drill()
    for _ in range(3):
        drill.switch.probed(None, START_S + 1)
    assert drill.switch.phase is Phase.DRAINING
    for _ in range(3):
        drill.switch.sent("b", None, START_S + 2)
    drill.switch.at(START_S + 3, 0)
    assert drill.ended == (SwitchEnd.SWITCHED, "3 good sends in a row")
    assert (drill.switch.phase, drill.switch.since_s) == (Phase.OVER, START_S + 3)


def test_the_sends_that_came_are_counted() -> None:
    drill = Drill().moved().send(None).send(None)
    drill.until(lambda: drill.switch.over)
    assert drill.ended == (SwitchEnd.UNVERIFIED, "only 2 of 3 sends came within 30 s")


def test_verification_ends_at_its_time_and_not_at_the_next_probe() -> None:
    drill = Drill(config=SwitchConfig(verify_s=7.0)).moved()
    drill.until(lambda: drill.switch.over)
    assert drill.seconds == 17


def bad_probes(drill: Drill) -> None:
    for _ in range(5):
        drill.probe(TIMEOUT)


def cap(drill: Drill) -> None:
    drill.in_flight["a"] = 1
    drill.until(lambda: drill.switch.over)


def bad_sends(drill: Drill) -> None:
    drill.moved().send(*["lost"] * 5)


def stuck(drill: Drill) -> None:
    drill.moved()
    drill.primary.usable_changed(["b"], drill.clock.now_s)
    drill.send(*["lost"] * 5)


def good_sends(drill: Drill) -> None:
    drill.moved().send(None, None, None)


def silence(drill: Drill) -> None:
    drill.moved().until(lambda: drill.switch.over)


def another_operator(drill: Drill) -> None:
    drill.moved().primary.operator_chose("c", drill.clock.now_s)
    drill.until(lambda: drill.switch.over)


def stop(drill: Drill) -> None:
    drill.moved().clock.now_s += 2
    drill.close()


@pytest.mark.parametrize(
    ("how", "end", "active"),
    [
        (bad_probes, SwitchEnd.ROLLED_BACK, "a"),
        (cap, SwitchEnd.ROLLED_BACK, "a"),
        (bad_sends, SwitchEnd.ROLLED_BACK, "a"),
        (stuck, SwitchEnd.STUCK, "b"),
        (good_sends, SwitchEnd.SWITCHED, "b"),
        (silence, SwitchEnd.UNVERIFIED, "b"),
        (another_operator, SwitchEnd.ROLLED_BACK, "c"),
        (stop, SwitchEnd.ROLLED_BACK, "a"),
    ],
)
def test_every_end_is_dated(how: Callable[[Drill], None], end: SwitchEnd, active: str) -> None:
    drill = Drill()
    how(drill)
    assert drill.ended[0] is end
    assert (drill.switch.phase, drill.primary.active) == (Phase.OVER, active)
    assert START_S < drill.switch.since_s == drill.clock.now_s


@pytest.mark.parametrize("how", [bad_sends, cap, stop])
def test_the_way_back_is_dated_and_leaves_all_as_it_was(how: Callable[[Drill], None]) -> None:
    drill = Drill()
    how(drill)
    assert (drill.primary.why, drill.primary.since_s) == (Why.CONFIGURED, drill.clock.now_s)


def test_a_refused_move_that_is_the_last_straw_is_dated() -> None:
    drill = Drill(config=SwitchConfig(good_probes=1, failures_max=1))
    drill.primary.usable_changed(["a", "c"], drill.clock.now_s)
    drill.clock.now_s += 1
    drill.advance(OK)
    assert drill.ended[0] is SwitchEnd.ROLLED_BACK
    assert drill.switch.since_s == START_S + 1


# ---- who moved the traffic meanwhile


def test_traffic_that_came_by_itself_goes_back_as_it_was() -> None:
    drill = Drill()
    drill.primary.usable_changed(["b", "c"], drill.clock.now_s)
    drill.primary.usable_changed(["a", "b", "c"], drill.clock.now_s)
    assert drill.primary.active == "b"
    drill.moved().send(*["lost"] * 5)
    assert drill.ended[0] is SwitchEnd.ROLLED_BACK
    assert (drill.primary.active, drill.primary.why) == ("a", Why.CONFIGURED)


def by_a_probe(drill: Drill) -> None:
    drill.switch.probed(None, drill.clock.now_s)


def by_a_send(drill: Drill) -> None:
    drill.switch.sent("b", None, drill.clock.now_s)


def by_time(drill: Drill) -> None:
    drill.switch.at(drill.clock.now_s, 0)


def by_a_stop(drill: Drill) -> None:
    drill.switch.stop(drill.clock.now_s)


@pytest.mark.parametrize("noticed", [by_a_probe, by_a_send, by_time, by_a_stop])
def test_that_somebody_moved_the_traffic_is_dated_however_it_is_noticed(noticed: Callable[[Drill], None]) -> None:
    drill = Drill().moved()
    drill.clock.now_s += 1
    drill.primary.operator_chose("c", drill.clock.now_s)
    noticed(drill)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "the traffic went to c (operator)")
    assert drill.switch.since_s == drill.clock.now_s


def test_traffic_that_has_nowhere_to_go_is_told_as_such() -> None:
    drill = Drill().moved()
    drill.primary.active, drill.primary.why = "", Why.AUTOMATIC
    by_time(drill)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "the traffic went to no pool (automatic)")


def test_an_alarm_that_the_next_switch_settles_is_cleared_when_that_ends() -> None:
    drill = Drill().moved()
    drill.until(lambda: drill.switch.over)
    cleared: list[float | None] = []
    drill.alarms.on_event = lambda event: cleared.append(event.cleared_s)
    switch = drill.board.begin(pools("c")[0], drill.clock.now_s)
    drill.clock.now_s += 3
    switch.stop(drill.clock.now_s)
    assert cleared == [drill.clock.now_s]


def test_a_switch_is_verified_late_by_exactly_the_sends_that_were_wanted() -> None:
    drill = Drill().moved()
    drill.until(lambda: drill.switch.over)
    for verified in (False, False, True):
        drill.switch.sent("b", None, drill.clock.now_s)
        assert drill.switch.unverified is not verified
