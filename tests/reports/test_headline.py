from typing import get_args, get_type_hints

import pytest
from msgspec.structs import replace

from reports import headline, judgement
from reports.measures import Run
from scenarios.record import Fault, Record, Send
from scenarios.spec import Fault as PlannedFault
from tests.reports.records import as_real, fault_not_made, modelled, nothing_happened, received_twice


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "refused",
            (
                "Pool east refused every connection for 1.2 s. 14 of 14 requests were answered 200 (3 of them by "
                "another pool); none was received twice."
            ),
        ),
        (
            "black_hole",
            (
                "Connections to pool west hung unanswered for 1.8 s. 14 of 14 requests were answered 200 (1 of them by "
                "another pool); none was received twice."
            ),
        ),
        (
            "body_read_then_dropped",
            (
                "Pool east read whole requests and closed without an answer for 1.2 s. 11 of 14 requests were answered "
                "200 and 3 got 503 maybe_running; none was received twice."
            ),
        ),
        (
            "mid_stream_drop",
            (
                "Streams of pool east were cut after 3 events for 1.4 s. 11 of 14 requests were answered 200 and 3 "
                "broke off visibly in mid-answer; none was received twice."
            ),
        ),
    ],
)
def test_a_drill_is_told_in_two_sentences(name: str, told: str) -> None:
    assert headline.story([Run(as_real(modelled(name)))]) == told


def test_the_real_run_is_told_if_there_is_one() -> None:
    model = modelled("refused")
    assert headline.story([Run(model)]).startswith("In the model, pool east refused")
    assert headline.story([Run(received_twice(as_real(model))), Run(model)]).endswith(
        "; 2 were received more than once."
    )


def test_faults_that_were_not_made_or_not_cleared_are_told_as_such() -> None:
    record = modelled("refused")
    assert headline.done(Run(fault_not_made(record))) == "the planned fault refused on pool east was not made"
    endless = replace(record.faults[0], t_clear=None)
    assert (
        headline.done(Run(Record(record.meta, [endless]))) == "pool east refused every connection from 1.0 s to the end"
    )


def test_many_faults_are_counted_and_unknown_ones_named() -> None:
    meta = modelled("refused").meta
    faults = [
        Fault(name="slow", target=pool, planned_inject=1, planned_clear=2, t_inject=1, t_clear=2) for pool in "abab"
    ]
    assert headline.done(Run(Record(meta, faults))) == "4 faults were made on 2 pools (a, b)"
    assert headline.done(Run(Record(meta, faults[:1]))) == "pool a had the fault slow for 1.0 s"


def test_every_kind_of_fault_has_words_of_its_own() -> None:
    assert headline._EFFECTS.keys() == set(get_args(get_type_hints(PlannedFault)["kind"]))


def test_an_empty_run_is_told_as_empty() -> None:
    run = Run(nothing_happened(modelled("refused")))
    assert headline.story([run]) == "In the model, no fault was made. No request was made."


def test_without_events_of_pools_nothing_is_said_about_twice() -> None:
    record = modelled("refused")
    assert headline.seen(Run(Record(record.meta, record.requests[:1]))) == "1 of 1 request was answered 200"


def _outcome(*records: Record) -> str:
    verdicts = judgement.judged(records)
    return headline.outcome(verdicts, judgement.overall(verdicts, records), [Run(record) for record in records])


def test_the_outcome_says_whether_it_was_right() -> None:
    model = modelled("refused")
    assert _outcome(model).startswith("All ")
    assert _outcome(as_real(model), model).endswith(" checks passed; the model agrees.")
    assert "; first: never_twice (real run)." in _outcome(received_twice(as_real(model)), model)


def test_an_invalid_run_says_nothing_about_the_router() -> None:
    told = _outcome(as_real(modelled("refused"), invalid="loop lag 0.3 s"))
    assert told == "This says nothing about the router, since the run is not fit to be judged: loop lag 0.3 s."


def test_a_difference_between_model_and_real_run_is_not_blamed_on_the_router() -> None:
    model = modelled("refused")
    first, *sends = model.sends
    others = [row for row in model.rows if not isinstance(row, Send)]
    told = _outcome(as_real(model), Record(model.meta, [*others, replace(first, status=201), *sends]))
    assert told.startswith("Each run by itself is as it should be, but real run and model differ. 2 of ")
