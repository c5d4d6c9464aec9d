"""Scenarios of the catalogue that belong together: the same world and arrivals, one thing changed, another end."""

from functools import cache
from typing import Any

import msgspec
import pytest

from scenarios.load import load
from scenarios.measures.measured import Measured
from scenarios.measures.scalars import measure
from scenarios.spec import Scenario
from scenarios.static.figures import figures_of
from scenarios.static.of_preset import of_presets
from scenarios.static.of_scenario import of_scenario
from simulator.replications import measured

OUTAGE = "metastable_trigger"


@cache
def ran(name: str) -> Measured:
    return measured(load(name), 0)


def of(name: str, which: str) -> float:
    return measure(ran(name), which)


def changed(scenario: Scenario, **layer: Any) -> Scenario:
    """Return a scenario with other knobs of its innermost layer."""
    *outer, innermost = scenario.layers
    return msgspec.structs.replace(scenario, layers=(*outer, msgspec.structs.replace(innermost, **layer)))


def test_the_two_stacks_of_the_drill_are_those_that_the_check_ships() -> None:
    for which in ("before", "after"):
        scenario = figures_of(of_scenario(load(f"article_{which}")))
        shipped = figures_of(of_presets([f"drill-article-{which}"]))
        assert scenario.sends_max == shipped.sends_max == {"before": 12, "after": 3}[which]
        assert scenario.wait_hang_s == shipped.wait_hang_s == {"before": 21.5, "after": 5.0}[which]


def test_before_and_after_differ_in_nothing_but_their_layers() -> None:
    before, after = load("article_before"), load("article_after")
    for part in ("pools", "load", "faults", "slo", "seed", "duration_s", "router"):
        assert getattr(before, part) == getattr(after, part)
    assert (of("article_before", "sends_max"), of("article_after", "sends_max")) == (12, 3)
    assert of("article_before", "first_request_s") > 10 * of("article_after", "first_request_s")
    assert of("article_before", "control_goodput") == of("article_after", "control_goodput") == 1.0


def test_one_budget_for_both_gateways_is_one_floor() -> None:
    scenario = load("two_gateways_local_budgets")
    shared = measure(measured(changed(scenario, budget_scope="global"), 0), "send_amplification")
    assert shared == pytest.approx(1 + 0.2 + 10 / 10, rel=0.03)
    assert of("two_gateways_local_budgets", "send_amplification") == pytest.approx(shared + 10 / 10, rel=0.03)


OF_THE_OUTAGE = (OUTAGE, f"{OUTAGE}_control", "budget_alone_does_not_save_fifo", "queue_bound_saves")


@pytest.mark.parametrize("name", OF_THE_OUTAGE)
def test_without_the_outage_nothing_ever_happens(name: str) -> None:
    assert of(name, "control_goodput") > 0.99


@pytest.mark.parametrize("name", OF_THE_OUTAGE[1:])
def test_the_outage_is_the_same(name: str) -> None:
    one, other = load(OUTAGE), load(name)
    assert one.faults == other.faults
    assert one.layers[0].attempt_timeout_s == other.layers[0].attempt_timeout_s
    assert name.endswith("control") or (one.load, one.seed) == (other.load, other.seed)


def test_what_saves_is_to_do_no_stale_work() -> None:
    """What the budget could not do, youngest first does, and so does work that ends when its client leaves."""
    scenario = load("budget_alone_does_not_save_fifo")
    for knobs in ({"order": "lifo"}, {"cancel": "service"}):
        east = msgspec.structs.replace(scenario.pools[0], **knobs)
        saved = measured(msgspec.structs.replace(scenario, pools=(east,)), 0)
        assert measure(saved, "goodput_after_fault_20_38") > 0.95
    assert of("budget_alone_does_not_save_fifo", "goodput_after_fault_20_38") == 0
