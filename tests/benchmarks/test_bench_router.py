"""The benchmark of the router works and judges; what it measures is not asked here."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.benchmarks.bench_router import (
    COLUMNS,
    DRIVER,
    RELAY,
    ROUTER,
    Effort,
    Gate,
    Memory,
    Series,
    gates,
    measure,
    quantile,
    report,
)
from tests.benchmarks.subjects import CannotMeasureError, ours, started

SMALLEST = Effort(
    rounds=1, requests=32, requests_alone=3, streams=4, streaming_s=0.2, open_streams=20, tiny_events=2_000
)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="CPU clocks of other processes are read on Linux only")


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert quantile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.25) == 2.0
    assert quantile([7.0], 0.25) == 7.0


@pytest.mark.parametrize(
    ("values", "mark"),
    [([1.0, 1.2, 1.9], "pass"), ([1.1, 1.4, 1.9], "noise"), ([1.4, 1.5, 1.6], "MISSED")],
)
def test_a_bound_is_missed_only_beyond_the_noise(values: list[float], mark: str) -> None:
    gate = Gate("ratio", 1.3, values)
    assert gate.mark == mark
    assert gate.missed == (mark == "MISSED")


def test_a_goal_that_is_not_reached_is_no_failure() -> None:
    assert Gate("goal", 1.0, [2.0], stretch=True).mark == "not yet"


@LINUX
def test_all_is_measured_and_told_within_the_width_of_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # no foreign router is found
    found, memory, missing = asyncio.run(measure(SMALLEST, tmp_path))
    assert set(found) == {ROUTER, RELAY, DRIVER}
    assert set(missing.values()) == {"not found"}
    for series in found.values():
        assert len(series.s_per_1000) == len(series.us_per_token) == len(series.added_ms) == 1
        assert series.s_per_1000[0] > 0
        assert series.us_per_token[0] > 0
    assert memory.refused == 0
    assert memory.open_streams == SMALLEST.open_streams
    assert memory.idle_mb > 1
    told = report(found, memory, missing)
    assert max(len(line) for line in told) <= COLUMNS
    assert sum("not found" in line for line in told) == len(missing)


def test_foreign_routers_change_what_the_goal_is_held_against() -> None:
    series = Series([0.1], [20.0], [0.2])
    memory = Memory(idle_mb=30, open_streams=9_000, refused=0, open_mb=300, growth_mb=0)
    found = {ROUTER: series, RELAY: series, DRIVER: series}
    alone = [gate.what for gate in gates(found, memory) if gate.stretch]
    beside = [gate.what for gate in gates({**found, "sglang-router": series}, memory) if gate.stretch]
    assert "sglang-router" not in str(alone)
    assert "sglang-router" in str(beside)
    many = Series([0.12345] * 3, [123.456] * 3, [0.1234] * 3)
    told = report(dict.fromkeys((*found, "haproxy", "envoy", "sglang-router", "vllm-router"), many), memory, {})
    assert max(len(line) for line in told) <= COLUMNS


@LINUX
def test_a_subject_that_does_not_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(CannotMeasureError, match=r"router has not started: .*--port"),
        started("router", tmp_path, ours("router", "--pool", "a=http://127.0.0.1:1")),
    ):
        raise AssertionError("it has started")
