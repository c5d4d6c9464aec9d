"""Replications: the same numbers whatever makes them, stopped by their own spread, never averaged over a mixture."""

import pytest

from scenarios.layers import Layer
from scenarios.spec import Fault, Scenario, Slo
from scenarios.statistics import REPLICATIONS_MAX, REPLICATIONS_MIN
from simulator import replications as module
from simulator.chain_text import replications_lines, replications_table
from simulator.replications import AUTO, UNCLASSED, Replication, replicate, replications
from tests.simulator.chains import chain, pool


def small() -> Scenario:
    return chain(
        Layer(name="sdk", retries=1, attempt_timeout_s=1.0),
        rate_rps=20.0,
        operations=1200,
        arrivals="poisson",
        pools=(pool(mean_s=0.03, cancel="never"),),
        faults=(Fault(kind="capacity_loss", pool="east", inject_s=10.0, clear_s=12.0, share=1.0),),
        slo=Slo(total_s=1.0),
    )


def test_a_replication_depends_on_its_number_alone() -> None:
    scenario = small()
    assert replicate(scenario, 3) == replicate(scenario, 3)
    assert replicate(scenario, 3).measures != replicate(scenario, 4).measures


def test_the_numbers_are_the_same_whatever_the_number_of_processes() -> None:
    scenario = small()
    assert replications(scenario, 6, processes=2) == replications(scenario, 6, processes=1)


def test_so_many_are_made_as_asked_for_and_in_order() -> None:
    assert [each.number for each in replications(small(), 3)] == [0, 1, 2]


def test_sequential_stopping_looks_at_them_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A goodput that alternates by 2 % is known to 5 % at once; one that jumps by half is not for long."""

    def made(spread: float) -> int:
        def one(_: Scenario, number: int) -> Replication:
            return Replication(number, "degraded", "", {"goodput": 0.5 + spread * (-1) ** number})

        monkeypatch.setattr(module, "replicate", one)
        return len(replications(small(), AUTO))

    assert made(0.01) == REPLICATIONS_MIN
    assert made(0.1) == 65, "t x 0.1 / sqrt(n) = 0.025, and no multiple of what is made at a time"
    assert made(0.5) == REPLICATIONS_MAX


def rows(found: list[Replication]) -> list[str]:
    table = replications_table(found)
    return [str(column.header) for column in table.columns]


def of(run_class: str, number: int, goodput: float) -> Replication:
    return Replication(number, run_class, "", {"goodput": goodput, "control_goodput": 1.0})


def test_runs_of_different_classes_are_told_apart_and_never_averaged() -> None:
    mixed = [of("degraded", n, 0.9) for n in range(7)] + [of("metastable", n, 0.0) for n in range(7, 10)]
    assert rows(mixed)[1:] == ["degraded (7)", "metastable (3)"]
    told = list(replications_lines(mixed))
    assert told[0] == "P(collapse): 3 of 10 runs, 10.8 % to 60.3 % (Wilson, 95 %)"
    assert "no mean over all" in told[1]


def test_runs_of_one_class_are_compared_with_their_control_arms_pair_by_pair() -> None:
    told = list(replications_lines([of("degraded", n, 0.9) for n in range(10)]))
    assert told[1] == "The fault costs 10 % of the answers in time, +- 0 % (paired)."


def test_a_run_without_a_fault_has_no_class() -> None:
    scenario = chain(Layer(name="sdk"), operations=100)
    assert replicate(scenario, 0).run_class == UNCLASSED


def test_what_ended_too_early_and_what_is_still_wide_is_said() -> None:
    early = [of("degraded", n, 0.9) for n in range(9)] + [of(UNCLASSED, 9, 0.5)]
    told = list(replications_lines(early))
    assert told[0].startswith("P(collapse): 0 of 9 runs, ")
    assert told[1].startswith("1 ended too early to be told apart, and not counted")
    assert not list(replications_lines([Replication(0, UNCLASSED, "", {"goodput": 1.0})])), "no fault, no collapse"
    wide = [of("degraded", n, 0.5 + 0.5 * (-1) ** n) for n in range(REPLICATIONS_MAX)]
    assert next(iter(replications_lines(wide))) == "The intervals are still wider than 5 % after 200 runs."
