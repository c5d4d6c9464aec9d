from msgspec.structs import replace

from reports import banner
from reports.measures import Run
from scenarios.record import Record
from scenarios.verdict import failed, passed, undecided
from tests.reports.records import as_real, modelled

RUNS = [Run(as_real(modelled("refused")))]
EVIL = "<script>alert(1)</script>\" x='"


def test_a_good_run_has_nothing_to_tell() -> None:
    assert banner.what_broke(RUNS, {"real": {"never_twice": passed("fine")}}) == ""


def test_what_is_undecided_is_not_said_to_be_broken() -> None:
    told = banner.what_broke(RUNS, {"real": {"never_twice": undecided("no events")}})
    assert "What could not be decided" in told
    assert "What broke" not in told
    assert "Found: no events" in told


def test_only_the_first_of_many_failures_are_told() -> None:
    told = banner.what_broke(RUNS, {"real": {f"check_{turn}": failed("wrong") for turn in range(40)}})
    assert told.count("Found: wrong") == banner.OPEN_MAX
    assert f"and {40 - banner.OPEN_MAX} more, in the table of all checks" in told


def test_an_invalid_run_tells_why_and_not_that_every_check_is_undecided() -> None:
    record = as_real(modelled("refused"), invalid="loop lag 0.3 s")
    told = banner.what_broke([Run(record)], {"real": {"never_twice": undecided("the run is invalid")}})
    assert "Not fit to be judged: loop lag 0.3 s" in told
    assert ".venv/bin/pooldrill drill refused" in told
    assert "never_twice" not in told


def test_a_failure_of_the_model_is_told_even_beside_an_invalid_run() -> None:
    record = as_real(modelled("refused"), invalid="loop lag 0.3 s")
    told = banner.what_broke([Run(record)], {"real": {"a": undecided("")}, "simulated": {"b": failed("wrong")}})
    assert "::simulated::b" in told
    assert "::real::a" not in told


def test_reasons_and_details_are_escaped() -> None:
    record = modelled("refused")
    run = Run(Record(replace(record.meta, invalid=EVIL), record.rows))
    told = banner.what_broke([run], {EVIL: {EVIL: failed(EVIL)}})
    assert "<script" not in told
    assert told.count("&lt;script&gt;alert(1)&lt;/script&gt;&quot; x=&#x27;") > 3


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert "for 2.0\N{NO-BREAK SPACE}s, 3 so" in banner.verdict("pass", "for 2.0 s, 3 so")
