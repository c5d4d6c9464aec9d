import pytest

from reports import judgement
from reports.judgement import Finding
from scenarios.agreement import AGREEMENT
from scenarios.checks import CHECKS
from scenarios.record import Record
from scenarios.verdict import Verdict, failed, passed, undecided
from tests.reports.records import as_real, modelled


def test_two_records_are_judged_by_themselves_and_against_each_other() -> None:
    model = modelled("refused")
    assert list(judgement.judged([as_real(model), model])) == ["real", "simulated", "agreement"]
    assert list(judgement.judged([model])) == ["simulated"]


@pytest.mark.parametrize(
    ("states", "overall"),
    [
        ([passed("")], "pass"),
        ([passed(""), undecided("")], "undecided"),
        ([passed(""), undecided(""), failed("")], "fail"),
        ([], "undecided"),
    ],
)
def test_all_verdicts_in_one_word(states: list[Verdict], overall: str) -> None:
    verdicts = {"real": {f"check_{turn}": verdict for turn, verdict in enumerate(states)}}
    assert judgement.overall(verdicts, [modelled("refused")]) == overall


def test_an_invalid_run_is_not_judged_but_a_failure_beside_it_stands() -> None:
    invalid: Record = as_real(modelled("refused"), invalid="too busy")
    assert judgement.overall(judgement.judged([invalid]), [invalid]) == "invalid"
    assert judgement.overall({"simulated": {"never_twice": failed("")}}, [invalid]) == "fail"


def test_failures_come_before_what_is_undecided() -> None:
    verdicts = {"real": {"a": undecided(""), "b": passed("")}, "agreement": {"c": failed("")}}
    assert [finding.check for finding in judgement.not_passed(verdicts)] == ["c", "a"]


@pytest.mark.parametrize("check", [*CHECKS, *AGREEMENT])
def test_every_check_says_what_must_hold(check: str) -> None:
    assert judgement.law(check).endswith(".")


def test_ids_and_commands_name_scenarios_of_the_catalog_and_files() -> None:
    finding = Finding("real", "never_twice", failed(""))
    assert judgement.check_id("refused", finding) == "scenarios/catalog/refused.toml::real::never_twice"
    assert judgement.check_id("mine", finding) == "mine.toml::real::never_twice"
    assert judgement.rerun_command("refused", ["real", "simulated"]) == ".venv/bin/pooldrill compare refused"
    assert judgement.rerun_command("refused", ["real"]) == ".venv/bin/pooldrill drill refused"
    assert judgement.rerun_command("mine", ["simulated"]) == ".venv/bin/pooldrill simulate mine.toml"
