"""Two runs agree attempt by attempt where a scenario is exact, and within the slack of its fault edges elsewhere."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from scenarios.agreement import AGREEMENT, agree, agreement_for
from scenarios.load import catalog, load
from scenarios.record import Operation, Record, Request, Sample, Send
from tests.scenarios.doctored import DRILLS, as_mode, changed, modelled, without

EXACT, LOOSE = "refused", "refused_under_load"


def real(drill: str | Path) -> Record:
    return as_mode(modelled(drill), "real")


@pytest.mark.parametrize("path", catalog(), ids=lambda path: path.stem)
def test_a_run_agrees_with_itself(path: Path) -> None:
    verdicts = agree(real(path), modelled(path))
    assert verdicts.keys() == agreement_for(load(path)).keys()
    assert all(verdict.passed and verdict.detail for verdict in verdicts.values())


QUEUE = "queue_bound_answers_at_once"


def with_answers(record: Record, more: int) -> Record:
    """Let so many more requests be answered 200 instead of what they were told."""
    for _ in range(more):
        record = changed(record, Request, lambda r: r.status == 503, status=200, code=None)
    return record


@pytest.mark.parametrize(("more", "agrees"), [(1, True), (2, False)])
def test_a_bounded_queue_has_a_slack_of_its_own(more: int, agrees: bool) -> None:
    """26 requests: a share of 2 % is less than one, so one may differ, and no more."""
    drill = DRILLS / f"{QUEUE}.toml"
    verdicts = agree(with_answers(real(drill), more), modelled(drill))
    assert verdicts["counts_close"].passed == agrees


DIFFERENT: list[tuple[str, str, Callable[[Record], Record], str]] = [
    (
        "same_operations",
        EXACT,
        lambda r: without(r, Operation, lambda operation: operation.operation_id == "op-0-1"),
        "only in the model: op-0-1",
    ),
    (
        "same_operations",
        EXACT,
        lambda r: changed(r, Operation, lambda _: True, operation_id="op-7-7"),
        "only in the real run: op-7-7; only in the model: op-0-0",
    ),
    (
        "same_operations",
        EXACT,
        lambda r: Record(msgspec.structs.replace(r.meta, seed=99), r.rows),
        "the two records are of different scenarios or seeds",
    ),
    (
        "same_attempts",
        EXACT,
        lambda r: changed(r, Send, lambda send: send.cause == "refused", cause="connect_timeout"),
        "east attempt 1 unsent refused: 2 in the real run, 3 in the model",
    ),
    (
        "same_requests",
        EXACT,
        lambda r: without(r, Send, lambda send: (send.request_id, send.attempt) == ("op-1-0-r0", 2)),
        "east unsent refused in the real run, 1 east unsent refused, then 2 west answered 200 in the model",
    ),
    (
        "same_requests",
        EXACT,
        lambda r: without(r, Send, lambda send: send.request_id == "op-0-0-r0"),
        "op-0-0-r0: nothing in the real run, 1 east answered 200 in the model",
    ),
    (
        "same_answers",
        EXACT,
        lambda r: changed(r, Request, lambda _: True, end="reset"),
        "op-0-0-r0: break in the real run, 200 in the model",
    ),
    (
        "same_outcomes",
        LOOSE,
        lambda r: changed(r, Request, lambda request: request.answer == "200", status=502),
        "502: 1 in the real run, 0 in the model",
    ),
    (
        "counts_close",
        LOOSE,
        lambda r: without(r, Send, lambda send: send.cause == "refused"),
        "east unsent refused: 0 in the real run, 15 in the model",
    ),
    (
        "counts_close",
        LOOSE,
        lambda r: without(r, Request, lambda request: request.operation_id in {f"op-0-{n}" for n in range(5)}),
        "200: 79 in the real run, 84 in the model",
    ),
]


@pytest.mark.parametrize(("check", "name", "change", "says"), DIFFERENT, ids=[c for c, *_ in DIFFERENT])
def test_a_difference_is_noticed(check: str, name: str, change: Callable[[Record], Record], says: str) -> None:
    verdict = AGREEMENT[check](change(real(name)), modelled(name))
    assert (verdict.state, says in verdict.detail) == ("fail", True), verdict.detail


def test_each_check_is_shown_to_fail() -> None:
    assert {check for check, *_ in DIFFERENT} == set(AGREEMENT)


def test_two_per_fault_edge_is_close() -> None:
    """The scenario has one fault, so two edges: four may fall to the other side, five may not."""
    some = {f"op-0-{n}" for n in range(4)}
    fewer = without(real(LOOSE), Request, lambda request: request.operation_id in some)
    assert AGREEMENT["counts_close"](fewer, modelled(LOOSE)).passed


def broken_off(record: Record, count: int) -> Record:
    """Let whole streams end as breaks, and no others: there `count` are."""
    answers = {f"op-0-{n}-r0": {"end": "reset"} for n in range(count)}
    rows = [row for row in record.rows if not (isinstance(row, Request) and row.answer == "break")]
    changes = [answers.get(row.request_id, {}) if isinstance(row, Request) else {} for row in rows]
    return Record(record.meta, [msgspec.structs.replace(r, **c) for r, c in zip(rows, changes, strict=True)])


@pytest.mark.parametrize(("in_the_real_run", "state"), [(1, "pass"), (4, "pass"), (5, "fail")])
def test_a_kind_that_only_one_run_saw_is_what_the_fault_edge_made_of_a_few(in_the_real_run: int, state: str) -> None:
    """Whether a stream is cut at an edge hangs on a millisecond; a kind that is there often does not."""
    verdict = AGREEMENT["same_outcomes"](broken_off(real(LOOSE), in_the_real_run), broken_off(modelled(LOOSE), 0))
    assert verdict.state == state, verdict.detail
    assert "break" in verdict.detail


def test_a_kind_that_only_one_run_saw_must_be_one_that_the_scenario_allows() -> None:
    def without_breaks(record: Record) -> Record:
        answers = {name: count for name, count in record.scenario.expect.answers.items() if name != "break"}
        expect = msgspec.structs.replace(record.scenario.expect, answers=answers)
        scenario = msgspec.structs.replace(record.scenario, expect=expect)
        return Record(msgspec.structs.replace(record.meta, scenario=scenario), record.rows)

    few, none = broken_off(real(LOOSE), 1), broken_off(modelled(LOOSE), 0)
    assert AGREEMENT["same_outcomes"](without_breaks(few), without_breaks(none)).state == "fail"


@pytest.mark.parametrize("check", AGREEMENT)
def test_empty_records_do_not_agree(check: str) -> None:
    empty = Record(modelled(EXACT).meta, [])
    assert AGREEMENT[check](as_mode(empty, "real"), empty).state == "undecided"


def test_an_invalid_run_is_not_compared() -> None:
    invalid = Record(msgspec.structs.replace(real(EXACT).meta, invalid="too busy"), real(EXACT).rows)
    verdicts = agree(invalid, modelled(EXACT))
    assert {(verdict.state, verdict.detail) for verdict in verdicts.values()} == {
        ("undecided", "the real run is invalid: too busy")
    }


def test_a_run_on_a_busy_machine_is_not_compared() -> None:
    late = Sample(kind="loop_lag_s", source="east-0", value=0.2, t=0.5)
    verdicts = agree(Record(real(EXACT).meta, [*real(EXACT).rows, late]), modelled(EXACT))
    assert {verdict.state for verdict in verdicts.values()} == {"undecided"}


def test_a_run_of_the_model_does_not_stand_for_the_real_one() -> None:
    assert {verdict.state for verdict in agree(modelled(EXACT), modelled(EXACT)).values()} == {"undecided"}
