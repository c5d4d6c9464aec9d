"""Kinds of faults of clients, layers and budgets that people have reported, in the queue-level model.

tests/field_reports.md has the list and its sources; numbers in the tests are those of the reports.
"""

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from scenarios.layers import Backoff, Layer
from scenarios.measures.measured import Measured
from scenarios.measures.scalars import measure
from scenarios.presets import preset
from scenarios.record import PoolEvent
from scenarios.spec import Fault, Load, Pool, Scenario, Service, Slo
from scenarios.theory.attempts import attempts_product
from simulator import chain as model
from simulator.chain.results import OK_END
from simulator.chain.run import record_of
from simulator.replications import measured
from tests.simulator.chains import chain, pool

FAILING = (pool(slots=None, fail_share=1.0),)
SILENT = Fault(kind="capacity_loss", pool="east", share=1.0, inject_s=0.5, clear_s=999.0)


def sdk(**knobs: Any) -> Layer:
    """Return OpenAI's SDK, 3.x, with other knobs."""
    shipped = preset("openai-3.x").layers[0]
    return Layer(**{name: getattr(shipped, name) for name in Layer.__struct_fields__} | knobs)


def once(*layers: Layer, **knobs: Any) -> Scenario:
    """Return a chain that one operation goes through, at 1 s."""
    given: dict[str, Any] = {"pools": (pool(mean_s=0.1),), "duration_s": 1000.0, **knobs}
    scenario = chain(*layers, rate_rps=1.0, operations=1, **given)
    return replaced(scenario, load=(Load(rate_rps=1.0, start_s=1.0, end_s=2.0),))


def replaced(scenario: Scenario, **parts: Any) -> Scenario:
    return Scenario(**{name: getattr(scenario, name) for name in Scenario.__struct_fields__} | parts)


def took_s(outcome: model.Outcome) -> list[float]:
    """Return how long each operation took."""
    table = outcome.operations
    return [float(taken) for taken in table["t_end_s"] - table["t_start_s"]]


# ---- sent again


def test_time_outs_leave_attempts_behind_that_all_tell_their_operation() -> None:
    record = record_of(once(sdk(attempt_timeout_s=2.0), faults=(SILENT,)))
    bodies = [row for row in record.rows if isinstance(row, PoolEvent) and row.kind == "body_complete"]
    assert [(body.operation_id, body.request_id) for body in bodies] == [("op-0-0", "op-0-0-r0")] * 3
    assert [send.attempt for send in record.sends] == [1, 2, 3]


def test_a_silent_route_costs_three_time_outs_unless_a_deadline_bounds_them_all() -> None:
    """30 s of patience became 91 s and 3 sends."""
    patient = model.run(once(sdk(attempt_timeout_s=30.0), faults=(SILENT,)))
    assert took_s(patient) == [pytest.approx(91.3, abs=0.2)], "3 * 30 s, and sleeps of .5 and 1 s times U(.75, 1]"
    assert len(patient.sends["operation"]) == 3
    bounded = model.run(once(sdk(attempt_timeout_s=30.0, deadline_s=30.0), faults=(SILENT,)))
    assert took_s(bounded) == [pytest.approx(30.0)]
    assert len(bounded.sends["operation"]) == 1


def overload(retries: int) -> Scenario:
    """Return 30 s in which half as much again comes as the pool can do."""
    layer = Layer(name="client", retries=retries, attempt_timeout_s=2.0, retry_on=("timeout", "429", "5xx"))
    pools = (pool(mean_s=0.05, kind="deterministic", cancel="never"),)
    return chain(layer, rate_rps=30.0, operations=900, pools=pools)


def test_retries_of_an_overload_take_places_in_its_queue() -> None:
    """30/s at 20/s: 10/s pile up. With two retries each of those who gave up comes three times: 70/s."""
    alone, again = (measure(measured(overload(retries), 0), "queue_max") for retries in (0, 2))
    assert alone == pytest.approx(10 * 30, rel=0.02)
    assert again > 4 * alone


