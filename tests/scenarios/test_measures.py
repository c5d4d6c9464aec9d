"""Measures on runs that were made up to have known answers, and on records of the model."""

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from scenarios.checks import CHECKS, judge
from scenarios.load import LoadError, parse
from scenarios.measures import checks, recovery
from scenarios.measures.history import Attempts, FaultSpan, History, Operations, Sends, bools, floats, ints
from scenarios.measures.measured import NO_CONTROL, Measured, Undecided
from scenarios.measures.names import PLAIN, is_measure
from scenarios.measures.of_record import NO_POOL_EVENTS, NO_SENDS, of_record
from scenarios.measures.recovery import Arrivals, class_of, recovery_of
from scenarios.measures.scalars import every_measure, measure
from scenarios.measures.series import bins, queue_at, series_of
from scenarios.record import Arms, Meta, PoolEvent, Record, Send
from scenarios.spec import Scenario
from tests.scenarios.doctored import modelled, without

SCENARIO = """
name = "made_up"
title = "Four operations at one slot"
seed = 1
duration_s = 100.0
model_only = "queues"
slo = { total_s = 3.0 }
pools = [{ id = "a", slots = 1, cancel = "never", service = { kind = "deterministic", mean_s = 2.0 } }, { id = "b" }]
load = [{ rate_rps = 1.0, start_s = 0.0, end_s = 100.0 }]
layers = [
  { name = "sdk", retries = 1, attempt_timeout_s = 3.0, timeout_covers = "whole" },
  { name = "gateway", retries = 1 },
]
faults = [{ kind = "capacity_loss", share = 1.0, pool = "a", inject_s = 0.5, clear_s = 10.0 }]
expect = { measures = { send_amplification = [1.5, 1.5] }, run_class = "degraded" }
"""
nan = math.nan


def scenario(text: str = SCENARIO) -> Scenario:
    return parse(text, Path("made_up.toml"))


def four() -> History:
    """Arrivals at 0, 1, 2, 3. The second is tried twice and orphaned once, the third waits, the fourth is rejected."""
    return History(
        operations=Operations(
            t_s=floats([0, 1, 2, 3]),
            first_s=floats([2, 8, 6, nan]),
            end_s=floats([2, 8, 6, 3.5]),
            ok=bools([True, True, True, False]),
        ),
        sends=Sends(
            operation=ints([0, 1, 2, 3, 1, 3]),
            pool=ints([0, 0, 0, 0, 0, 1]),
            start_s=floats([0, 1, 2, 3, 4, 3.2]),
            left_s=floats([2, 3, 6, 3, 8, 3.5]),
            entered=bools([True, True, True, False, True, False]),
            work_s=floats([0, 2, 4, nan, 6, nan]),
            free_s=floats([2, 4, 6, nan, 8, nan]),
            ok=bools([True, False, True, False, True, False]),
            tokens=floats([10, 10, 10, 0, 10, 0]),
        ),
        attempts={
            "sdk": Attempts(operation=ints([0, 1, 2, 3, 1]), start_s=floats([0, 1, 2, 3, 4])),
            "gateway": Attempts(operation=ints([0, 1, 2, 3, 1, 3]), start_s=floats([0, 1, 2, 3, 4, 3.2])),
        },
        pools=("a", "b"),
        faults=(FaultSpan(pool=0, start_s=0.5, end_s=10.0),),
        end_s=10.0,
        lacks={},
    )


def test_each_measure_of_a_run_that_can_be_counted_by_hand() -> None:
    told = every_measure(Measured(scenario(), four()))
    assert told == pytest.approx(
        {
            "operations": 4,
            "send_amplification": 1.5,
            "queue_amplification": 1.0,
            "sends_max": 2,
            "entries_max": 2,
            "goodput": 0.25,  # the second and the third are too late for the SLO, the fourth failed
            "goodput_before_fault": 1.0,
            "goodput_during_fault": 0.0,
            "first_request_s": 7.0,
            "queue_max": 1,  # who leaves at a moment has left before anybody comes
            "queue_mean": (1 + 2 + 2) / 10,
            "orphaned_share": 1 / 8,
            "wasted_tokens": 10,
            "total_mean_s": (2 + 7 + 4) / 3,
            "total_p50_s": 4,
            "total_p99_s": 6.94,
            "ttft_p50_s": 4,
            "ttft_p99_s": 6.94,
            "attempts_sdk": 1.25,
            "attempts_gateway": 1.5,
        }
    ), "no recovery time: no window of 200 arrivals is whole"


