"""Findings about attempts: layers that multiply, and layers that try too often."""

from collections.abc import Iterator

from scenarios.static.figures import Figures
from scenarios.static.finding import Finding
from scenarios.static.numbers import count, percent
from scenarios.static.stack import Stack, Stage

SENDS_MAX = 3
"""Sends of one operation that are no finding: the first and the two re-sends of the usual cap over a chain."""


def on_attempts(stack: Stack, figures: Figures) -> Iterator[Finding]:
    """Yield what is wrong with the number of attempts."""
    if figures.entries_mean_max <= SENDS_MAX:
        return
    repeating = [stage for stage in stack.stages if stage.repeats and stage.patience.retries]
    product = " x ".join(str(stage.attempts_max) for stage in repeating)
    several = len(repeating) > 1
    safe = percent(figures.safe_utilisation)
    yield Finding(
        severity="error",
        check="layers_multiply" if several else "too_many_attempts",
        at="" if several else repeating[0].name,
        number=figures.entries_mean_max,
        unit="sends",
        what=f"one operation becomes up to {count(figures.entries_mean_max)} sends"
        + (f": {product}" if several else ""),
        why=("Each layer retries what the layer below it has already retried. " if several else "")
        + f"While pools fail, they get {count(figures.entries_mean_max)} times the load; only below {safe} of their"
        " capacity is it certain that they recover.",
        turn=_fewer(stack, repeating, several=several),
    )


def _fewer(stack: Stack, repeating: list[Stage], *, several: bool) -> str:
    cap = "chain_cap = 2 with counts_chain = true in every layer" if stack.resends_max is None else "a lower chain_cap"
    if several:
        inner = ", ".join(stage.name for stage in repeating[1:])
        return f"retries = 0 in {inner}, so that one layer owns the retries; or {cap}"
    budget = "a budget: token_bucket:ratio=0.1" if repeating[0].budget == "none" else "a tighter budget"
    return f"retries = {SENDS_MAX - 1} or less in {repeating[0].name}, or {budget}"
