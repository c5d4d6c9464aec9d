"""A campaign runs a scenario with the runners it is given, and judges what they bring back."""

from pathlib import Path

import msgspec
import pytest

import simulator.run
from scenarios.campaign import InvalidRunError, compare, valid_run
from scenarios.record import PoolEvent, Record, Sample
from scenarios.spec import Scenario
from scenarios.verdict import Verdict
from scenarios.verdicts import WIDTH_MAX, summary, table
from tests.scenarios.doctored import as_mode, doubled, planned, without


def real(scenario: Scenario, out: Path) -> Record:
    """Stand in for a real run: here only the order of things matters."""
    return as_mode(simulator.run.run(scenario, out), "real")


def twice(scenario: Scenario, out: Path) -> Record:
    return doubled(real(scenario, out), PoolEvent, lambda event: event.kind == "body_complete")


def invalid(scenario: Scenario, out: Path) -> Record:
    record = real(scenario, out)
    return Record(msgspec.structs.replace(record.meta, invalid="loop lag 0.3 s, allowed 0.1 s"), record.rows)


def test_both_runs_are_judged_and_compared(tmp_path: Path) -> None:
    comparison = compare(planned("refused"), {"real": real, "simulated": simulator.run.run}, tmp_path)
    assert comparison.passed
    assert list(comparison.verdicts) == ["real", "simulated", "agreement"]
    assert [comparison.real.meta.mode, comparison.simulated.meta.mode] == ["real", "simulated"]


def test_one_check_that_fails_fails_the_comparison(tmp_path: Path) -> None:
    comparison = compare(planned("refused"), {"real": twice, "simulated": simulator.run.run}, tmp_path)
    assert not comparison.passed
    assert comparison.verdicts["real"]["never_twice"].state == "fail"


def test_an_invalid_run_is_an_error_and_never_judged(tmp_path: Path) -> None:
    with pytest.raises(InvalidRunError, match=r"refused: the real run is invalid: loop lag 0\.3 s"):
        compare(planned("refused"), {"real": invalid, "simulated": simulator.run.run}, tmp_path)
    assert InvalidRunError.exit_code == 3


def test_a_run_on_a_busy_machine_is_an_error_though_nobody_marked_it(tmp_path: Path) -> None:
    def busy(scenario: Scenario, out: Path) -> Record:
        record = real(scenario, out)
        return Record(record.meta, [*record.rows, Sample(kind="loop_lag_s", source="east-0", value=0.2, t=0.5)])

    with pytest.raises(InvalidRunError, match=r"machine too busy: east-0 was 0\.200 s late"):
        valid_run(busy, planned("refused"), tmp_path)


def test_what_a_runner_raises_goes_through(tmp_path: Path) -> None:
    def broken(scenario: Scenario, out: Path) -> Record:
        raise OSError("no port left")

    with pytest.raises(OSError, match="no port left"):
        valid_run(broken, planned("refused"), tmp_path)


def test_the_table_fits_and_tells_what_failed(tmp_path: Path) -> None:
    comparison = compare(planned("refused"), {"real": twice, "simulated": simulator.run.run}, tmp_path)
    text = table(comparison.verdicts)
    assert max(map(len, text.splitlines())) <= WIDTH_MAX
    assert "never_twice             fail      pass" in text
    assert "real never_twice: fail\n  1 of 14 requests were received whole more than once: op-0-0-r0" in text
    assert text.splitlines()[-1].startswith("FAIL: ")


def test_nothing_is_cut_off_where_all_is_well(tmp_path: Path) -> None:
    for name in ("refused", "body_read_then_dropped", "mid_stream_drop", "refused_under_load"):
        comparison = compare(planned(name), {"real": real, "simulated": simulator.run.run}, tmp_path)
        assert "..." not in table(comparison.verdicts)


def test_the_summary_counts() -> None:
    good, bad, open_ = Verdict("pass", "a"), Verdict("fail", "b"), Verdict("undecided", "c")
    assert summary({"real": {"a": good, "b": good}}) == "PASS: all 2 checks passed"
    assert summary({"real": {"a": good, "b": bad}}) == "FAIL: 1 failed, 1 passed of 2 checks"
    assert summary({"real": {"a": open_}, "agreement": {"b": bad}}) == (
        "FAIL: 1 failed, 1 undecided, 0 passed of 2 checks"
    )


def test_nothing_judged_is_not_a_pass() -> None:
    assert summary({"real": {}}) == "FAIL: nothing was checked"


def test_a_record_without_its_sends_is_undecided_not_green(tmp_path: Path) -> None:
    def silent(scenario: Scenario, out: Path) -> Record:
        record = real(scenario, out)
        for send in record.sends:
            record = without(record, type(send))
        return record

    comparison = compare(planned("refused"), {"real": silent, "simulated": simulator.run.run}, tmp_path)
    assert not comparison.passed
    assert comparison.verdicts["real"]["at_most_two_sends"].state == "undecided"
    assert comparison.verdicts["agreement"]["same_attempts"].state == "undecided"
