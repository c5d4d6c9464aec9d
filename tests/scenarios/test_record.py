"""A record on disk: what is written is what is read, and what cannot be read is refused in one line."""

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest

from scenarios.load import catalog
from scenarios.record import Record, RecordError, Request, read, record_path, write
from tests.scenarios.doctored import modelled


@pytest.mark.parametrize("path", catalog(), ids=lambda path: path.stem)
def test_read_is_what_was_written(path: Path, tmp_path: Path) -> None:
    record = modelled(path)
    written = record_path(tmp_path / "deep" / "er", path.stem, "simulated")
    write(record, written)
    again = read(written)
    assert (again.meta, again.rows) == (record.meta, record.rows)
    assert [entry.name for entry in written.parent.iterdir()] == [f"{path.stem}.simulated.jsonl"]


def test_every_row_is_a_line_of_json_with_its_type(tmp_path: Path) -> None:
    write(modelled("refused"), tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines[0]["type"] == "meta"
    assert {line["type"] for line in lines[1:]} >= {"operation", "request", "send", "pool_event", "fault", "metric"}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda _: [], "empty; remedy: run the scenario again"),
        (lambda lines: [lines[0].replace(b'"seed":1,"mode"', b'"mode"')], "1: Object missing required field `seed`"),
        (lambda lines: [*lines[:3], b'{"type":"request"'], "4: Input data was truncated"),
        (lambda lines: [*lines[:3], b'{"type":"reqest"}'], "4: Invalid value 'reqest' - at `$.type`"),
        (
            lambda lines: [lines[0].replace(b'{"type":"meta"', b'{"type":"meta","schema":9'), *lines[1:]],
            "1: schema 9, this version reads 1; remedy: run the scenario again",
        ),
    ],
)
def test_what_cannot_be_read(spoil: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(modelled("refused"), path)
    assert callable(spoil)
    path.write_bytes(b"\n".join(spoil(path.read_bytes().splitlines())))
    with pytest.raises(RecordError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:")
    assert says in str(caught.value)
    assert "remedy: " in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b"mode,operation_id\nreal,op-0-0\n",
        b"<!DOCTYPE html>\n<html>\n",
        b'name = "refused"\nseed = 1\n',
        b"\x89PNG\r\n\x1a\n\x00\xff",
        b"{}\n",
        b"[1, 2]\n",
        b'{"type":"send","request_id":"op-0-0-r0"}\n',
        b"\n\n",
    ],
    ids=["csv", "html", "toml", "png", "object", "array", "send log", "blank"],
)
def test_what_is_no_record_at_all(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        read(path)
    told = "not a record; remedy: name a .jsonl file written by drill, simulate or compare"
    assert str(caught.value) == f"{path}: {told}"


def test_a_record_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"No such file or directory; remedy: name a \.jsonl file written by drill"):
        read(tmp_path / "none.jsonl")


def test_a_write_that_fails_leaves_the_old_record(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(modelled("refused"), path)
    before = path.read_bytes()
    (tmp_path / f"a.jsonl.{os.getpid()}.partial").mkdir()
    with pytest.raises(OSError, match="directory"):
        write(modelled("black_hole"), path)
    assert path.read_bytes() == before


def test_two_processes_that_write_one_record_leave_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "refused.simulated.jsonl"
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(write_often, [path] * 2))
    assert read(path).rows == modelled("refused").rows
    assert list(tmp_path.iterdir()) == [path]


def write_often(path: Path) -> None:
    record = modelled("refused")
    for _ in range(200):
        write(record, path)


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"end": "done", "status": 200}, "200"),
        ({"end": "done", "status": 503, "code": "maybe_running"}, "503 maybe_running"),
        ({"end": "reset", "status": 200}, "break"),
        ({"end": "reset"}, "reset"),
        ({"end": "timeout", "status": 200}, "timeout"),
        ({"end": "eof_no_done", "status": 200}, "eof_no_done"),
    ],
)
def test_what_the_client_saw_in_the_words_of_expectations(fields: dict[str, object], answer: str) -> None:
    row = {"operation_id": "op-0-0", "request_id": "op-0-0-r0", "attempt": 0, "t_start": 0.0, "t_end": 1.0}
    assert msgspec.convert({"type": "request", **row, **fields}, Request).answer == answer


def test_rows_are_sorted_into_kinds() -> None:
    record = modelled("refused")
    assert len(record.requests) == 14
    assert record.scenario is record.meta.scenario
    kinds = (record.operations, record.requests, record.sends, record.pool_events, record.faults, record.probes)
    assert sum(map(len, kinds)) + len(record.samples) + len(record.metrics) == len(record.rows)
    assert Record(record.meta, iter(record.rows)).rows == record.rows
