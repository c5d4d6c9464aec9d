"""All rows, and the table of what came out: expected, got, interval, source."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.validation import chains, collapse, queues
from tests.validation.row import Judged, Row

ROWS: Sequence[Row] = (*queues.ROWS, *chains.ROWS, *collapse.ROWS)

PLACE = Path(__file__).parents[2] / "simulator" / "README.md"
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"


def markdown(judged: Iterable[Judged]) -> str:
    """Return the table in Markdown: one line a value."""
    lines = ["| row | what | value | expected | got | 95 % | source |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for one in judged:
        for name, expected in one.row.expected.items():
            found = one.interval(name)
            mark = " **no**" if name in one.wrong else ""
            spread = "-" if found.half_width == 0 else f"±{found.half_width:.2g}"
            lines.append(
                f"| {one.row.id} | {one.row.what} | {name} | {expected} | {found.mean:.5g}{mark} | {spread}"
                f" | {one.row.source} |"
            )
    return "\n".join(lines)


def put_in(text: str, table: str) -> str:
    """Return the text with the table between its marks. Raises ValueError if it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PLACE} has no place for the table: {BEGIN} ... {END}")
    return f"{before}{begin}\n{table}\n{end}{after}"
