"""The laws that every run keeps, each broken on purpose: a check that cannot fail proves nothing."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios.layers import Backoff, Layer
from scenarios.spec import Fault
from simulator import chain as model
from simulator.chain.invariants import BrokenModelError, check, little, problems
from simulator.run import run
from tests.simulator.chains import chain, pool

ROOT = Path(__file__).parents[2]
LAYERS = (
    Layer(name="sdk", retries=2, attempt_timeout_s=0.5, backoff=Backoff(initial_s=0.1, jitter=1.0)),
    Layer(name="gateway", retries=1, attempt_timeout_s=0.2, pools="other"),
)
POOLS = tuple(pool(name, mean_s=0.02, slots=2, queue_max=20, cancel="queue") for name in ("east", "west"))
FAULTS = (
    Fault(kind="capacity_loss", pool="east", inject_s=1.0, clear_s=3.0, share=1.0),
    Fault(kind="refused", pool="west", inject_s=2.0, clear_s=3.0),
)
BUSY = chain(*LAYERS, pools=POOLS, faults=FAULTS, operations=800, rate_rps=160.0, arrivals="poisson")


def changed(outcome: model.Outcome, table: str, column: str, edit: Callable[[Any], Any]) -> model.Outcome:
    """Return an outcome with one column of one table changed."""
    columns = dict(getattr(outcome, table))
    columns[column] = edit(columns[column].copy())
    if table == "operations":
        return dataclasses.replace(outcome, operations=columns)
    return dataclasses.replace(outcome, sends=columns, layers={**outcome.layers, "gateway": columns})


def with_first(value: Any) -> Callable[[Any], Any]:
    """Return an edit that sets the first entry."""

    def edit(column: Any) -> Any:
        column[0] = value
        return column

    return edit


def test_a_busy_run_with_faults_keeps_every_law() -> None:
    assert list(problems(model.run(BUSY))) == []
    assert list(problems(model.run(BUSY, faults=False))) == []


@pytest.mark.parametrize(
    ("table", "column", "edit", "says"),
    [
        ("operations", "t_end_s", with_first(np.nan), "has an end and is open"),
        ("sends", "job", with_first(1), "counts"),
        ("sends", "number", with_first(7), "began 1"),
        ("sends", "t_work_s", with_first(-1.0), "t_work_s before t_in_s"),
        ("sends", "t_end_s", with_first(-1.0), "t_end_s before t_start_s"),
        ("sends", "t_work_s", lambda column: column + 0.05, "the rows have"),
        ("sends", "t_done_s", lambda column: column + 0.05, "the rows have"),
    ],
)
def test_a_broken_law_is_found(table: str, column: str, edit: Callable[[Any], Any], says: str) -> None:
    wrong = changed(model.run(BUSY), table, column, edit)
    with pytest.raises(BrokenModelError, match=says):
        check(wrong)


def test_littles_law_is_an_identity_of_the_rows() -> None:
    outcome = model.run(BUSY)
    for place in range(2):
        held, stayed = little(outcome.sends, place, outcome.end_s)
        assert held == pytest.approx(stayed, rel=1e-9)


def test_a_slot_that_stays_free_is_found() -> None:
    outcome = model.run(BUSY)
    looks = [look._replace(slots=look.running + 1) for look in outcome.looks]
    with pytest.raises(BrokenModelError, match="slots taken"):
        check(dataclasses.replace(outcome, looks=looks))


def test_a_server_that_counts_otherwise_than_its_rows_is_found() -> None:
    outcome = model.run(BUSY)
    first = dataclasses.replace(outcome.frontends[0], finished=outcome.frontends[0].finished + 1)
    with pytest.raises(BrokenModelError, match="the rows"):
        check(dataclasses.replace(outcome, frontends=[first, *outcome.frontends[1:]]))


def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    run(BUSY, tmp_path)
    here = (tmp_path / "chain.simulated.jsonl").read_bytes().partition(b"\n")[2]
    script = (
        "from pathlib import Path; from simulator.run import run;"
        "from tests.simulator.test_chain_invariants import BUSY;"
        f"run(BUSY, Path({str(tmp_path / 'there')!r}))"
    )
    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60, env={"PYTHONHASHSEED": "7", "PATH": ""}
    )
    there = (tmp_path / "there" / "chain.simulated.jsonl").read_bytes().partition(b"\n")[2]
    assert here == there
    assert len(here) > 10_000
