"""A router that is wrong on purpose turns a named check red in the model."""

from pathlib import Path

import pytest

from router.core.delivery import Delivery
from router.core.in_flight import Lease
from router.core.policy import Policy
from router.core.selection import Candidate
from scenarios.checks import judge
from scenarios.record import Record
from scenarios.spec import Fault, Scenario
from simulator.run import run
from tests.simulator.drills import drill, fault, load


def drilled(*faults: Fault) -> Scenario:
    return drill(*faults, load=load(start_s=1.1, count=8, rate_rps=5.0))


def red(record: Record) -> set[str]:
    return {name for name, verdict in judge(record).items() if verdict.state == "fail"}


def always_unsent(*, slot_taken: bool, status: int | None) -> Delivery:
    return Delivery.UNSENT


def unknown_counts_as_unsent(*, slot_taken: bool, status: int | None) -> Delivery:
    return Delivery.UNSENT if status is None else Delivery.ANSWERED


def every_pool(candidates: tuple[Candidate, ...], pool: str) -> tuple[Candidate, ...]:
    return candidates


def keep(lease: Lease) -> None:
    """Give nothing back."""


def test_the_sound_router_is_green_in_both_drills(tmp_path: Path) -> None:
    for scenario in (drilled(fault("read_drop")), drilled(fault("refused"), fault("refused", "b"))):
        assert red(run(scenario, tmp_path)) <= {"expected_answers"}


def test_a_slot_that_always_counts_as_full_sends_bodies_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool reads the body and drops it; this router believes that nothing was handed over."""
    monkeypatch.setattr("router.core.delivery.delivery_of", unknown_counts_as_unsent)
    record = run(drilled(fault("read_drop")), tmp_path)
    assert {"never_twice", "only_unsent_goes_again"} <= red(record)
    whole = [event.request_id for event in record.pool_events if event.kind == "body_complete"]
    assert len(whole) - len(set(whole)) == 4, "half of the eight requests meet the fault first, and run twice"


def test_a_router_that_trusts_no_answer_sends_everything_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.core.delivery.delivery_of", always_unsent)
    record = run(drilled(fault("read_drop")), tmp_path)
    assert "never_twice" in red(record)
    whole = [event.request_id for event in record.pool_events if event.kind == "body_complete"]
    assert len(whole) == 2 * len(set(whole)) == 16


def test_a_second_choice_of_the_same_pool_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "_without", staticmethod(every_pool))
    record = run(drilled(fault("refused"), fault("refused", "b")), tmp_path)
    assert "never_same_pool_twice" in red(record)


def test_a_lease_that_never_comes_back_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "release", keep)
    assert "in_flight_zero" in red(run(drilled(fault("read_drop")), tmp_path))
