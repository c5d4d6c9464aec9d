"""Verb: report."""

import textwrap
from pathlib import Path

from reports import judgement
from reports.page import ReportError, write_report
from scenarios import verdicts
from scenarios.record import Mode, Record, read
from scenarios.usage import Parser

_EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 1, "invalid": 3}


def report(argv: list[str]) -> int:
    """Write the page of one drill from one record or two.

    Exit code 1 if a check did not pass, 3 if a run is not fit to be judged. Raises UsageError, RecordError and
    ReportError.
    """
    arguments = _parser().parse_args(argv)
    by_mode = _by_mode(arguments.records)
    known = judgement.judged(list(by_mode.values()))
    written = write_report(
        real=by_mode.get("real"),
        simulated=by_mode.get("simulated"),
        out=arguments.out or arguments.records[0].parent,
        verdicts=known,
    )
    print(textwrap.fill(written.sentence, verdicts.WIDTH_MAX))
    print(verdicts.table(known))
    print(f"report: {written.page}")
    return _EXIT_CODES[written.overall]


def _parser() -> Parser:
    parser = Parser(prog="pooldrill report", description="Write the page, pictures and CSV files of one drill.")
    parser.add_argument(
        "records", nargs="+", type=Path, metavar="RECORD", help="NAME.real.jsonl, NAME.simulated.jsonl, or both"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: beside the first record)")
    return parser


def _by_mode(paths: list[Path]) -> dict[Mode, Record]:
    """Read the records, the real one first. Raises ReportError if they are not of different modes."""
    if len(paths) > 2:
        raise ReportError(f"{len(paths)} records given; remedy: name at most one real and one simulated record")
    records = [read(path) for path in paths]
    modes = {record.meta.mode: record for record in records}
    if len(modes) < len(records):
        mode = records[0].meta.mode
        raise ReportError(f"{paths[0]} and {paths[1]} are both {mode}; remedy: name one real and one simulated record")
    return dict(sorted(modes.items()))