@pytest.mark.parametrize("tries", [*product((1, 2, 4), (1, 3), (2, 5)), (3, 5, 6)])
def test_nested_retries_multiply_whatever_their_numbers(tries: tuple[int, ...]) -> None:
    layers = [Layer(name=f"layer_{place}", retries=count - 1) for place, count in enumerate(tries)]
    outcome = model.run(chain(*layers, pools=FAILING, operations=3))
    assert set(np.bincount(outcome.sends["operation"])) == {prod(tries)} == {attempts_product(t - 1 for t in tries)}


def test_two_knobs_for_retries_and_one_cap() -> None:
    """An SDK's max_retries of 2 times a gateway's num_retries of 2 are 9 sends; under a cap of 2 they are 3."""
    layers = [sdk(counts_chain=True), Layer(name="gateway", retries=2, counts_chain=True)]
    free = model.run(chain(*layers, pools=FAILING, operations=20))
    capped = model.run(chain(*layers, pools=FAILING, operations=20, chain_cap=2))
    assert free.sends_per_operation() == 9
    assert capped.sends_per_operation() == 3


@pytest.mark.parametrize("budget", ["none", "window"])
def test_an_hour_of_failures_lets_no_call_outlive_its_deadline(budget: str) -> None:
    layer = Layer(
        name="mesh", retries=10_000, deadline_s=5.0, backoff=Backoff(initial_s=0.05, factor=1.0), budget=budget
    )
    outcome = model.run(chain(layer, pools=FAILING, rate_rps=0.1, operations=360))
    assert outcome.end_s >= 3590.0
    assert max(took_s(outcome)) <= 5.0 + 1e-9
    assert np.bincount(outcome.sends["operation"]).max() <= 101, "one each .05 s, and the first"


# ---- budgets and recovery


def burst(budget: str) -> Scenario:
    """Return 20/s at a pool of 25/s and a queue of 256, clients of 750 ms and 3 tries; 20 s of three times that."""
    layer = Layer(name="client", retries=2, attempt_timeout_s=0.75, retry_on=("timeout", "503"), budget=budget)
    service = Service(kind="deterministic", mean_s=0.2)
    east = Pool(id="east", slots=5, queue_max=256, cancel="never", service=service)
    scenario = chain(layer, rate_rps=20.0, operations=20 * 240, pools=(east,), slo=Slo(total_s=3.0))
    return replaced(scenario, load=(*scenario.load, Load(rate_rps=40.0, start_s=20.0, end_s=40.0)))


def _late(found: Measured) -> float:
    """Return the goodput of the last minute."""
    return found.share(180.0, 235.0)


def test_after_a_burst_retries_alone_keep_a_service_down_and_a_budget_lets_it_recover() -> None:
    assert _late(measured(burst("none"), 0)) < 0.05
    assert _late(measured(burst("token_bucket:ratio=0.1"), 0)) > 0.99


def minutes(**knobs: Any) -> Scenario:
    """Return an overload of 90 s that a pool with no room tells by 503 and Retry-After."""
    east = Pool(id="east", slots=50, queue_max=0, service=Service(), **knobs)
    busy = Fault(kind="capacity_loss", pool="east", share=1.0, inject_s=0.5, clear_s=90.0)
    return once(sdk(), pools=(east,), faults=(busy,))


def test_who_is_told_when_to_return_outlasts_an_overload_that_its_own_back_off_does_not() -> None:
    told = model.run(minutes(reject_retry_after_s=100.0))
    assert (told.operations["end"] == OK_END).all()
    assert took_s(told) == [pytest.approx(100.19, abs=0.05)]
    alone = model.run(minutes())
    assert not (alone.operations["end"] == OK_END).any()
    assert took_s(alone) == [pytest.approx(1.3, abs=0.2)], "two sleeps"


@pytest.mark.parametrize(("asked_s", "tries", "longest_s"), [(120.0, 3, 240.3), (1800.0, 1, 0.1)])
def test_a_retry_after_of_half_an_hour_parks_nobody(asked_s: float, tries: int, longest_s: float) -> None:
    outcome = model.run(replaced(minutes(reject_retry_after_s=asked_s), faults=(SILENT,)))
    assert len(outcome.sends["operation"]) == tries
    assert took_s(outcome) == [pytest.approx(longest_s, abs=0.4)]