def test_what_was_cancelled_in_a_queue_has_left_it() -> None:
    gone = replace(four().sends, work_s=floats([0, 2, nan, nan, 6, nan]), free_s=floats([2, 4, 5, nan, 8, nan]))
    assert queue_at(replace(four(), sends=gone), floats([4.5, 5.5])).tolist() == [2, 1]


def test_work_for_who_left_while_queued_is_for_nobody_from_its_begin() -> None:
    early = replace(four().sends, left_s=floats([2, 1.5, 6, 3, 8, 3.5]))
    history = replace(four(), sends=early)
    assert measure(Measured(scenario(), history), "orphaned_share") == 2 / 8


def test_a_censored_recovery_is_infinite() -> None:
    run = arrivals(down_from_s=0.5, up_from_s=math.inf)
    operations = Operations(t_s=run.t_s, first_s=run.t_s, end_s=run.t_s + 1, ok=run.good)
    text = SCENARIO.replace("end_s = 100.0 }]", "end_s = 200.0 }]").replace("= 100.0", "= 200.0")
    assert measure(Measured(scenario(text), replace(four(), operations=operations)), "recovery_s") == math.inf


def test_the_warm_up_is_left_out() -> None:
    told = every_measure(Measured(scenario(), replace(four(), warm_up_s=1.5)))
    assert (told["operations"], told["send_amplification"], told["goodput"]) == (2, 1.5, 0.0)
    assert told["first_request_s"] == 4.0


def test_what_cannot_be_told_says_why() -> None:
    lacking = replace(four(), lacks={"sends": "no sends", "entries": "no rows", "work": "no starts"})
    for name, why in (
        ("send_amplification", "no sends"),
        ("first_request_s", "no sends"),
        ("queue_amplification", "no rows"),
        ("queue_max", "no starts"),
        ("orphaned_share", "no starts"),
        ("control_goodput", NO_CONTROL),
        ("attempts_mesh", "the run has no layer mesh; it has sdk, gateway"),
        ("goodput_after_fault_60_120", "nothing to measure"),
    ):
        with pytest.raises(Undecided, match=why):
            measure(Measured(scenario(), lacking), name)
    quiet = Measured(scenario(), replace(four(), faults=()))
    for name in ("recovery_s", "first_request_s", "goodput_during_fault"):
        with pytest.raises(Undecided, match="no fault"):
            measure(quiet, name)


def test_a_control_arm_of_other_arrivals_is_none() -> None:
    other = replace(four(), operations=replace(four().operations, t_s=floats([0, 1, 2, 4])))
    with pytest.raises(Undecided, match="other arrivals"):
        measure(Measured(scenario(), four(), other), "control_goodput")
    assert measure(Measured(scenario(), four(), four()), "control_goodput") == 0.25


def test_a_window_after_the_fault_and_the_names_of_measures() -> None:
    early = replace(four(), faults=(FaultSpan(pool=0, start_s=0.1, end_s=0.5),))
    assert measure(Measured(scenario(), early), "goodput_after_fault_0_1") == 0.0
    assert is_measure("goodput_after_fault_60_120")
    assert is_measure("attempts_gateway")
    assert not is_measure("attempts_")
    assert not is_measure("goodputs")


