from pathlib import Path

import pytest

import pooldrill
from reports.cli import report
from scenarios.record import Record, write
from tests.reports.records import as_real, modelled, received_twice


def written(record: Record, folder: Path) -> str:
    path = folder / f"{record.scenario.name}.{record.meta.mode}.jsonl"
    write(record, path)
    return str(path)


def main(argv: list[str]) -> int:
    return pooldrill.main(["report", *argv])


def test_two_records_give_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = modelled("refused")
    paths = [written(model, tmp_path), written(as_real(model), tmp_path)]
    assert report([*paths, "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert f"report: {tmp_path / 'out' / 'refused.html'}" in out
    assert "never_twice" in out
    assert "PASS" in out
    assert max(len(line) for line in out.splitlines() if not line.startswith("report:")) <= 80
    assert err == ""
    assert (tmp_path / "out" / "refused.html").is_file()


def test_a_page_goes_beside_its_record_unless_told_otherwise(tmp_path: Path) -> None:
    assert report([written(modelled("refused"), tmp_path)]) == 0
    assert (tmp_path / "refused.simulated.html").is_file()


def test_a_failed_check_is_exit_code_1(tmp_path: Path) -> None:
    assert report([written(received_twice(modelled("refused")), tmp_path)]) == 1


def test_a_run_that_cannot_be_judged_is_exit_code_3(tmp_path: Path) -> None:
    assert report([written(as_real(modelled("refused"), invalid="too busy"), tmp_path)]) == 3


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["missing.jsonl"], "missing.jsonl: No such file"),
        (["empty.jsonl"], "empty.jsonl: empty"),
        (["broken.jsonl"], "broken.jsonl:1:"),
        (["refused.simulated.jsonl", "refused.simulated.jsonl"], "are both simulated"),
        (["refused.simulated.jsonl", "black_hole.real.jsonl"], "different scenarios"),
        (["refused.simulated.jsonl"] * 3, "3 records given"),
        ([], "required"),
        (["refused.simulated.jsonl", "--what"], "--what"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    names: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(modelled("refused"), tmp_path)
    written(as_real(modelled("black_hole")), tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text('{"type": "meta"}\n')
    assert main([name if name.startswith("-") else str(tmp_path / name) for name in names]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pooldrill report: ")
    assert problem in err
    assert "remedy" in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(modelled("refused"), tmp_path)
    (tmp_path / "file").write_text("")
    assert main([path, "--out", str(tmp_path / "file")]) == 3
    assert capsys.readouterr().err.count("\n") == 1
