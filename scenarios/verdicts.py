"""Verdicts as a table of plain text: what drill, simulate and compare print."""

import textwrap
from collections.abc import Iterator, Mapping

from scenarios.verdict import Verdict

WIDTH_MAX = 80
_NAME_WIDTH = 24
_STATE_WIDTH = 10


def table(verdicts: Mapping[str, Mapping[str, Verdict]]) -> str:
    """Lay out verdicts by column (real, simulated, agreement ...) and check; what did not pass is told in full below.

    Columns that judge the same checks share a row. Lines are at most 80 columns wide unless an id is longer.
    """
    groups = _grouped(verdicts)
    lines = [line for columns in groups for line in _rows(columns, verdicts)]
    lines += _details(verdicts)
    return "\n".join([*lines, "", summary(verdicts)])


def summary(verdicts: Mapping[str, Mapping[str, Verdict]]) -> str:
    """Say in one line how many checks passed, failed, and could not be decided."""
    states = [verdict.state for checks in verdicts.values() for verdict in checks.values()]
    if not states:
        return "FAIL: nothing was checked"
    failed, open_ = states.count("fail"), states.count("undecided")
    if not failed and not open_:
        return f"PASS: all {len(states)} checks passed"
    counts = [f"{failed} failed"] * bool(failed) + [f"{open_} undecided"] * bool(open_)
    return f"FAIL: {', '.join(counts)}, {states.count('pass')} passed of {len(states)} checks"


def _grouped(verdicts: Mapping[str, Mapping[str, Verdict]]) -> list[list[str]]:
    groups: list[list[str]] = []
    for column, checks in verdicts.items():
        if groups and verdicts[groups[-1][0]].keys() == checks.keys():
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _rows(columns: list[str], verdicts: Mapping[str, Mapping[str, Verdict]]) -> Iterator[str]:
    yield ""
    yield _row("check", columns, "what was found")
    for name in verdicts[columns[0]]:
        found = [verdicts[column][name] for column in columns]
        yield _row(name, [verdict.state for verdict in found], found[0].detail)


def _row(name: str, cells: list[str], detail: str) -> str:
    left = name.ljust(_NAME_WIDTH) + "".join(cell.ljust(_STATE_WIDTH) for cell in cells)
    room = WIDTH_MAX - len(left)
    return left + (detail if len(detail) <= room else detail[: room - 3] + "...")


def _details(verdicts: Mapping[str, Mapping[str, Verdict]]) -> Iterator[str]:
    for column, checks in verdicts.items():
        for name, verdict in checks.items():
            if not verdict.passed:
                yield ""
                yield f"{column} {name}: {verdict.state}"
                yield textwrap.fill(
                    verdict.detail,
                    WIDTH_MAX,
                    initial_indent="  ",
                    subsequent_indent="  ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