def test_series_over_time() -> None:
    history = four()
    series = series_of(history, Measured(scenario(), history).good, floats(range(11)))
    assert series.arrivals.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert series.sends.tolist() == [1, 1, 1, 2, 1, 0, 0, 0, 0, 0]
    assert series.entries.tolist() == [1, 1, 1, 0, 1, 0, 0, 0, 0, 0]
    assert series.attempts["gateway"].tolist() == [1, 1, 1, 2, 1, 0, 0, 0, 0, 0], "also where nothing arrives"
    assert series.amplification["gateway"][:4].tolist() == [1, 1, 1, 2]
    assert np.isnan(series.amplification["gateway"][4])
    assert series.goodput[:4].tolist() == [1, 0, 0, 0]
    assert series.queue["a"].tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert series.queue["b"].tolist() == [0] * 11
    assert series.orphaned[:8].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert np.isnan(series.orphaned[8])


def test_bins_are_round_and_cover_the_run() -> None:
    assert bins(10.0)[1] == 0.1
    assert bins(100.0)[1] == 1.0
    assert bins(99.5)[-1] >= 99.5
    assert len(bins(36_000)) <= 152


# ---- recovery and class


def arrivals(*, down_from_s: float, up_from_s: float, rate: int = 10, end_s: float = 200.0) -> Arrivals:
    """Even arrivals, all good but for those between two moments; the control arm is all good."""
    times = np.arange(0, end_s, 1 / rate)
    good = (times < down_from_s) | (times >= up_from_s)
    return Arrivals(t_s=times, good=good, expected=np.ones(len(times)), load_end_s=end_s)


def test_recovery_is_the_first_arrival_whose_window_is_good() -> None:
    """A window of 30 s holds 300 arrivals, of which 15 may be bad: it begins 1.5 s before all is well."""
    found = recovery_of(arrivals(down_from_s=50, up_from_s=90), fault_end_s=60)
    assert found is not None
    assert not found.censored
    assert found.seconds == pytest.approx(28.5, abs=0.11)
    assert str(found) == f"{found.seconds:.1f} s"


def test_a_window_holds_200_arrivals_where_they_are_rare() -> None:
    """At one a second 30 s are not enough: 10 of 200 may be bad, so it begins 10 s before all is well."""
    found = recovery_of(arrivals(down_from_s=50, up_from_s=90, rate=1, end_s=600), fault_end_s=60)
    assert found is not None
    assert found.seconds == pytest.approx(20, abs=1.1)


def test_a_run_that_does_not_recover_is_censored_and_a_short_one_tells_nothing() -> None:
    down = arrivals(down_from_s=50, up_from_s=math.inf)
    found = recovery_of(down, fault_end_s=60)
    assert found is not None
    assert found.censored
    assert found.seconds == pytest.approx(110, abs=0.2)
    assert str(found) == "not within 110.0 s"
    assert recovery_of(down, fault_end_s=170.1) is None
    assert (
        recovery_of(replace(down, t_s=down.t_s[:600], good=down.good[:600], expected=down.expected[:600]), 60) is None
    )


def test_what_the_control_arm_fails_too_is_not_asked_for() -> None:
    run = arrivals(down_from_s=50, up_from_s=math.inf)
    expected = run.expected.copy()
    expected[(run.t_s >= 60) & (np.arange(len(run.t_s)) % 2 == 0)] = 0
    half = replace(run, good=expected.astype(bool), expected=expected)
    found = recovery_of(half, fault_end_s=60)
    assert found is not None
    assert found.seconds == 0


def judged(run: Arrivals, closed_form_s: float | None = None, horizon_s: float | None = None) -> str | None:
    return class_of(run, fault_start_s=50, fault_end_s=60, closed_form_s=closed_form_s, horizon_s=horizon_s).run_class


def test_every_class() -> None:
    well = arrivals(down_from_s=0, up_from_s=0)
    assert judged(well) == "unaffected"
    assert judged(arrivals(down_from_s=50, up_from_s=60)) == "degraded"
    assert judged(arrivals(down_from_s=50, up_from_s=90)) == "recovers"
    assert judged(arrivals(down_from_s=50, up_from_s=90), closed_form_s=20) == "recovers"
    slow = arrivals(down_from_s=50, up_from_s=150)
    assert judged(slow, closed_form_s=50) == "recovers"
    assert judged(slow, closed_form_s=40) == "metastable"
    never = arrivals(down_from_s=50, up_from_s=math.inf)
    assert judged(never, closed_form_s=math.inf) == "metastable"
    assert judged(never, closed_form_s=50) == "metastable"
    assert judged(never, horizon_s=200) == "metastable"
    assert judged(replace(never, expected=never.good.astype(float))) == "overloaded_anyway"


