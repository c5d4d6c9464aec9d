"""The measures of the queue-level model: what theory says of them, and that columns and record tell the same."""

from pathlib import Path
from typing import Any

import pytest

from scenarios.layers import Layer
from scenarios.measures.checks import measured_of
from scenarios.measures.measured import Measured
from scenarios.measures.of_record import of_record
from scenarios.measures.scalars import every_measure, measure
from scenarios.record import read, record_path
from scenarios.spec import Fault, Scenario, Slo
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


def test_columns_and_record_tell_the_same() -> None:
    scenario = outage(100.0, until_s=60.0)
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
