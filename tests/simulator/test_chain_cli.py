"""The verb simulate on a scenario of layers: what is printed, what is drawn, how it refuses."""

from pathlib import Path

import pytest

import pooldrill
from scenarios.measures.measured import Measured
from simulator.chain_text import console, replications_table
from simulator.cli import simulate
from simulator.replications import Replication

WIDTH_MAX = 80

TEXT = """
name = "two_layers"
title = "An SDK and a gateway that both retry, before a pool that hangs"
seed = 1
duration_s = 60.0
horizon_s = 100.0
model_only = "no real run has a gateway like this"
slo = { total_s = 5.0 }
expect = { measures = { sends_max = [12, 12], first_request_s = [20.6, 21.5] } }
pools = [{ id = "east", slots = 8, queue_max = 60, service = { kind = "exponential", mean_s = 0.2 } }]
load = [{ rate_rps = 5.0, start_s = 0.0, end_s = 60.0, arrivals = "poisson" }]
layers = [
  { name = "sdk", preset = "openai-3.x", retries = 3, attempt_timeout_s = 30.0 },
  { name = "gateway", retries = 2, attempt_timeout_s = 1.5, timeout_covers = "connect" },
]
faults = [{ kind = "black_hole", pool = "east", inject_s = 10.0, clear_s = 40.0 }]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "two_layers.toml"
    path.write_text(TEXT)
    return path


def test_the_stack_the_measures_and_the_class_are_printed(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate([str(scenario), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "12 sends of one operation at most: 4 x 3" in printed
    assert "1.5 s to connect" in printed
    assert "at most 21.5 s" in printed
    assert "\nclass: " in printed
    assert "expected_measures       pass" in printed
    lines = [line for line in printed.splitlines() if not line.startswith("record: ")]
    assert max(map(len, lines)) <= WIDTH_MAX


def test_the_picture_is_drawn_by_whom_the_front_door_binds(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[tuple[Measured, Path]] = []
    argv = [str(scenario), "--out", str(tmp_path)]
    simulate(argv, lambda measured, path: drawn.append((measured, path)))
    path = tmp_path / "two_layers.timeline.png"
    assert drawn[0][1] == path
    assert capsys.readouterr().out.endswith(f"picture: {path}\n")
    simulate([*argv, "--no-picture"], lambda measured, path: drawn.append((measured, path)))
    assert len(drawn) == 1


def test_replications_are_told_with_their_intervals(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate([str(scenario), "--out", str(tmp_path), "--replications", "3"]) == 0
    printed = capsys.readouterr().out
    assert "mean and 95 % interval" in printed
    assert "P(collapse): " in printed
    lines = [line for line in printed.splitlines() if not line.startswith("record: ")]
    assert max(map(len, lines)) <= WIDTH_MAX


def test_what_the_warm_up_leaves_out_is_told(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(TEXT.replace("duration_s = 60.0", "duration_s = 60.0\nwarm_up_s = 4.0"))
    assert simulate([str(scenario), "--out", str(tmp_path)]) == 0
    assert "operations are warm-up and left out." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["refused", "--replications", "3"], "--replications: the scenario has no layers"),
        (["refused", "--replications", "0"], "--replications: '0' is not a whole number from 1 to 10000"),
        (["refused", "--replications", "some"], "--replications: 'some' is not a whole number"),
        (["refused", "--processes", "257"], "--processes: '257' is not a whole number from 1 to 256"),
    ],
)
def test_bad_input_is_refused_in_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["simulate", *argv]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pooldrill simulate: ")
    assert says in error
    assert error.count("\n") == 1


def test_a_picture_that_cannot_be_written_is_an_environments_fault(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two_layers.timeline.png").mkdir()
    assert pooldrill.main(["simulate", str(scenario), "--out", str(tmp_path)]) == 3
    assert "; remedy: name another directory with --out" in capsys.readouterr().err


def test_runs_that_agree_but_for_rounding_have_no_spread(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Replication(number, "recovers", "", {"first_request_s": 6.0 + number * 1e-15}) for number in range(3)]
    console().print(replications_table(found))
    assert "6 s +- 0 s" in capsys.readouterr().out