def test_too_early_to_tell_names_what_would_tell() -> None:
    never = arrivals(down_from_s=50, up_from_s=math.inf)
    found = class_of(never, fault_start_s=50, fault_end_s=60, closed_form_s=100, horizon_s=None)
    assert found.run_class is None
    seen = "not recovered within the 110.0 s that can be judged (load ends at 200 s)"
    assert found.why == f"{seen}; too early to tell: run on until 290 s"
    found = class_of(never, fault_start_s=50, fault_end_s=60, closed_form_s=50, horizon_s=None)
    assert (found.run_class, found.why) == ("metastable", f"{seen}, longer than its bound of 100.0 s")
    found = class_of(never, fault_start_s=50, fault_end_s=60, closed_form_s=None, horizon_s=None)
    assert (found.run_class, found.why.endswith("give horizon_s")) == (None, True)


def test_a_quick_recovery_is_never_metastable() -> None:
    """Within one window nothing is told apart."""
    assert judged(arrivals(down_from_s=50, up_from_s=90), closed_form_s=0.1) == "recovers"
    assert recovery.BOUND_MIN_S == recovery.WINDOW_S


def test_a_short_run_is_judged_by_its_fault_alone() -> None:
    short = arrivals(down_from_s=50, up_from_s=60, end_s=70)
    assert judged(short) == "degraded"
    assert judged(arrivals(down_from_s=0, up_from_s=0, end_s=70)) == "unaffected"


def test_without_a_control_arm_the_level_before_the_fault_stands_in() -> None:
    times = np.arange(0, 200, 0.1)
    good = (times < 50) | (times >= 90)
    good[::10] = False  # a tenth is bad at all times
    history = replace(
        four(),
        operations=Operations(t_s=times, first_s=times + 0.1, end_s=times + 0.1, ok=good),
        faults=(FaultSpan(pool=0, start_s=50, end_s=60),),
    )
    text = SCENARIO.replace("end_s = 100.0 }]", "end_s = 200.0 }]").replace("duration_s = 100.0", "duration_s = 200.0")
    found = Measured(scenario(text), history).recovery
    assert found is not None
    assert found.seconds == pytest.approx(28.5, abs=0.2)
    assert Measured(scenario(text), history).judged.run_class == "recovers"
    nothing_before = replace(history, warm_up_s=50.0)
    with pytest.raises(Undecided, match="nothing arrived before the fault"):
        Measured(scenario(text), nothing_before).judged  # noqa: B018 - the property raises


def test_the_closed_form_takes_the_backlog_of_the_run_and_the_worst_case_of_the_stack() -> None:
    """mu = 0.5, lambda = 1: never. Nobody waits at the fault's end: at once."""
    assert Measured(scenario(), four()).closed_form_s is None, "pool b has no slots: its capacity is not known"
    one = scenario(SCENARIO.replace(', { id = "b" }', ""))
    assert Measured(one, four()).closed_form_s == 0
    waiting = replace(four(), sends=replace(four().sends, work_s=floats([0, 2, nan, nan, nan, nan])))
    waiting = replace(waiting, sends=replace(waiting.sends, free_s=floats([2, 4, nan, nan, nan, nan])))
    assert queue_at(waiting, floats([10.0])).tolist() == [2]
    assert Measured(one, waiting).closed_form_s == math.inf


# ---- records and checks


@pytest.mark.parametrize("drill", ["refused", "black_hole", "cut"])
def test_a_record_is_measured_as_its_rows_say(drill: str) -> None:
    record = modelled(drill) if drill != "cut" else modelled("mid_stream_drop_raw")
    told = every_measure(Measured(record.scenario, of_record(record)))
    assert told["operations"] == len(record.operations)
    assert told["send_amplification"] == len(record.sends) / len(record.operations)
    bodies = {(event.request_id, event.frontend) for event in record.pool_events if event.kind == "started"}
    assert told["queue_amplification"] == len(bodies) / len(record.operations)
    assert told["goodput"] == sum(operation.ok for operation in record.operations) / len(record.operations)
    assert told["attempts_client"] == len(record.requests) / len(record.operations)


