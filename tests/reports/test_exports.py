import csv
import io

from msgspec.structs import replace

from reports.exports import requests_csv, sends_csv
from reports.measures import Run
from scenarios.record import Record
from tests.reports.records import as_real, modelled


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def both() -> list[Run]:
    return [Run(as_real(modelled("refused"))), Run(modelled("refused"))]


def test_every_request_is_a_row_with_mode_and_latency() -> None:
    rows = rows_of(requests_csv(both()))
    assert [row["mode"] for row in rows] == ["real"] * 14 + ["simulated"] * 14
    assert rows[0]["operation_id"] == "op-0-0"
    assert rows[0]["due_s"] == "0.200000"
    assert rows[0]["answer"] == "200"
    assert float(rows[0]["latency_s"]) == round(float(rows[0]["t_end"]) - 0.2, 6)


def test_every_send_is_a_row() -> None:
    rows = rows_of(sends_csv(both()))
    assert len(rows) == 34
    assert {(row["pool"], row["delivery"], row["cause"]) for row in rows if row["delivery"] != "answered"} == {
        ("east", "unsent", "refused")
    }


def test_what_is_not_known_is_empty() -> None:
    assert rows_of(sends_csv(both()))[0]["cause"] == ""


def test_no_column_appears_twice() -> None:
    for text in (requests_csv(both()), sends_csv(both())):
        heads = text.splitlines()[0].split(",")
        assert len(set(heads)) == len(heads)


def test_what_a_router_wrote_does_not_run_in_a_spreadsheet() -> None:
    record = modelled("refused")
    odd = replace(record.requests[0], status=503, code='=HYPERLINK("http://example.org")', pool="@a,\n\"b'")
    row = rows_of(requests_csv([Run(Record(record.meta, [odd]))]))[0]
    assert row["code"] == '\'=HYPERLINK("http://example.org")'
    assert row["pool"] == "'@a,\n\"b'"
