"""Everybody's notes become one record: in order, and counted from the run's start."""

from pathlib import Path

import msgspec
import pytest

from chaos.clients.ledger import Ledger
from chaos.collect import CollectError, Notes, read_log
from chaos.scrape import ScrapeError, counters, gauge
from scenarios.plan import Planned
from scenarios.record import Fault, Metric, Operation, PoolEvent, Probe, Request, Row, Sample, Send

START_S = 1_000.0

PAGE = """\
# HELP x_requests_total Sends.
# TYPE x_requests_total counter
x_requests_total{pool="b",outcome="2xx"} 4.0
x_requests_total{pool="a",outcome="no_response"} 1.0
# HELP x_in_flight Under way.
# TYPE x_in_flight gauge
x_in_flight{pool="a"} 2.0
x_in_flight{pool="b"} 0.0
# HELP x_first_byte_seconds Time.
# TYPE x_first_byte_seconds histogram
x_first_byte_seconds_bucket{le="+Inf"} 3.0
x_first_byte_seconds_count 3.0
x_first_byte_seconds_sum 0.5
# HELP other_total Of somebody else.
# TYPE other_total counter
other_total 9.0
"""


def operation(turn: int, *, load: int = 0) -> Operation:
    return Operation(
        operation_id=f"op-{load}-{turn}", load=load, t_intended=1_001.0, t_end=1_002.0, ok=True, requests=1
    )


def request(turn: int, attempt: int = 0, *, load: int = 0) -> Request:
    operation_id = f"op-{load}-{turn}"
    return Request(
        operation_id=operation_id,
        request_id=f"{operation_id}-r{attempt}",
        attempt=attempt,
        t_start=1_001.0,
        t_headers=1_001.25,
        t_end=1_001.5,
        end="done",
    )


def event(t: float) -> PoolEvent:
    return PoolEvent(pool="a", frontend="a-0", kind="head", t=t)


def send(t_start: float, request_id: str) -> Send:
    return Send(
        request_id=request_id,
        attempt=1,
        pool="a",
        frontend="a-0",
        t_start=t_start,
        t_end=t_start + 1,
        slot_taken=True,
        delivery="answered",
    )


def log(path: Path, *rows: Row) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


def test_rows_stand_in_order_and_count_from_the_start(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.operations += [operation(1), operation(0, load=1), operation(0)]
    ledger.requests += [request(1), request(0, 1), request(0, 0), request(0, load=1)]
    notes = Notes(ledger, [Probe(request_id="probe-0-r0", target="a/a-0", t=1_003.0, outcome="x")])
    notes.add_frontend_log(log(tmp_path / "a", event(1_004.0), Sample(kind="k", source="a-0", value=7.0, t=1_005.0)))
    notes.add_frontend_log(log(tmp_path / "b", event(1_003.5)))
    notes.add_send_log(log(tmp_path / "sends", send(1_001.5, "op-0-1-r0"), send(1_001.25, "op-0-0-r0")))
    notes.faults.append(
        Fault(name="cut", target="a", planned_inject=2.0, planned_clear=3.0, t_inject=1_002.5, t_clear=1_003.0)
    )
    notes.metrics.append(Metric(name="n", labels={}, value=1.0))
    planned = [Planned(0, 0, 0.5), Planned(1, 0, 0.6), Planned(0, 1, 0.7)]
    rows = notes.rows(planned, START_S)
    assert [row.operation_id for row in rows if isinstance(row, Operation)] == ["op-0-0", "op-1-0", "op-0-1"]
    requests = [row for row in rows if isinstance(row, Request)]
    assert [row.request_id for row in requests] == ["op-0-0-r0", "op-0-0-r1", "op-1-0-r0", "op-0-1-r0"]
    first = requests[0]
    assert (first.t_start, first.t_headers, first.t_first_token, first.t_end) == (1.0, 1.25, None, 1.5)
    assert [row.t_start for row in rows if isinstance(row, Send)] == [1.25, 1.5]
    assert [row.t for row in rows if isinstance(row, PoolEvent)] == [3.5, 4.0]
    faults = [row for row in rows if isinstance(row, Fault)]
    assert (faults[0].planned_inject, faults[0].t_inject, faults[0].t_clear) == (2.0, 2.5, 3.0)
    assert [(row.t, row.value) for row in rows if isinstance(row, Sample)] == [(5.0, 7.0)]
    assert [row.t for row in rows if isinstance(row, Probe)] == [3.0]
    assert rows[-1] == Metric(name="n", labels={}, value=1.0)


def test_a_fault_that_never_came_has_no_times() -> None:
    notes = Notes(Ledger())
    notes.faults.append(Fault(name="cut", target="a", planned_inject=2.0, planned_clear=3.0))
    assert notes.rows([], START_S) == notes.faults


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"type": "pool_event"', r"a\.jsonl:2: .*truncated"),
        (b'{"type": "send"}', r"a\.jsonl:2: .*send"),
        (b'{"type": "pool_event", "pool": "a"}', r"a\.jsonl:2: .*missing required field"),
    ],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = log(tmp_path / "a.jsonl", event(1.0))
    path.write_bytes(path.read_bytes() + content + b"\n")
    with pytest.raises(CollectError, match=said) as caught:
        Notes(Ledger()).add_frontend_log(path)
    assert caught.value.exit_code == 3


def test_a_line_that_was_cut_off_with_its_writer_is_left_out(tmp_path: Path) -> None:
    path = log(tmp_path / "sends.jsonl", send(1.0, "op-0-0-r0"))
    path.write_bytes(path.read_bytes() + b'{"type": "send", "requ')
    assert len(read_log(path, msgspec.json.Decoder(Send))) == 1


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match=r"sends\.jsonl: No such file or directory"):
        read_log(tmp_path / "sends.jsonl", msgspec.json.Decoder(Send))


def test_counters_without_their_prefix() -> None:
    assert counters(PAGE, "x_") == [
        Metric(name="requests_total", labels={"pool": "a", "outcome": "no_response"}, value=1.0),
        Metric(name="requests_total", labels={"pool": "b", "outcome": "2xx"}, value=4.0),
    ]


def test_readings_of_a_gauge() -> None:
    assert gauge(PAGE, "x_", "in_flight", "pool") == {"a": 2.0, "b": 0.0}


def test_a_page_that_is_no_metrics_is_an_error() -> None:
    with pytest.raises(ScrapeError, match="the router's metrics cannot be read"):
        counters("<html>\n", "x_")