def test_the_first_request_after_the_fault_waits_for_one_connect() -> None:
    record = modelled("black_hole")
    first_s = measure(Measured(record.scenario, of_record(record)), "first_request_s")
    assert first_s == pytest.approx(record.scenario.router.connect_timeout_s + 0.19, abs=0.1)


def test_a_record_that_lacks_rows_is_undecided() -> None:
    record = modelled("refused")
    assert of_record(without(record, PoolEvent)).lacks == {"entries": NO_POOL_EVENTS, "work": NO_POOL_EVENTS}
    assert of_record(without(record, Send)).lacks == {"sends": NO_SENDS}
    assert "work" in of_record(without(record, PoolEvent, lambda event: event.kind == "started")).lacks


def test_the_verdict_on_measures() -> None:
    measured = Measured(scenario(), four())
    assert checks.measures_verdict(measured).passed
    wrong = SCENARIO.replace("[1.5, 1.5]", "[1.0, 1.2]")
    verdict = checks.measures_verdict(Measured(scenario(wrong), four()))
    assert (verdict.state, verdict.detail) == ("fail", "send_amplification 1.5, expected 1 to 1.2")
    open_ = SCENARIO.replace("send_amplification = [1.5, 1.5]", "control_goodput = [0, 1]")
    verdict = checks.measures_verdict(Measured(scenario(open_), four()))
    assert (verdict.state, verdict.detail) == ("undecided", f"control_goodput: {NO_CONTROL}")


def test_the_verdict_on_the_class() -> None:
    def verdict(expected: str, up_from_s: float, *, control: bool = True) -> tuple[str, str]:
        text = SCENARIO.replace("end_s = 100.0 }]", "end_s = 200.0 }]").replace("= 100.0", "= 200.0")
        run = arrivals(down_from_s=0.5, up_from_s=up_from_s)
        history = replace(four(), operations=Operations(t_s=run.t_s, first_s=run.t_s, end_s=run.t_s + 1, ok=run.good))
        fine = replace(history, operations=replace(history.operations, ok=bools(run.expected)))
        asked = scenario(text.replace('"degraded"', f'"{expected}"'))
        found = checks.class_verdict(Measured(asked, history, fine if control else None))
        return found.state, found.detail

    assert verdict("degraded", 10)[0] == "pass"
    assert verdict("recovers", 60)[0] == "pass"
    state, detail = verdict("degraded", 60)
    assert (state, detail.endswith("expected degraded")) == ("fail", True)
    assert verdict("metastable", math.inf)[0] == "undecided", "neither horizon nor closed form"
    assert verdict("degraded", 10, control=False)[0] == "pass", "against its own level before the fault"


def test_both_checks_are_asked_for_by_the_scenario_and_undecided_otherwise() -> None:
    record = modelled("refused")
    assert not {"expected_measures", "expected_class"} & set(judge(record))
    for name in ("expected_measures", "expected_class"):
        assert CHECKS[name](record).state == "undecided"
    asking = Record(replace_scenario(record), record.rows)
    asking.arms = Arms(of_record(record), of_record(record))
    found = judge(asking)
    assert found["expected_measures"].passed
    assert found["expected_class"].passed


def replace_scenario(record: Record) -> Meta:
    expect = msgspec.structs.replace(
        record.scenario.expect, measures={"send_amplification": (1.0, 1.5)}, run_class="unaffected"
    )
    return msgspec.structs.replace(record.meta, scenario=msgspec.structs.replace(record.scenario, expect=expect))


def test_a_measure_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(LoadError, match=r"there is no such measure; remedy: did you mean send_amplification\?"):
        scenario(SCENARIO.replace("send_amplification", "send_amplificaton"))
    assert all(map(is_measure, PLAIN))
