"""The measures of the queue-level model: what theory says of them, and that columns and record tell the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios.layers import Backoff, Layer
from scenarios.measures.checks import measured_of
from scenarios.measures.history import floats
from scenarios.measures.measured import Measured
from scenarios.measures.of_record import of_record
from scenarios.measures.scalars import every_measure, measure
from scenarios.measures.series import queue_at
from scenarios.record import read, record_path
from scenarios.spec import Fault, Pool, Scenario, Service, Slo
from simulator.chain import run as run_chain
from simulator.chain.run import record_of
from simulator.history import history_of
from simulator.run import run
from tests.simulator.chains import chain, pool

MU = 300.0


def outage(rate_rps: float, *, until_s: float = 100.0, retries: int = 1, **knobs: Any) -> Scenario:
    """One retry, 1 s of patience, an outage from 20 to 30 s of everything: work that nobody waits for is finished."""
    return chain(
        Layer(name="sdk", retries=retries, attempt_timeout_s=1.0),
        rate_rps=rate_rps,
        operations=int(rate_rps * until_s),
        arrivals="poisson",
        pools=(pool(mean_s=1 / MU, **({"cancel": "never"} | knobs)),),
        faults=(Fault(kind="capacity_loss", pool="east", inject_s=20.0, clear_s=30.0, share=1.0),),
        slo=Slo(total_s=1.0),
        horizon_s=until_s,
    )


def measured(scenario: Scenario) -> Measured:
    return Measured(scenario, history_of(run_chain(scenario)), history_of(run_chain(scenario, faults=False)))


def hole(**knobs: Any) -> Scenario:
    """A gateway connects again and again to a pool that hangs, until it answers; there is more load than it can."""
    return chain(
        Layer(name="sdk", retries=1, attempt_timeout_s=30.0),
        Layer(name="gateway", retries=2, attempt_timeout_s=1.5, timeout_covers="connect"),
        rate_rps=20.0,
        operations=1200,
        pools=(pool(mean_s=0.06),),
        faults=(Fault(kind="black_hole", pool="east", inject_s=10.0, clear_s=12.0),),
        slo=Slo(total_s=5.0),
        **knobs,
    )


def failing(fault: Fault) -> Scenario:
    """Two layers, so that a request is sent several times to the one pool, whose queue is bounded."""
    return chain(
        Layer(name="sdk", retries=1, attempt_timeout_s=2.0),
        Layer(name="gateway", retries=2, attempt_timeout_s=1.0, backoff=Backoff(initial_s=0.2)),
        rate_rps=20.0,
        operations=600,
        arrivals="poisson",
        pools=(Pool(id="east", slots=3, queue_max=20, cancel="never", service=Service()),),
        faults=(fault,),
        slo=Slo(total_s=1.0),
        horizon_s=30.0,
    )


WHEN: dict[str, Any] = {"pool": "east", "inject_s": 10.0, "clear_s": 14.0}
TOLD_TWICE = {
    "outage": outage(100.0, until_s=60.0),
    "hole": hole(),
    "errors": failing(Fault(kind="errors", share=0.8, status=503, **WHEN)),
    "read_drop": failing(Fault(kind="read_drop", **WHEN)),
    "refused": failing(Fault(kind="refused", **WHEN)),
    "slow_down": failing(Fault(kind="slow_down", factor=8.0, **WHEN)),
    "still open at the horizon": failing(Fault(kind="capacity_loss", share=1.0, **WHEN | {"clear_s": 29.0})),
}


@pytest.mark.parametrize("scenario", TOLD_TWICE.values(), ids=TOLD_TWICE)
def test_columns_and_record_tell_the_same(scenario: Scenario) -> None:
    record = record_of(scenario)
    by_columns = every_measure(measured_of(record))
    by_rows = every_measure(Measured(scenario, of_record(record), measured_of(record).control))
    assert set(by_columns) == set(by_rows)
    for name, value in by_columns.items():
        assert by_rows[name] == pytest.approx(value, rel=1e-6, abs=1e-6), name


def test_a_record_that_was_read_again_has_no_control_arm(tmp_path: Path) -> None:
    scenario = outage(100.0, until_s=60.0)
    assert measured_of(run(scenario, tmp_path)).control is not None
    assert measured_of(read(record_path(tmp_path, scenario.name, "simulated"))).control is None


def test_recovery_is_near_its_closed_form() -> None:
    """lambda 120, mu 300, one retry, 10 s: 35 s; three independent simulations say 30.5 s, single seeds 26 to 42."""
    found = measured(outage(120.0, until_s=120.0))
    assert found.judged.run_class == "recovers"
    assert found.closed_form_s == pytest.approx(35, abs=5)
    assert 26 <= measure(found, "recovery_s") <= 42
    assert measure(found, "first_request_s") == 2.0, "two time-outs of 1 s"


@pytest.mark.parametrize(
    ("knobs", "run_class"),
    [
        ({}, "metastable"),
        ({"queue_max": 150}, "degraded"),
        ({"order": "lifo"}, "degraded"),
        ({"cancel": "service"}, "degraded"),
    ],
)
def test_the_class_of_a_load_near_capacity(knobs: dict[str, Any], run_class: str) -> None:
    assert measured(outage(280.0, **knobs)).judged.run_class == run_class


def test_a_load_beyond_capacity_is_overloaded_anyway() -> None:
    assert measured(outage(320.0, retries=0)).judged.run_class == "overloaded_anyway"


def test_without_faults_nothing_is_amplified() -> None:
    scenario = outage(100.0, until_s=60.0)
    control = Measured(scenario, history_of(run_chain(scenario, faults=False)))
    assert measure(control, "send_amplification") == 1.0
    assert measure(control, "orphaned_share") == 0.0


def test_what_waits_when_the_model_stops_has_entered_a_queue() -> None:
    history = history_of(run_chain(hole(horizon_s=61.0)))
    waiting = history.sends.entered & np.isnan(history.sends.work_s)
    assert queue_at(history, floats([history.end_s])).tolist() == [waiting.sum()]
    assert waiting.sum() > 0


def test_tokens_of_what_was_cancelled_are_counted_by_the_time_it_ran() -> None:
    """A client leaves after 1 s of work of 4 s, so a quarter of the 40 tokens were made for nobody."""
    service = Service(kind="tokens", first_token_s=0.1, token_gap_s=0.1, tokens=40)
    scenario = chain(
        Layer(name="sdk", attempt_timeout_s=1.0), rate_rps=1.0, operations=3, pools=(pool(slots=9, service=service),)
    )
    assert measure(Measured(scenario, history_of(run_chain(scenario))), "wasted_tokens") == pytest.approx(3 * 10)
