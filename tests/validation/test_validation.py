"""The model hits known numbers, and a planted error turns the table red."""

from collections.abc import Callable
from typing import Any

import pytest

from router.core.budgets.token_bucket import TokenBucket
from scenarios.world.job import Job
from scenarios.world.pool_server import PoolServer
from simulator.chain.layer import GenericLayer
from tests.validation.row import Exactly, Row, Within, judge
from tests.validation.table import BEGIN, END, PLACE, ROWS, put_in

BY_ID = {row.id: row for row in ROWS}


def _param(row: Row) -> Any:
    return pytest.param(row, id=row.id.replace(" ", "_"), marks=[pytest.mark.slow] if row.slow else [])


@pytest.mark.parametrize("row", [_param(row) for row in ROWS])
def test_the_model_hits_what_theory_says(row: Row) -> None:
    judged = judge(row)
    assert not judged.wrong, str(judged)


def _service_takes_longer(patch: pytest.MonkeyPatch) -> None:
    offer = PoolServer.offer

    def slower(server: PoolServer, job: Job, now_s: float) -> Any:
        job.work_s *= 1.05
        return offer(server, job, now_s)

    patch.setattr(PoolServer, "offer", slower)


def _one_retry_more(patch: pytest.MonkeyPatch) -> None:
    made = GenericLayer.__init__

    def eager(layer: GenericLayer, *given: Any, **knobs: Any) -> None:
        made(layer, *given, **knobs)
        layer._attempts_max += 1

    patch.setattr(GenericLayer, "__init__", eager)


def _deposit_on_success(patch: pytest.MonkeyPatch) -> None:
    made = TokenBucket.__init__

    def swapped(bucket: TokenBucket, knobs: Any) -> None:
        made(bucket, knobs)
        bucket._each_call, bucket._each_success = bucket._each_success, bucket._each_call

    patch.setattr(TokenBucket, "__init__", swapped)


def _cancel_off(patch: pytest.MonkeyPatch) -> None:
    made = PoolServer.__init__

    def deaf(server: PoolServer, **knobs: Any) -> None:
        made(server, **{**knobs, "cancel": "never"})

    patch.setattr(PoolServer, "__init__", deaf)


@pytest.mark.parametrize(
    ("plant", "row"),
    [
        (_service_takes_longer, "Q8"),
        (_one_retry_more, "R1 p=1"),
        (_one_retry_more, "X4 p=0.75"),
        (_deposit_on_success, "R4 p=0.5"),
        (_deposit_on_success, "R5 p=0.9"),
        (_cancel_off, "Q12"),
        (_cancel_off, "X10 cancel"),
    ],
)
def test_a_planted_error_turns_the_table_red(
    plant: Callable[[pytest.MonkeyPatch], None], row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert judge(BY_ID[row]).wrong


def test_a_number_is_accepted_within_its_tolerance_or_in_the_interval() -> None:
    assert Exactly(10.0, 0.05).accepts([10.4, 10.41, 10.42])
    assert not Exactly(10.0, 0.01).accepts([10.4, 10.41, 10.42])
    assert Exactly(10.0, 0.01).accepts([9.0, 12.0, 10.0])
    assert Exactly(12.0, 0).accepts([12.0, 12.0])
    assert not Exactly(12.0, 0).accepts([12.0, 12.1])
    assert not Within(1.0, 2.0).accepts([1.5, 2.5])
    assert Within(1.0, 2.0, every=False).accepts([1.5, 2.4])


def test_rows_are_told_apart_and_have_their_line_in_the_models_readme() -> None:
    assert len(BY_ID) == len(ROWS)
    told = PLACE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    listed = {line.split("|")[1].strip() for line in told.splitlines() if line.startswith("| ")} - {"row", "---"}
    assert listed == set(BY_ID), "run `make validate`"
    assert "**no**" not in told
    assert put_in(f"a {BEGIN} old {END} b", "new") == f"a {BEGIN}\nnew\n{END} b"
