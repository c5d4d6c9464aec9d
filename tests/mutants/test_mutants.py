"""A router that is wrong on purpose turns the check that is meant for it red, in the model and for real."""

import re
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import chaos.drill
import simulator.run
from scenarios.checks import judge
from scenarios.load import load
from scenarios.record import Record
from tests.mutants import second_choice_same_pool, slot_always_full

# Mutant, scenario, what must be red.
MUTANTS = [
    (slot_always_full, "body_read_then_dropped", {"never_twice", "only_unsent_goes_again", "expected_failovers"}),
    (slot_always_full, "body_read_then_dropped_raw", {"never_twice", "only_unsent_goes_again", "expected_failovers"}),
    (second_choice_same_pool, "refused", {"never_same_pool_twice", "expected_answers"}),
]
IDS = [f"{mutant.__name__.rpartition('.')[2]}-{name}" for mutant, name, _ in MUTANTS]


def red(record: Record) -> dict[str, str]:
    verdicts = judge(record)
    assert {verdict.state for verdict in verdicts.values()} <= {"pass", "fail"}, "nothing is undecided"
    return {name: verdict.detail for name, verdict in verdicts.items() if verdict.state == "fail"}


@pytest.mark.parametrize(("mutant", "name", "expected"), MUTANTS, ids=IDS)
def test_in_the_model(
    mutant: ModuleType, name: str, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant.TARGET, mutant.mutated)
    assert expected <= red(simulator.run.run(load(name), tmp_path)).keys()


@pytest.mark.parametrize(("mutant", "name", "expected"), MUTANTS, ids=IDS)
def test_for_real(mutant: ModuleType, name: str, expected: set[str], tmp_path: Path) -> None:
    command = [sys.executable, str(mutant.__file__)]
    # Nothing is compared here, so a busy machine does no harm.
    scenario = msgspec.structs.replace(load(name), exact=False)
    record = chaos.drill.run(scenario, tmp_path, router_command=command)
    assert expected <= red(record).keys()


def test_two_whole_bodies_of_one_request_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dropped body was read whole, and so was the second."""
    monkeypatch.setattr(slot_always_full.TARGET, slot_always_full.mutated)
    found = red(simulator.run.run(load("body_read_then_dropped"), tmp_path))["never_twice"]
    assert re.search(r"received whole more than once: op-1-\d+-r0 at east-0 \(\S+ s\) and west-0 \(\S+ s\)", found)


@pytest.mark.parametrize("name", ["body_read_then_dropped", "refused"])
def test_the_sound_router_is_green_in_the_model(name: str, tmp_path: Path) -> None:
    assert red(simulator.run.run(load(name), tmp_path)) == {}
