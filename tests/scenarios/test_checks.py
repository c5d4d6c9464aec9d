"""Each check can fail, says what it found with ids, and never takes a record that lacks something for a good one."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from scenarios.checks import CHECKS, checks_for, judge
from scenarios.fitness import tries_told
from scenarios.load import catalog
from scenarios.record import Fault, Metric, Operation, PoolEvent, Probe, Record, Request, Sample, Send
from tests.scenarios.doctored import changed, doubled, modelled, planned, without

REFUSED, DROPPED, CUT = "refused", "body_read_then_dropped", "mid_stream_drop_raw"


def is_body(event: PoolEvent) -> bool:
    return event.kind == "body_complete"


def is_whole(request: Request) -> bool:
    return request.answer == "200"


def is_break(request: Request) -> bool:
    return request.answer == "break"


def no_response(metric: Metric) -> bool:
    return metric.labels.get("outcome") == "no_response"


def one_more(record: Record, name: str) -> Record:
    counter = next(metric for metric in record.metrics if metric.name == name)
    return changed(record, Metric, lambda metric: metric is counter, value=counter.value + 1)


@pytest.mark.parametrize("path", catalog(), ids=lambda path: path.stem)
def test_what_the_model_does_passes(path: Path) -> None:
    verdicts = judge(modelled(path))
    assert {check: verdict.detail for check, verdict in verdicts.items() if not verdict.passed} == {}
    assert all(verdict.detail for verdict in verdicts.values())


FALSIFIED: list[tuple[str, str, Callable[[Record], Record], str]] = [
    (
        "never_twice", REFUSED,
        lambda r: doubled(r, PoolEvent, is_body, pool="west", frontend="west-0", t=9.0),
        "1 of 14 requests were received whole more than once: op-0-0-r0 at east-0 (0.202 s) and west-0 (9.000 s)",
    ),
    (
        "at_most_two_sends", REFUSED,
        lambda r: doubled(r, Send, lambda send: send.attempt == 2, attempt=3),
        "op-1-0-r0 was sent 3 times",
    ),
    (
        "at_most_two_sends", REFUSED,
        lambda r: doubled(doubled(r, PoolEvent, lambda e: e.kind == "head"), PoolEvent, lambda e: e.kind == "head"),
        "op-0-0-r0 reached pools 3 times",
    ),
    (
        "never_same_pool_twice", REFUSED,
        lambda r: changed(r, Send, lambda send: send.attempt == 2, pool="east"),
        "op-1-0-r0 was sent to east 2 times",
    ),
    (
        "never_same_pool_twice", REFUSED,
        lambda r: doubled(r, PoolEvent, lambda event: event.kind == "head"),
        "op-0-0-r0 reached east 2 times",
    ),
    (
        "only_unsent_goes_again", DROPPED,
        lambda r: doubled(r, Send, lambda send: send.delivery == "unknown", attempt=2, pool="west"),
        "op-1-0-r0 was unknown at east and sent again to west",
    ),
    (
        "only_unsent_goes_again", DROPPED,
        lambda r: doubled(r, PoolEvent, lambda event: event.kind == "head", pool="west", t=9.0),
        "op-0-0-r0 was received whole by east and also reached west",
    ),
    ("one_answer_each", REFUSED, lambda r: doubled(r, Request, is_whole), "op-0-0-r0 has 2 answers"),
    (
        "one_answer_each", REFUSED,
        lambda r: without(r, Request, lambda request: request.operation_id == "op-0-1"),
        "op-0-1 made 1 requests, but 0 were answered",
    ),
    (
        "one_answer_each", REFUSED,
        lambda r: without(r, Operation, lambda operation: operation.operation_id == "op-0-1"),
        "planned but not made: op-0-1",
    ),
    (
        "one_answer_each", REFUSED,
        lambda r: doubled(r, Operation, lambda _: True, operation_id="op-9-9", requests=0),
        "made but not planned: op-9-9",
    ),
    ("one_answer_each", REFUSED, lambda r: doubled(r, Operation, lambda _: True), "op-0-0 was made 2 times"),
    (
        "one_answer_each", REFUSED,
        lambda r: changed(r, Request, is_whole, end="reset", status=None),
        "op-0-0-r0 ended by reset without a status",
    ),
    (
        "one_answer_each", REFUSED,
        lambda r: changed(r, Request, is_whole, end="timeout"),
        "op-0-0-r0 ended by timeout after status 200",
    ),
    (
        "no_false_end", CUT,
        lambda r: changed(r, Request, is_break, end="eof_no_done"),
        "op-1-1-r0: the stream ended cleanly without its end mark after 5 events",
    ),
    (
        "no_false_end", CUT,
        lambda r: changed(r, Request, is_break, end="done"),
        "op-1-1-r0 looks complete, but no pool finished it",
    ),
    (
        "no_false_end", CUT,
        lambda r: changed(r, Request, is_whole, events=5),
        "op-0-0-r0 looks complete after 5 events",
    ),
    (
        "no_false_end", CUT,
        lambda r: changed(r, Operation, lambda operation: not operation.ok, ok=True),
        "op-1-1 was told success, but its request ended as break",
    ),
    (
        "no_false_end", "mid_stream_drop",
        lambda r: changed(r, Operation, lambda operation: not operation.ok, error=""),
        "op-1-0 failed, but the SDK raised nothing",
    ),
    (
        "in_flight_zero", REFUSED,
        lambda r: changed(r, Sample, lambda sample: sample.source == "east", value=2.0),
        "still in flight: 2 at east (3.600 s)",
    ),
    (
        "only_issued_ids", REFUSED,
        lambda r: changed(r, PoolEvent, is_body, request_id="made-up"),
        "east-0 saw made-up, which was never issued",
    ),
    (
        "only_issued_ids", REFUSED,
        lambda r: changed(r, PoolEvent, is_body, request_id=None),
        "east-0 got a body without a request id at 0.202 s",
    ),
    (
        "only_issued_ids", REFUSED,
        lambda r: changed(r, PoolEvent, is_body, operation_id="op-0-3"),
        "east-0 saw op-0-0-r0 with the body of op-0-3",
    ),
    (
        "only_issued_ids", REFUSED,
        lambda r: changed(r, Send, lambda _: True, request_id="made-up"),
        "the router sent made-up, which was never issued",
    ),
    (
        "sends_match_pools", REFUSED,
        lambda r: changed(r, Send, lambda send: send.attempt == 2, slot_taken=False, delivery="unsent"),
        "west received op-1-0-r0, which the send log says was not handed over",
    ),
    (
        "sends_match_pools", REFUSED,
        lambda r: without(r, PoolEvent, lambda event: event.request_id == "op-0-0-r0"),
        "the send log says east answered op-0-0-r0, which it never received",
    ),
    (
        "delivery_follows_slot", REFUSED,
        lambda r: changed(r, Send, lambda send: send.delivery == "unsent", slot_taken=True),
        "op-1-0-r0 attempt 1 at east took the slot and no status came, but is called unsent",
    ),
    (
        "delivery_follows_slot", DROPPED,
        lambda r: changed(r, Send, lambda send: send.delivery == "unknown", slot_taken=False),
        "op-1-0-r0 attempt 1 at east never took the slot and no status came, but is called unknown",
    ),
    (
        "delivery_follows_slot", REFUSED,
        lambda r: changed(r, Send, lambda send: send.delivery == "answered", slot_taken=False),
        "op-0-0-r0 attempt 1 at east never took the slot and status 200 came, but is called answered",
    ),
    (
        "delivery_follows_slot", DROPPED,
        lambda r: changed(r, Send, lambda send: send.delivery == "unknown", delivery="answered"),
        "took the slot and no status came, but is called answered",
    ),
    (
        "claims_match_sends", DROPPED,
        lambda r: changed(r, Request, lambda request: request.delivery == "unknown", delivery="unsent"),
        "the send log says unknown; op-1-0-r0 was told unsent, but east received it",
    ),
    (
        "claims_match_sends", REFUSED,
        lambda r: changed(r, Request, lambda request: request.pool == "west", pool="east"),
        "the send log says west; op-0-1-r0 was told an answer of east, which never received it",
    ),
    (
        "claims_match_sends", REFUSED,
        lambda r: changed(r, Request, lambda request: request.sends == 2, sends=1),
        "op-1-0-r0 was told sends 1, the send log says 2",
    ),
    (
        "claims_match_sends", REFUSED,
        lambda r: without(r, Send, lambda send: send.request_id == "op-0-0-r0"),
        "op-0-0-r0 was told pool east, the send log says none; op-0-0-r0 was told sends 1, the send log says none",
    ),
    (
        "claims_match_sends", REFUSED,
        lambda r: without(r, PoolEvent, lambda event: event.request_id == "op-0-0-r0"),
        "op-0-0-r0 was told an answer of east, which never received it",
    ),
    (
        "bytes_unaltered", CUT,
        lambda r: changed(r, Request, is_break, sha256_down="0" * 64),
        "op-1-1-r0 got 950 bytes that no pool said",
    ),
    (
        "bytes_unaltered", CUT,
        lambda r: changed(r, Request, is_break, end="done"),
        "op-1-1-r0 looks complete with 950 of 1704 bytes",
    ),
    (
        "bytes_unaltered", REFUSED,
        lambda r: changed(
            changed(r, PoolEvent, is_body, sha256="0" * 64), Request, is_whole, sha256_up="1" * 64
        ),
        "east-0 got another body of op-0-0-r0 than its client sent",
    ),
    (
        "metrics_add_up", REFUSED,
        lambda r: one_more(r, "requests_total"),
        "client_requests_total says 17 sends, requests_total 18",
    ),
    (
        "metrics_add_up", REFUSED,
        lambda r: one_more(r, "failovers_total"),
        "client_requests_total says 3 requests of two sends, failovers_total 4",
    ),
    (
        "metrics_add_up", REFUSED,
        lambda r: one_more(r, "client_requests_total"),
        "client_requests_total is 15, clients made 14 requests",
    ),
    (
        "metrics_add_up", REFUSED,
        lambda r: changed(r, Metric, no_response, labels={"pool": "west", "outcome": "no_response"}),
        "requests_total{pool=east, outcome=no_response} is 0, the send log has 3",
    ),
    (
        "metrics_add_up", DROPPED,
        lambda r: changed(
            r, Metric, lambda m: m.labels.get("code") == "maybe_running", labels={"code": "no_pool", "sends": "1"}
        ),
        "client_requests_total{code=maybe_running} is 0, clients saw 3",
    ),
    ("faults_fired", REFUSED, lambda r: without(r, Fault), "refused at east was never made"),
    (
        "faults_fired", REFUSED,
        lambda r: changed(r, Fault, lambda _: True, proved=False, proof="it answered"),
        "refused at east was not proved to be on (it answered)",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: changed(r, Fault, lambda _: True, cleared=False, cleared_proof=""),
        "refused at east was not proved to be cleared (no proof)",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: changed(r, Fault, lambda _: True, proof=""),
        "refused at east was not proved to be on (no proof)",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: changed(r, Fault, lambda _: True, cleared_proof=""),
        "refused at east was not proved to be cleared (no proof)",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: changed(r, Fault, lambda _: True, t_inject=1.21),
        "refused at east was on at 1.210 s, planned for 1 s, allowed are 0.2 s",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: changed(r, Fault, lambda _: True, t_clear=1.9),
        "refused at east was cleared at 1.900 s, planned for 2.2 s, allowed are 0.2 s",
    ),
    (
        "faults_fired", "refused_under_load",
        lambda r: changed(r, Fault, lambda _: True, t_clear=9.0),
        "refused at east was cleared at 9.000 s, planned for 2.2 s, allowed are 1 s",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: doubled(r, Fault, lambda _: True),
        "refused at east was made 2 times",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: doubled(r, Fault, lambda _: True, target="west"),
        "refused at west was made, but not planned for 1 s",
    ),
    (
        "faults_fired", REFUSED,
        lambda r: without(r, Send, lambda send: send.cause == "refused"),
        "refused at east was on, but no request met it",
    ),
    (
        "faults_fired", "black_hole",
        lambda r: without(r, Send, lambda send: send.cause == "connect_timeout"),
        "black_hole at west was on, but no request met it",
    ),
    (
        "faults_fired", DROPPED,
        lambda r: without(r, PoolEvent, lambda event: event.request_id in {f"op-1-{n}-r0" for n in range(6)}),
        "read_drop at east was on, but no request met it",
    ),
    (
        "faults_fired", CUT,
        lambda r: without(r, Request, is_break),
        "cut at west was on, but no request met it",
    ),
    (
        "every_byte_before_break", CUT,
        lambda r: changed(r, Request, is_break, events=4),
        "op-1-1-r0 got 4 events before the break, 5 had passed",
    ),
    (
        "every_byte_before_break", CUT,
        lambda r: changed(r, Request, is_break, end="done"),
        "op-1-1-r0 was cut, but ended as 200",
    ),
    (
        "expected_answers", DROPPED,
        lambda r: changed(r, Request, is_whole, status=502, code="bad_gateway"),
        "200: 10, expected 11; 502 bad_gateway: 1, expected 0 (op-0-0-r0)",
    ),
    (
        "expected_failovers", REFUSED,
        lambda r: without(r, Send, lambda send: send.attempt == 2),
        "0 requests with two sends, expected 3",
    ),
    (
        "expected_resends", DROPPED,
        lambda r: doubled(r, Request, is_whole, attempt=1, request_id="op-0-0-r1"),
        "1 requests sent again by clients, expected 0: op-0-0-r1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "falsify", "says"), FALSIFIED, ids=[f"{c}-{n}" for c, n, *_ in FALSIFIED])
def test_a_falsified_record_is_noticed(check: str, name: str, falsify: Callable[[Record], Record], says: str) -> None:
    assert CHECKS[check](modelled(name)).passed
    verdict = CHECKS[check](falsify(modelled(name)))
    assert (verdict.state, says in verdict.detail) == ("fail", True), verdict.detail


def test_each_check_is_shown_to_fail() -> None:
    elsewhere = {"expected_measures", "expected_class"}  # they need a chain of layers: test_measures.py
    assert {check for check, *_ in FALSIFIED} == set(CHECKS) - elsewhere


@pytest.mark.parametrize("check", CHECKS)
def test_an_empty_record_is_undecided_or_wrong(check: str) -> None:
    verdict = CHECKS[check](Record(modelled(CUT).meta, []))
    assert not verdict.passed
    assert verdict.detail


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        ("never_twice", PoolEvent),
        ("at_most_two_sends", Send),
        ("never_same_pool_twice", Send),
        ("only_unsent_goes_again", Send),
        ("only_unsent_goes_again", PoolEvent),
        ("one_answer_each", Request),
        ("no_false_end", Request),
        ("no_false_end", PoolEvent),
        ("in_flight_zero", Sample),
        ("only_issued_ids", PoolEvent),
        ("sends_match_pools", Send),
        ("sends_match_pools", PoolEvent),
        ("delivery_follows_slot", Send),
        ("claims_match_sends", Request),
        ("claims_match_sends", Send),
        ("claims_match_sends", PoolEvent),
        ("bytes_unaltered", Request),
        ("metrics_add_up", Metric),
        ("every_byte_before_break", Request),
        ("every_byte_before_break", PoolEvent),
        ("expected_answers", Request),
        ("expected_failovers", Send),
        ("expected_resends", Request),
    ],
)
def test_what_the_record_lacks_cannot_be_decided(check: str, kind: type[Send]) -> None:
    verdict = CHECKS[check](without(modelled(CUT), kind))
    assert (verdict.state, bool(verdict.detail)) == ("undecided", True)


def test_a_body_without_an_id_could_be_anybodys() -> None:
    verdict = CHECKS["never_twice"](changed(modelled(REFUSED), PoolEvent, is_body, request_id=None))
    assert verdict.state == "undecided"


def test_an_early_reading_of_in_flight_decides_nothing() -> None:
    record = changed(modelled(REFUSED), Sample, lambda sample: sample.source == "east", t=1.0)
    assert CHECKS["in_flight_zero"](record).state == "undecided"


def test_answers_that_were_not_hashed_decide_nothing() -> None:
    assert CHECKS["bytes_unaltered"](changed(modelled(CUT), Request, is_break, sha256_down=None)).state == "undecided"


def test_a_router_that_claims_nothing_is_not_believed() -> None:
    verdict = CHECKS["claims_match_sends"](changed(modelled(REFUSED), Request, is_whole, delivery=None, pool=None))
    assert (verdict.state, verdict.detail) == ("undecided", "the router's headers told nothing of op-0-0-r0")


def test_who_got_no_status_was_told_nothing() -> None:
    silent = changed(modelled(REFUSED), Request, is_whole, status=None, end="timeout", delivery=None)
    assert CHECKS["claims_match_sends"](silent).passed


def test_probes_of_the_harness_go_past_the_router() -> None:
    """A probe proves that a fault is on; it is no send of the router, and no request that met the fault."""
    record = modelled(DROPPED)
    fault = record.faults[0]
    at_s = (fault.t_inject or 0.0) + 0.01
    event = next(event for event in record.pool_events if event.kind == "body_complete")
    probe = msgspec.structs.replace(event, request_id="probe-0-r0", operation_id="probe-0", pool=fault.target, t=at_s)
    issued = Probe(request_id="probe-0-r0", target=fault.target, t=at_s, outcome="reset")
    probed = Record(record.meta, [*record.rows, probe, issued])
    assert all(verdict.passed for verdict in judge(probed).values())
    dropped = {request.request_id for request in record.requests if request.answer != "200"}
    quiet = without(probed, PoolEvent, lambda event: event.request_id in dropped)
    assert "no request met it" in CHECKS["faults_fired"](quiet).detail
    assert CHECKS["only_issued_ids"](without(probed, Probe)).state == "fail"


def test_a_fault_may_be_as_late_as_a_busy_machine_where_nothing_is_exact() -> None:
    record = modelled("refused_under_load")
    late = changed(record, Fault, lambda _: True, t_inject=record.scenario.faults[0].inject_s + 0.5)
    assert CHECKS["faults_fired"](late).passed


def test_an_odd_end_is_explicit_where_the_scenario_expects_it() -> None:
    record = changed(modelled(REFUSED), Request, is_whole, end="timeout")
    expect = msgspec.structs.replace(record.scenario.expect, answers={"200": 13, "timeout": 1})
    scenario = msgspec.structs.replace(record.scenario, expect=expect)
    record = Record(msgspec.structs.replace(record.meta, scenario=scenario), record.rows)
    assert CHECKS["one_answer_each"](record).passed
    assert CHECKS["expected_answers"](record).passed


def test_who_left_first_is_not_judged_by_code() -> None:
    """A client that gave up may have been counted as answered, or as gone: both are right."""
    record = changed(modelled(REFUSED), Request, is_whole, end="timeout", status=None)
    assert CHECKS["metrics_add_up"](record).passed


def test_an_invalid_run_is_never_green() -> None:
    record = modelled(REFUSED)
    verdicts = judge(Record(msgspec.structs.replace(record.meta, invalid="loop lag 0.3 s"), record.rows))
    assert {verdict.state for verdict in verdicts.values()} == {"undecided"}
    assert all("loop lag 0.3 s" in verdict.detail for verdict in verdicts.values())


def test_a_busy_machine_is_seen_in_the_record_itself() -> None:
    """Nobody has marked this run invalid."""

    def with_lag(name: str, value: float, t: float = 0.5) -> Record:
        late = Sample(kind="loop_lag_s", source="east-0", value=value, t=t)
        return Record(modelled(name).meta, [*modelled(name).rows, late])

    busy = judge(with_lag(REFUSED, 0.11))
    assert {(verdict.state, verdict.detail) for verdict in busy.values()} == {
        ("undecided", "the run is invalid: machine too busy: east-0 was 0.110 s late at 0.5 s, at most 0.1 s")
    }
    fine = [with_lag(REFUSED, 0.09), with_lag(REFUSED, 5.0, t=-0.1), with_lag("refused_under_load", 5.0)]
    for record in fine:
        assert all(verdict.passed for verdict in judge(record).values())


def test_a_run_that_is_not_the_first_try_says_so() -> None:
    meta = modelled(REFUSED).meta
    told = [tries_told(Record(msgspec.structs.replace(meta, tries=tries), [])) for tries in (1, 2, 3, 4)]
    assert told == ["", *(f"{nth} try: the machine was busy" for nth in ("second", "third", "4th"))]


def test_a_scenario_is_asked_only_what_it_can_show() -> None:
    refused, cut, loaded = map(planned, ("refused", "mid_stream_drop", "refused_under_load"))
    assert "every_byte_before_break" in checks_for(cut)
    assert "every_byte_before_break" not in checks_for(refused)
    assert "expected_resends" in checks_for(refused)
    assert "expected_resends" not in checks_for(loaded)
    assert "faults_fired" not in checks_for(msgspec.structs.replace(refused, faults=()))
