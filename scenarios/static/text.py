"""The static check as text of at most 80 columns, and as data for machines."""

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from scenarios.static.figures import Figures, finite
from scenarios.static.finding import SEVERITIES, Finding
from scenarios.static.numbers import count, percent, seconds
from scenarios.static.stack import Stack, Stage

WIDTH_MAX = 80
_LABEL = 44
_INDENT = " " * 9


def as_text(stack: Stack, figures: Figures, findings: list[Finding]) -> str:
    """Lay out the stack, its figures and what was found."""
    lines = [*_wrapped(f"{stack.name}: {stack.title}", ""), "", *_layers(stack), "", *_figures(stack, figures)]
    for finding in findings:
        lines += ["", *_finding(finding)]
    return "\n".join([*lines, "", summary(findings)])


def summary(findings: list[Finding]) -> str:
    """Say in one line how much was found."""
    if not findings:
        return "nothing found"
    severities = [finding.severity for finding in findings]
    counts = [(severities.count(severity), severity) for severity in SEVERITIES]
    return ", ".join(f"{many} {severity}{'s' * (many > 1)}" for many, severity in counts if many)


def as_data(stack: Stack, figures: Figures, findings: list[Finding]) -> dict[str, Any]:
    """Return all of it as JSON has it; what nothing bounds is null."""
    told = {name: finite(value) if isinstance(value, float) else value for name, value in asdict(figures).items()}
    return {
        "name": stack.name,
        "title": stack.title,
        "figures": told,
        "findings": [asdict(finding) for finding in findings],
    }


def _layers(stack: Stack) -> Iterator[str]:
    yield f"  {'layer':<16}{'attempts':>9}  {'after':<10}{'time-out':>12}{'deadline':>12}  budget"
    for stage in stack.stages:
        yield "  " + _layer(stage)
    if stack.resends_max is not None:
        yield f"  at most {stack.resends_max} re-sends over the whole chain"


def _layer(stage: Stage) -> str:
    after = ("anything" if stage.repeats else "unsent") if stage.patience.retries else "-"
    covers = "" if stage.bounds_silence or stage.patience.attempt_timeout_s is None else "*"
    budget = stage.budget.partition(":")[0] if stage.budget != "none" else "-"
    row = (
        f"{stage.name[:15]:<16}{stage.attempts_max:>9}  {after:<10}"
        f"{_bound(stage.patience.attempt_timeout_s) + covers:>12}{_bound(stage.patience.deadline_s):>12}  {budget}"
    )
    return row + (f" x {stage.budgets}" if stage.budgets > 1 else "")


def _bound(bound_s: float | None) -> str:
    return "-" if bound_s is None else seconds(bound_s)


def _figures(stack: Stack, figures: Figures) -> Iterator[str]:
    product = " x ".join(str(stage.attempts_max) for stage in stack.stages if stage.patience.retries)
    capped = f", cap {stack.resends_max + 1}" if stack.resends_max is not None else ""
    yield _row("sends of one operation, at most", str(figures.sends_max), f"{product}{capped}" if product else "")
    if figures.entries_max != figures.sends_max:
        yield _row("of them, that a pool can queue", str(figures.entries_max))
    if figures.entries_mean_max < figures.entries_max:
        yield _row("in the mean of a long failure, budgets count", count(figures.entries_mean_max))
    yield _row("longest first request, connects hang", seconds(figures.wait_hang_s))
    yield _row("longest first request, a pool stays silent", seconds(figures.wait_silent_s))
    now = f"it runs at {percent(figures.utilisation)}" if figures.utilisation is not None else ""
    yield _row("recovery is certain below", f"{percent(figures.safe_utilisation)} load", now)
    if figures.utilisation_one_lost is not None:
        yield _row("load with the largest pool lost", percent(figures.utilisation_one_lost))
    if any(not s.bounds_silence and s.patience.attempt_timeout_s is not None for s in stack.stages):
        yield ""
        yield "  * covers the connect only"
    bound_s = stack.stages[-1].patience.connect_timeout_s
    if bound_s is not None:
        yield ""
        yield f"  {stack.stages[-1].name}: a connect has {seconds(bound_s)}"


def _row(label: str, value: str, more: str = "") -> str:
    return f"  {label:<{_LABEL}}{value:>11}" + (f"  {more}" if more else "")


def _finding(finding: Finding) -> Iterator[str]:
    at = f"{finding.at}: " if finding.at else ""
    yield from _wrapped(f"{finding.severity:<9}{at}{finding.what}", _INDENT)
    yield from _wrapped(f"{_INDENT}{finding.why}", _INDENT)
    yield from _wrapped(f"{_INDENT}turn: {finding.turn}", _INDENT + "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
