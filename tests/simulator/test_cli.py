"""The verb simulate: what it prints, what it leaves behind, and how it refuses."""

from pathlib import Path

import pytest

import pooldrill
from scenarios.load import CATALOG
from scenarios.record import read
from simulator.cli import simulate


def test_a_scenario_of_the_catalog_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(["refused", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("refused: ")
    assert "never_twice" in printed
    assert "PASS: all " in printed
    path = tmp_path / "refused.simulated.jsonl"
    assert printed.endswith(f"record: {path}\n")
    assert max(len(line) for line in printed.splitlines() if not line.startswith("record: ")) <= 80
    assert read(path).meta.seed == 1


def test_a_seed_takes_the_place_of_the_scenarios_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(["refused", "--out", str(tmp_path), "--seed", "77"]) == 0
    record = read(tmp_path / "refused.simulated.jsonl")
    assert (record.meta.seed, record.scenario.seed) == (77, 77)
    assert "(seed 77)" in capsys.readouterr().out


def test_a_scenario_that_expects_something_else_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (CATALOG / "refused.toml").read_text().replace("failovers = 6", "failovers = 5")
    path = tmp_path / "refused.toml"
    path.write_text(text)
    assert simulate([str(path), "--out", str(tmp_path / "out")]) == 1
    assert "expected_failovers: fail" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "SCENARIO|FILE.toml; remedy: see pooldrill simulate --help"),
        (["refusd"], "refusd: no scenario of this name; remedy: did you mean refused?"),
        (["refused", "--seed", "-1"], "'-1' is not a whole number from 0 to 2^63 - 1"),
        (["refused", "--seed", str(2**63)], "is not a whole number"),
        (["refused", "--se", "1"], "unrecognized arguments"),
        (["no/such.toml"], "no/such.toml: no such file or directory; remedy: "),
    ],
)
def test_bad_input_is_refused_in_one_line(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["simulate", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pooldrill simulate: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_seed_that_breaks_a_rule_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One operation is drawn in the mean; with some seeds none arrives."""
    text = """
        title = "Few arrivals"
        name = "few"
        seed = SEED
        duration_s = 9.0
        pools = [{ id = "a" }]
        load = [{ rate_rps = 1.0, start_s = 0.0, end_s = 1.0, arrivals = "poisson" }]
        expect = { answers = { "200" = [0, 9] } }
    """
    path = tmp_path / "few.toml"
    codes = set()
    path.write_text(text.replace("SEED", "1"))
    for seed in range(20):
        codes.add(pooldrill.main(["simulate", str(path), "--out", str(tmp_path), "--seed", str(seed)]))
    assert codes == {0, 2}
    refusals = capsys.readouterr().err.splitlines()
    assert all(line.startswith("pooldrill simulate: --seed ") for line in refusals), (
        "the file is in order, the seed is not"
    )


def test_a_record_that_cannot_be_written_is_an_environments_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert pooldrill.main(["simulate", "refused", "--out", str(tmp_path / "file")]) == 3
    assert "; remedy: name another directory with --out" in capsys.readouterr().err
