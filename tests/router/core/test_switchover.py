"""Switching all traffic to another pool: playbooks of every way it can end."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core import switchover
from router.core.alarms import Alarms
from router.core.config import ConfigError, RouterConfig, Selection
from router.core.effects import Probe, Wait
from router.core.health import ProbeAnswer, ProbeOutcome
from router.core.primary import Primary
from router.core.switchover import (
    Phase,
    Switch,
    Switchboard,
    SwitchConfig,
    SwitchEnd,
    SwitchRefusedError,
)
from tests.router.core.playbook import START_S, ManualClock, pools

OK, TIMEOUT = ProbeOutcome.OK, ProbeOutcome.TIMEOUT


class Drill:
    """One switch from a to b, its clock, and what is in flight at a; answers effects and keeps the times of probes."""

    def __init__(self, target: str = "b", config: SwitchConfig | None = None) -> None:
        self.clock = ManualClock()
        rules = RouterConfig(selection=Selection.PRIMARY_BACKUP, primary="a")
        self.primary = Primary(rules, self.clock.now_s)
        self.primary.usable_changed(["a", "b", "c"], self.clock.now_s)
        self.alarms = Alarms()
        self.board = Switchboard(config or SwitchConfig(), self.primary, self.alarms, self.clock)
        self.switch = self.board.begin(pools(target)[0], self.clock.now_s)
        self.in_flight = {"a": 0}
        self.probed: list[float] = []
        self.bounds: list[float] = []
        self.woken = 0
        self._rule = switchover.switching(self.switch, self.clock, lambda: self.in_flight)
        self.effect: Probe | Wait | None = None
        self.advance(None)

    @property
    def seconds(self) -> float:
        return self.clock.now_s - START_S

    def advance(self, answer: ProbeAnswer | None) -> None:
        self.woken = 0
        try:
            self.effect = self._rule.send(answer)
        except StopIteration:
            self.effect = None
            assert self.switch.over
            return
        if isinstance(self.effect, Probe):
            self.probed.append(self.seconds)
            self.bounds.append(self.effect.until_s - self.clock.now_s)
        else:
            assert self.effect.until_s > self.clock.now_s, "a wait that is over before it begins"
            self.effect.on_wake = self._wake

    def probe(self, answer: ProbeAnswer, after_s: float = 0.001) -> "Drill":
        """Answer the pending probe, then wait until the next one, or the end."""
        assert isinstance(self.effect, Probe), repr(self.effect)
        self.clock.now_s += min(after_s, self.effect.until_s - self.clock.now_s)
        self.advance(answer)
        return self.rest()

    def rest(self) -> "Drill":
        """Sleep through the pending waits."""
        while isinstance(self.effect, Wait):
            self.clock.now_s = max(self.clock.now_s, self.effect.until_s)
            self.advance(None)
        return self

    def until(self, wanted: Callable[[], bool], answer: ProbeAnswer = OK) -> "Drill":
        """Answer all probes alike until something is so, effect by effect."""
        while not wanted():
            assert self.effect is not None, f"it ended before: {self.switch}"
            if isinstance(self.effect, Wait):
                self.clock.now_s = max(self.clock.now_s, self.effect.until_s)
                self.advance(None)
            else:
                self.advance(answer)
        return self

    def moved(self) -> "Drill":
        """Go on until the traffic has moved and the probe after that is answered."""
        return self.until(lambda: self.switch.phase is not Phase.PROBING)

    def send(self, *failures: str | None) -> "Drill":
        for failure in failures:
            self.switch.sent("b", failure, self.clock.now_s)
        if self.woken and isinstance(self.effect, Wait):
            self.advance(None)
        return self

    def close(self) -> None:
        self._rule.close()

    def _wake(self) -> None:
        self.woken += 1

    @property
    def ended(self) -> tuple[SwitchEnd | None, str]:
        return self.switch.end, self.switch.why


# ---- the way it should go


def test_three_good_probes_in_a_row_move_the_traffic() -> None:
    drill = Drill()
    for good in (1, 2):
        drill.probe(OK)
        assert (drill.primary.active, drill.switch.phase) == ("a", Phase.PROBING), good
    drill.advance(OK)
    assert drill.primary.active == "b"
    assert drill.probed == [0, 5, 10]


def test_a_bad_probe_between_makes_it_begin_again() -> None:
    drill = Drill()
    for answer in (OK, OK, TIMEOUT, OK, OK):
        drill.probe(answer)
    assert drill.primary.active == "a"
    assert drill.probe(OK).primary.active == "b"


def test_three_good_sends_verify_it() -> None:
    drill = Drill().moved()
    assert drill.switch.phase is Phase.VERIFYING, "nothing was in flight at a"
    drill.send(None, None)
    assert not drill.switch.over
    drill.send(None)
    assert drill.ended == (SwitchEnd.SWITCHED, "3 good sends in a row")
    assert drill.effect is None
    assert drill.primary.active == "b"


def test_without_traffic_it_stands_unverified() -> None:
    drill = Drill().moved()
    drill.until(lambda: drill.switch.over)
    assert drill.ended == (SwitchEnd.UNVERIFIED, "no traffic came within 30 s")
    assert drill.primary.active == "b"
    assert drill.seconds == 40


def test_with_too_little_traffic_it_stands_unverified() -> None:
    drill = Drill().moved().send(None)
    drill.until(lambda: drill.switch.over)
    assert drill.ended == (SwitchEnd.UNVERIFIED, "only 1 of 3 sends came within 30 s")


def test_verification_begins_when_the_old_pool_is_drained() -> None:
    drill = Drill()
    drill.in_flight["a"] = 2
    drill.moved()
    assert drill.switch.phase is Phase.DRAINING
    drill.send(None, None, None)
    assert not drill.switch.over, "the drain is not over"
    drill.in_flight["a"] = 0
    drill.rest()
    assert drill.ended == (SwitchEnd.SWITCHED, "3 good sends in a row")


def test_a_pool_that_is_gone_is_drained() -> None:
    drill = Drill()
    drill.in_flight.clear()
    assert drill.moved().switch.phase is Phase.VERIFYING


def alarm(drill: Drill) -> list[tuple[str, str, str, float]]:
    """Return what is raised, and when, in seconds since the start."""
    return [(a.kind, a.about, a.detail, a.since_s - START_S) for a in drill.alarms.raised()]


def test_an_unverified_switch_is_an_alarm_until_its_good_sends_come() -> None:
    drill = Drill().moved()
    assert alarm(drill) == []
    drill.until(lambda: drill.switch.over)
    assert alarm(drill) == [("unverified_switch", "b", "no traffic came within 30 s", 40)]
    events: list[float | None] = []
    drill.alarms.on_event = lambda event: events.append(event.cleared_s)
    drill.clock.now_s += 100
    for failure in (None, None, "lost", None, None):
        drill.switch.sent("b", failure, drill.clock.now_s)
        drill.switch.sent("a", failure, drill.clock.now_s)
    assert events == []
    for _ in range(4):
        drill.switch.sent("b", None, drill.clock.now_s)
    assert events == [START_S + 140], "cleared once"
    assert drill.ended == (SwitchEnd.UNVERIFIED, "no traffic came within 30 s"), "what was told stays told"


def test_the_next_switch_settles_an_unverified_one() -> None:
    drill = Drill().moved()
    drill.until(lambda: drill.switch.over)
    switch = drill.board.begin(pools("c")[0], drill.clock.now_s)
    assert len(alarm(drill)) == 1
    switch.stop(drill.clock.now_s)
    assert alarm(drill) == []


@pytest.mark.parametrize("sends", [[None] * 3, ["lost"] * 5])
def test_any_other_end_is_no_alarm(sends: list[str | None]) -> None:
    drill = Drill().moved().send(*sends)
    assert drill.switch.over
    assert alarm(drill) == []


# ---- the ways back


@pytest.mark.parametrize(
    ("answer", "words"),
    [(503, "status 503"), (TIMEOUT, "timeout"), *((o, o.value) for o in ProbeOutcome if o not in (OK, TIMEOUT))],
)
def test_five_bad_probes_in_a_row_end_it(answer: ProbeAnswer, words: str) -> None:
    drill = Drill()
    for _ in range(4):
        drill.probe(answer)
    assert not drill.switch.over
    drill.probe(answer)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, f"5 failures in a row, the last: b-0: {words}")
    assert (drill.primary.active, drill.primary.why) == ("a", "configured"), "nothing had moved"


def test_a_fast_503_does_not_end_it_at_once() -> None:
    drill = Drill()
    drill.until(lambda: drill.switch.over, 503)
    assert drill.probed == [0, 5, 10, 15, 20]


def test_a_slow_probe_delays_the_next_no_further() -> None:
    drill = Drill(config=SwitchConfig(probe_interval_s=2.0))
    drill.probe(TIMEOUT, 5.0).probe(TIMEOUT, 1.0).probe(TIMEOUT, 1.0)
    assert drill.probed == [0, 5, 7, 9]


@pytest.mark.parametrize("period", [2, 3, 4, 5])
def test_a_target_that_swings_is_ended_by_the_cap(period: int) -> None:
    drill = Drill(config=SwitchConfig(good_probes=5))
    number = 0
    while not drill.switch.over:
        drill.probe(TIMEOUT if number % period == 0 else OK, 0.5)
        number += 1
    assert drill.ended == (
        SwitchEnd.ROLLED_BACK,
        "probing was not over within 300 s in all, the last failure: b-0: timeout",
    )
    assert drill.seconds == 300
    assert drill.primary.active == "a"


def test_no_probe_reaches_beyond_the_cap() -> None:
    drill = Drill(config=SwitchConfig(total_s_max=7.0))
    drill.probe(TIMEOUT, 9.0).probe(TIMEOUT, 9.0)
    assert drill.bounds == [5, 2]
    assert drill.ended[1] == "probing was not over within 7 s in all, the last failure: b-0: timeout"


def test_a_drain_that_does_not_end_is_ended_by_the_cap() -> None:
    drill = Drill()
    drill.in_flight["a"] = 2
    drill.until(lambda: drill.switch.over)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "draining was not over within 300 s in all, 2 in flight at a")
    assert (drill.primary.active, drill.seconds) == ("a", 300)


def test_five_failed_sends_in_a_row_end_it_whatever_probes_say() -> None:
    drill = Drill().moved()
    for failed in range(4):
        drill.send("status 502")
        drill.until(lambda: isinstance(drill.effect, Probe)).advance(OK)
        assert not drill.switch.over, failed
    drill.send("status 502")
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "5 failures in a row, the last: status 502")
    assert (drill.primary.active, drill.primary.why) == ("a", "configured")


def test_five_bad_probes_after_the_move_end_it_too() -> None:
    drill = Drill().moved()
    drill.until(lambda: drill.switch.over, TIMEOUT)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "5 failures in a row, the last: b-0: timeout")
    assert drill.primary.active == "a"


def test_sends_that_swing_are_ended_by_the_cap() -> None:
    drill = Drill().moved()
    while not drill.switch.over:
        drill.send("reset", None, None)
        if isinstance(drill.effect, Wait):
            drill.rest()
        elif drill.effect is not None:
            drill.advance(OK)
    assert drill.ended == (
        SwitchEnd.ROLLED_BACK,
        "verifying was not over within 300 s in all, the last failure: reset",
    )


def test_sends_that_failed_at_first_may_still_verify_it() -> None:
    drill = Drill().moved().send("reset", None, None, None)
    assert drill.ended == (SwitchEnd.SWITCHED, "3 good sends in a row")


def test_only_the_targets_sends_count_and_only_after_the_move() -> None:
    drill = Drill()
    drill.send("lost", "lost", "lost", "lost", "lost")
    assert not drill.switch.over
    drill.moved()
    for _ in range(5):
        drill.switch.sent("a", "lost", drill.clock.now_s)
    assert not drill.switch.over
    drill.send(None, None, None)
    drill.send("lost")
    assert drill.ended[0] is SwitchEnd.SWITCHED


def test_where_the_old_pool_cannot_be_used_either_it_stays() -> None:
    drill = Drill().moved()
    drill.primary.usable_changed(["b", "c"], drill.clock.now_s)
    drill.send(*["lost"] * 5)
    assert drill.ended == (
        SwitchEnd.STUCK,
        "5 failures in a row, the last: lost; pool 'a' cannot be used now; usable: b, c",
    )
    assert drill.primary.active == "b"


def test_a_target_that_is_benched_cannot_be_switched_to() -> None:
    drill = Drill()
    drill.primary.usable_changed(["a", "c"], drill.clock.now_s)
    drill.probe(OK).probe(OK).probe(OK)
    assert not drill.switch.over
    assert drill.switch.why == "pool 'b' cannot be used now; usable: a, c"
    drill.primary.usable_changed(["a", "b", "c"], drill.clock.now_s)
    assert drill.moved().primary.active == "b"
    assert drill.switch.why == ""


@pytest.mark.parametrize("by", ["operator", "automatic"])
def test_whoever_moves_the_traffic_meanwhile_has_the_last_word(by: str) -> None:
    drill = Drill().moved()
    if by == "operator":
        drill.primary.operator_chose("c", drill.clock.now_s)
    else:
        drill.primary.usable_changed(["c"], drill.clock.now_s)
    drill.until(lambda: drill.switch.over)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, f"the traffic went to c ({by})")
    assert drill.primary.active == "c"


def five_bad_sends(drill: Drill) -> None:
    for _ in range(5):
        drill.switch.sent("b", "lost", drill.clock.now_s)


def five_bad_probes(drill: Drill) -> None:
    for _ in range(5):
        drill.switch.probed("b-0: timeout", drill.clock.now_s)


@pytest.mark.parametrize("then", [five_bad_sends, five_bad_probes, Drill.close])
def test_nothing_is_rolled_back_after_an_operators_move(then: Callable[[Drill], None]) -> None:
    drill = Drill().moved()
    drill.primary.operator_chose("c", drill.clock.now_s)
    then(drill)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "the traffic went to c (operator)")
    assert (drill.primary.active, drill.primary.why) == ("c", "operator")


def test_an_operators_move_ends_the_probing_too() -> None:
    drill = Drill().probe(OK)
    drill.primary.operator_chose("c", drill.clock.now_s)
    drill.probe(OK)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "the traffic went to c (operator)")
    assert drill.primary.active == "c"


def test_an_operators_choice_from_before_the_switch_overrules_nothing() -> None:
    drill = Drill()
    drill.close()
    drill.primary.operator_chose("c", drill.clock.now_s)
    switch = drill.board.begin(pools("b")[0], drill.clock.now_s)
    for _ in range(3):
        switch.probed(None, drill.clock.now_s)
    assert drill.primary.active == "b"


def test_a_move_by_itself_while_probing_changes_where_the_traffic_comes_from() -> None:
    drill = Drill("c").probe(OK)
    drill.primary.usable_changed(["b", "c"], drill.clock.now_s)
    assert drill.primary.active == "b"
    drill.in_flight["b"] = 1
    drill.moved()
    assert (drill.switch.phase, drill.switch.origin, drill.primary.active) == (Phase.DRAINING, "b", "c")
    for _ in range(5):
        drill.switch.sent("c", "lost", drill.clock.now_s)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "5 failures in a row, the last: lost")
    assert (drill.primary.active, drill.primary.why) == ("b", "automatic")


def test_a_move_by_itself_to_the_target_leaves_the_old_pool_the_one_to_drain() -> None:
    drill = Drill().probe(OK)
    drill.primary.usable_changed(["b", "c"], drill.clock.now_s)
    drill.in_flight["a"] = 1
    drill.moved()
    assert (drill.switch.phase, drill.switch.origin, drill.primary.why) == (Phase.DRAINING, "a", "operator")


def test_after_a_roll_back_a_timeout_moves_the_traffic_as_before() -> None:
    drill = Drill().moved().send(*["lost"] * 5)
    assert drill.primary.active == "a"
    drill.primary.timed_out("a", drill.clock.now_s, began_s=drill.clock.now_s)
    assert drill.primary.active == "b"


def test_a_benched_target_says_what_had_failed() -> None:
    drill = Drill().moved().send("lost")
    drill.primary.usable_changed(["a", "c"], drill.clock.now_s)
    drill.until(lambda: drill.switch.over)
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "the traffic went to a (automatic), the last failure: lost")


def test_nothing_moves_at_the_cap() -> None:
    drill = Drill(config=SwitchConfig(total_s_max=10.0))
    moves: list[str] = []
    drill.primary.on_move = lambda primary: moves.append(primary.active)
    drill.probe(OK).probe(OK)
    assert drill.switch.over or drill.probe(OK, 9.0).switch.over
    assert moves == []
    drill = Drill(config=SwitchConfig(good_probes=1, total_s_max=5.0))
    drill.primary.on_move = lambda primary: moves.append(primary.active)
    assert drill.probe(OK, 5.0).ended == (SwitchEnd.ROLLED_BACK, "probing was not over within 5 s in all")
    assert moves == []


@pytest.mark.parametrize(("moved", "active"), [(False, "a"), (True, "a")])
def test_a_switch_that_is_stopped_leaves_the_old_pool_active(moved: bool, active: str) -> None:
    drill = Drill()
    if moved:
        drill.moved()
        assert drill.primary.active == "b"
    drill.close()
    assert drill.ended == (SwitchEnd.ROLLED_BACK, "stopped")
    assert drill.primary.active == active


# ---- what is probed, and what is refused


def test_a_round_asks_every_frontend_for_every_model_and_stops_at_the_first_that_is_bad() -> None:
    drill = Drill("b:2=m", SwitchConfig(probe_generates=True))
    asked = []
    for answer in (OK, OK, OK, 404):
        assert isinstance(drill.effect, Probe)
        asked.append((drill.effect.frontend.name, drill.effect.model, drill.effect.generate))
        drill.advance(answer)
        drill.rest()
    assert asked == [("b-0", "m", True), ("b-1", "m", True), ("b-0", "m", True), ("b-1", "m", True)]
    assert drill.switch.why == "b-1: status 404"


def test_a_pool_without_models_is_asked_for_any() -> None:
    drill = Drill()
    assert isinstance(drill.effect, Probe)
    assert (drill.effect.model, drill.effect.generate) == ("", False)


def test_a_second_switch_is_refused_while_one_is_under_way() -> None:
    drill = Drill()
    with pytest.raises(SwitchRefusedError, match=r"a switch to b is under way \(probing\)"):
        drill.board.begin(pools("c")[0], drill.clock.now_s)
    drill.close()
    assert drill.board.begin(pools("c")[0], drill.clock.now_s).target.name == "c"


@pytest.mark.parametrize(("target", "why"), [("a", "a is active already"), ("b!", "b is draining")])
def test_a_switch_that_makes_no_sense_is_refused(target: str, why: str) -> None:
    drill = Drill()
    drill.close()
    with pytest.raises(SwitchRefusedError, match=why):
        drill.board.begin(pools(target)[0], drill.clock.now_s)


def test_it_shows_its_state() -> None:
    drill = Drill()
    assert repr(drill.switch) == "<a -> b: probing>"
    drill.close()
    assert repr(drill.switch) == "<a -> b: rolled back (stopped)>"


def test_a_switch_away_from_nothing_cannot_go_back() -> None:
    clock = ManualClock()
    primary = Primary(RouterConfig(selection=Selection.PRIMARY_BACKUP), clock.now_s)
    switch = Switch(SwitchConfig(), primary, pools("b")[0], clock.now_s)
    switch.phase = Phase.VERIFYING
    switch.at(clock.now_s, 0)
    assert switch.why == "the traffic went to no pool (configured)"


@pytest.mark.parametrize("knob", [field.name for field in fields(SwitchConfig) if field.type is float])
@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_a_time_must_be_positive_and_finite(knob: str, value: float) -> None:
    knobs: dict[str, Any] = {knob: value}
    with pytest.raises(ConfigError, match=f"{knob} must be a positive number of seconds"):
        SwitchConfig(**knobs)


@pytest.mark.parametrize("knob", ["good_probes", "good_sends", "failures_max"])
def test_a_count_must_be_positive(knob: str) -> None:
    knobs: dict[str, Any] = {knob: 0}
    with pytest.raises(ConfigError, match=f"{knob} must be at least 1, got 0"):
        SwitchConfig(**knobs)


# ---- laws, whatever happens

ANSWERS = st.sampled_from([OK, OK, OK, TIMEOUT, 503])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("answer"), ANSWERS, st.floats(0.001, 7.0)),
        st.tuples(st.just("send"), st.sampled_from([None, "lost"]), st.just(0.0)),
        st.tuples(st.just("usable"), st.sampled_from([["a", "b"], ["a"], ["b"], ["a", "b", "c"]]), st.just(0.0)),
        st.tuples(st.just("flight"), st.integers(0, 2), st.just(0.0)),
        st.tuples(st.just("close"), st.none(), st.just(0.0)),
    ),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_it_ends_in_time_and_one_pool_has_the_traffic(steps: list[tuple[str, Any, float]]) -> None:
    drill = Drill(config=SwitchConfig(total_s_max=60.0))
    for what, value, seconds in steps:
        if what == "send":
            drill.send(value)
        elif what == "usable":
            drill.primary.usable_changed(value, drill.clock.now_s)
        elif what == "flight":
            drill.in_flight["a"] = value
        elif what == "close":
            drill.close()
            assert drill.switch.over
            break
        elif isinstance(drill.effect, Probe):
            drill.probe(value, seconds)
        if drill.switch.over:
            break
    else:
        drill.until(lambda: drill.switch.over)
    assert drill.seconds <= 60.0 + 1e-6
    assert drill.switch.end is not None
    assert drill.switch.why
    if drill.switch.end in (SwitchEnd.SWITCHED, SwitchEnd.UNVERIFIED, SwitchEnd.STUCK):
        assert drill.primary.active == "b"
    gaps = [later - earlier for earlier, later in zip(drill.probed, drill.probed[1:], strict=False)]
    assert all(gap >= 5.0 - 1e-6 for gap in gaps), "probes keep their interval"
