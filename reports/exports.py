"""CSV files for spreadsheets and notebooks: the requests and the sends of all runs, one row each."""

import csv
import io
from collections.abc import Iterable, Sequence

from reports.measures import Run
from scenarios.record import Request, Send

_FORMULA_STARTS = frozenset("=+-@\t\r")


def requests_csv(runs: Sequence[Run]) -> str:
    """Return all requests by their start, with the mode of their run, when they were due and their latency."""
    fields = Request.__struct_fields__
    rows = (
        [run.record.meta.mode, mark.due_s, mark.latency_s, mark.request.answer, *_values(mark.request, fields)]
        for run in runs
        for mark in run.marks
    )
    return _csv(["mode", "due_s", "latency_s", "answer", *fields], rows)


def sends_csv(runs: Sequence[Run]) -> str:
    """Return all sends in the order of the record, with the mode of their run."""
    fields = Send.__struct_fields__
    rows = ([run.record.meta.mode, *_values(send, fields)] for run in runs for send in run.record.sends)
    return _csv(["mode", *fields], rows)


def _values(row: Request | Send, fields: Iterable[str]) -> list[object]:
    return [getattr(row, field) for field in fields]


def _csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """Give times to the microsecond, and keep a spreadsheet from running what a router or a pool wrote."""
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, str) and value[:1] in _FORMULA_STARTS:
        return f"'{value}"
    return value
