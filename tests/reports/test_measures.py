import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reports.measures import Answer, Run, quantile, span
from scenarios.record import Fault, Operation, PoolEvent, Probe, Record, Request, Send
from tests.reports.records import as_real, modelled, nothing_happened, received_twice, with_rows


def test_failovers_are_told_from_first_answers() -> None:
    run = Run(modelled("refused"))
    assert run.classes == {Answer.FIRST: 11, Answer.FAILED_OVER: 3}
    assert run.answers == {"200": 14}


def test_errors_and_breaks_have_classes_of_their_own() -> None:
    assert Run(modelled("body_read_then_dropped")).classes == {Answer.FIRST: 11, Answer.MAYBE_RUNNING: 3}
    assert Run(modelled("mid_stream_drop")).classes == {Answer.FIRST: 11, Answer.BREAK: 3}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"end": "eof_no_done"}, Answer.NONE),
        ({"end": "timeout", "status": None}, Answer.NONE),
        ({"end": "refused", "status": None}, Answer.NONE),
        ({"end": "reset", "status": None}, Answer.NONE),
        ({"end": "reset", "status": 200}, Answer.BREAK),
        ({"end": "error_frame"}, Answer.ERROR),
        ({"status": 429}, Answer.ERROR),
        ({"status": 503, "code": "no_pool"}, Answer.ERROR),
        ({"status": 503, "code": "maybe_running"}, Answer.MAYBE_RUNNING),
        ({"status": 204}, Answer.FIRST),
    ],
)
def test_every_end_has_a_class(changes: dict[str, object], answer: Answer) -> None:
    record = modelled("refused")
    changed = replace(record.requests[0], **changes)
    assert [mark.answer for mark in Run(Record(record.meta, [changed])).marks] == [answer]


def test_a_router_without_send_log_is_believed_about_its_number_of_sends() -> None:
    record = modelled("refused")
    requests = [replace(request, sends=2) for request in record.requests[:4]]
    assert Run(Record(record.meta, requests)).classes == {Answer.FAILED_OVER: 4}


def test_a_gateway_that_asks_the_same_pool_again_has_not_failed_over() -> None:
    record = modelled("refused")
    sends = [replace(send, pool="west") for send in record.sends]
    assert Run(Record(record.meta, [*record.requests, *sends])).classes == {Answer.FIRST: 14}


def test_amplification_counts_sends_and_whole_bodies_against_operations() -> None:
    amplification = Run(modelled("refused")).amplification
    assert (amplification.operations, amplification.requests, amplification.sends, amplification.bodies) == (
        14, 14, 17, 14
    )  # fmt: skip
    assert amplification.send_amplification == pytest.approx(17 / 14)
    assert amplification.bodies_per_operation == 1
    assert amplification.bodies_per_request_max == 1


def test_a_second_body_is_counted_at_the_pools() -> None:
    amplification = Run(received_twice(modelled("refused"))).amplification
    assert (amplification.bodies, amplification.bodies_per_request_max) == (16, 2)


def test_bodies_of_the_harness_own_probes_do_not_count() -> None:
    body = PoolEvent(pool="east", frontend="east-0", kind="body_complete", t=0.1, request_id="probe-1")
    probe = Probe(request_id="probe-1", target="east", t=0.1, outcome="200")
    assert Run(with_rows(modelled("refused"), [body, probe])).amplification.bodies == 14


def test_latency_counts_from_the_intended_start() -> None:
    late = Request(
        operation_id="op-0-0", request_id="op-0-0-r0", attempt=0, t_start=1.5, t_first_token=1.75, t_end=2.0,
        end="done", status=200,
    )  # fmt: skip
    operation = Operation(operation_id="op-0-0", load=0, t_intended=1.0, t_end=2.0, ok=True, requests=1)
    run = Run(Record(modelled("refused").meta, [operation, late]))
    assert run.latencies.first_token_s == (0.75,)
    assert run.latencies.total_s == (1.0,)
    assert [(mark.due_s, mark.latency_s) for mark in run.marks] == [(1.0, 1.0)]


def test_a_clients_own_retry_is_due_when_it_is_made() -> None:
    first = Request(operation_id="op", request_id="op-r0", attempt=0, t_start=1.1, t_end=1.2, end="done", status=503)
    retry = Request(operation_id="op", request_id="op-r1", attempt=1, t_start=1.7, t_end=1.9, end="done", status=200)
    operation = Operation(operation_id="op", load=0, t_intended=1.0, t_end=1.9, ok=True, requests=2)
    marks = Run(Record(modelled("refused").meta, [operation, retry, first])).marks
    assert [mark.due_s for mark in marks] == [1.0, 1.7]


def test_only_complete_answers_have_a_latency() -> None:
    assert len(Run(modelled("body_read_then_dropped")).latencies.total_s) == 11


def test_an_empty_run_has_no_ratios_and_no_quantiles() -> None:
    run = Run(nothing_happened(modelled("refused")))
    assert math.isnan(run.amplification.send_amplification)
    assert run.amplification.bodies_per_request_max == 0
    assert math.isnan(quantile(run.latencies.total_s, 0.5))


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.99, 10), (0.0, 1), (1.0, 10)])
def test_quantiles_are_values_that_occurred(share: float, value: float) -> None:
    assert quantile(tuple(range(1, 11)), share) == value


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_leaves_at_least_its_share_at_or_below(values: list[float], share: float) -> None:
    found = quantile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) <= share * len(values) + 1e-6


def test_what_is_not_known_of_a_fault_comes_from_its_plan() -> None:
    fault = Fault(name="refused", target="a", planned_inject=1.0, planned_clear=2.0)
    assert span(fault) == (1.0, 2.0)
    assert span(replace(fault, t_inject=1.1)) == (1.1, 2.0)
    assert span(replace(fault, t_inject=1.1, t_clear=2.2)) == (1.1, 2.2)


def test_the_reason_of_a_send_is_its_status_or_its_cause() -> None:
    run = Run(modelled("refused"))
    assert run.outcomes["east", "unsent", "refused"] == 3
    bare = Send(
        request_id="r", attempt=1, pool="a", frontend="a-0", t_start=0, t_end=1, slot_taken=True, delivery="unknown"
    )
    assert Run(Record(run.record.meta, [bare])).outcomes == {("a", "unknown", "no cause given"): 1}


def test_titles_tell_the_runs_apart() -> None:
    model = modelled("refused")
    assert (Run(model).title, Run(model).short) == ("Model (simulated)", "model")
    assert Run(as_real(model, router="haproxy")).title == "Real run (router: haproxy)"
