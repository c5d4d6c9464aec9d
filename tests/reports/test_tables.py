import re

from msgspec.structs import replace

from reports import tables
from reports.measures import Run
from scenarios.record import Record
from scenarios.verdict import failed, passed, undecided
from tests.reports.records import as_real, fault_not_made, modelled, nothing_happened

MODEL = modelled("refused_under_load")


def both() -> list[Run]:
    return [Run(as_real(MODEL)), Run(MODEL)]


def row(*cells: str) -> str:
    """Return the cells of a row as they stand in HTML, whatever their headings."""
    return "".join([f'<th scope="row">{cells[0]}</th>', *(f">{cell}</td>" for cell in cells[1:])])


def without_headings(table: str) -> str:
    """Return a table whose cells do not repeat their headings."""
    return re.sub(r'<td data-label="[^"]*"', "", table)


def test_answers_show_what_was_expected_and_what_was_not() -> None:
    odd = [replace(MODEL.requests[0], status=500, code=None), *MODEL.requests[1:]]
    shown = without_headings(tables.answers([Run(Record(MODEL.meta, odd))]))
    assert row("200", "80 to 88", "83") in shown
    assert row("500", "0", "1") in shown
    assert row("break", "1 to 4", "2") in shown


def test_where_nothing_is_expected_of_the_answers_none_is_called_wrong() -> None:
    scenario = replace(MODEL.scenario, expect=replace(MODEL.scenario.expect, answers={}))
    shown = without_headings(tables.answers([Run(Record(replace(MODEL.meta, scenario=scenario), MODEL.rows))]))
    assert row("200", "any", "84") in shown


def test_a_router_that_invents_codes_does_not_blow_up_the_table() -> None:
    odd = [replace(request, status=500, code=f"code_{turn}") for turn, request in enumerate(MODEL.requests)]
    shown = tables.answers([Run(Record(MODEL.meta, odd))])
    kinds = {*MODEL.scenario.expect.answers, *(request.answer for request in odd)}
    assert f"and {len(kinds) - tables.ROWS_MAX} more" in shown
    assert shown.count("<tr>") == tables.ROWS_MAX + 2


def test_sends_show_by_how_much_the_model_differs() -> None:
    fewer = Record(MODEL.meta, MODEL.sends[1:])
    shown = without_headings(tables.sends([Run(as_real(MODEL)), Run(fewer)]))
    first = MODEL.sends[0]
    count = sum(send.pool == first.pool and send.status == 200 for send in MODEL.sends)
    assert row(first.pool, "answered", "200", str(count), str(count - 1), "\N{MINUS SIGN}1") in shown
    assert row("east", "unsent", "refused", "15", "15", "0") in shown


def test_latency_of_runs_without_streams_has_no_first_tokens() -> None:
    shown = without_headings(tables.latency([Run(modelled("refused"))]))
    assert row("first token: operations", "0") in shown
    assert "first token: p50" not in shown
    assert "whole answer: p99" in shown


def test_an_empty_run_shows_dashes_and_not_nan() -> None:
    run = Run(nothing_happened(MODEL))
    shown = tables.latency([run]) + tables.amplification([run]) + tables.sends([run]) + tables.answers([run])
    assert "nan" not in shown
    assert row("send_amplification (sends / operations)", tables.NONE) in without_headings(tables.amplification([run]))


def test_checks_of_both_runs_stand_in_one_row() -> None:
    verdicts = {
        "real": {"never_twice": failed("twice")},
        "simulated": {"never_twice": passed("fine"), "no_false_end": undecided("no events")},
        "agreement": {"same_answers": passed("equal")},
    }
    shown = tables.checks(verdicts)
    assert shown.count("never_twice") == 1
    assert shown.index("twice</span>") < shown.index("fine</span>")
    assert "? undecided" in shown
    assert shown.index("Each run by itself") < shown.index("Real run against model") < shown.index("same_answers")


def test_a_fault_that_was_not_made_says_never_and_not_proved() -> None:
    shown = tables.faults([Run(fault_not_made(modelled("refused")))])
    assert ">never<" in shown
    assert "not proved: connect was accepted" in shown


def test_a_fault_that_was_not_taken_away_says_so() -> None:
    record = modelled("refused")
    endless = replace(record.faults[0], t_clear=None, cleared=False, cleared_proof="")
    assert ">1.000 to the end of the run<" in tables.faults([Run(Record(record.meta, [endless]))])
