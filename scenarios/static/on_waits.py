"""Findings about waits: the first request of a fault, deadlines that end retries, layers that give up first."""

import math
from collections.abc import Iterator

from scenarios.static.figures import Figures, waits_s
from scenarios.static.finding import Finding
from scenarios.static.numbers import seconds
from scenarios.static.stack import Stack, Stage

WAIT_MAX_S = 10.0
"""A first request that waits longer is a finding, where no SLO says otherwise: people turn to other things then."""


def on_waits(stack: Stack, figures: Figures) -> Iterator[Finding]:
    """Yield what is wrong with time-outs and deadlines."""
    yield from _waits(stack, figures)
    yield from _deadlines(stack)


def _waits(stack: Stack, figures: Figures) -> Iterator[Finding]:
    limit_s = WAIT_MAX_S if stack.slo_s is None else stack.slo_s
    said = "10 s" if stack.slo_s is None else f"the SLO of {seconds(limit_s)}"
    for wait_s, when, knob in (
        (figures.wait_hang_s, "connects hang", _connect_knob(stack.stages[-1])),
        (figures.wait_silent_s, "a pool accepts and says nothing", "deadline_s"),
    ):
        if wait_s <= limit_s:
            continue
        endless = math.isinf(wait_s)
        yield Finding(
            severity="error" if endless else "warning",
            check="first_request_wait",
            at="",
            number=None if endless else wait_s,
            unit="s",
            what=f"nothing ends the wait when {when}"
            if endless
            else f"the first request waits up to {seconds(wait_s)} when {when}",
            why="No layer has a time-out that covers it."
            if endless
            else f"Time-outs and sleeps of all layers add up; more than {said}.",
            turn=f"deadline_s in {stack.stages[0].name}" + (f", or a shorter {knob} below" if not endless else ""),
        )


def _connect_knob(innermost: Stage) -> str:
    return "attempt_timeout_s" if innermost.patience.connect_timeout_s is None else "connect_timeout_s"


def _deadlines(stack: Stack) -> Iterator[Finding]:
    below_s = [*waits_s(stack, connected=False)[1:], math.inf]
    for stage, inner_s in zip(stack.stages, below_s, strict=True):
        yield from _deadline(stage, inner_s)
        yield from _gives_up_first(stack, stage, inner_s)


def _deadline(stage: Stage, inner_s: float) -> Iterator[Finding]:
    deadline_s, retries = stage.patience.deadline_s, stage.patience.retries
    wanted_s = stage.patience.of_attempts(inner_s)
    if deadline_s is None or not retries or wanted_s <= deadline_s or not math.isfinite(wanted_s):
        return
    attempt_s = min(inner_s, stage.patience.attempt_max_s)
    none = attempt_s >= deadline_s
    yield Finding(
        severity="error" if none else "warning",
        check="deadline",
        at=stage.name,
        number=deadline_s,
        unit="s",
        what=f"deadline_s = {seconds(deadline_s)} ends it before its {stage.attempts_max} attempts of "
        f"{seconds(attempt_s)} and its sleeps, {seconds(wanted_s)} in all",
        why="After a time-out no retry is ever made."
        if none
        else f"Only {math.ceil(deadline_s / (wanted_s / stage.attempts_max))} of them begin when nothing answers.",
        turn=f"{_connect_knob(stage)} = {seconds(deadline_s / stage.attempts_max).removesuffix(' s')} or less in "
        f"{stage.name}, or fewer retries",
    )


def _gives_up_first(stack: Stack, stage: Stage, inner_s: float) -> Iterator[Finding]:
    timeout_s = stage.patience.attempt_timeout_s
    below = stack.stages[stack.stages.index(stage) + 1 :]
    if timeout_s is None or not below or timeout_s >= inner_s:
        return
    inner = below[0]
    if not inner.patience.retries:
        return
    yield Finding(
        severity="warning",
        check="gives_up_first",
        at=stage.name,
        number=timeout_s,
        unit="s",
        what=f"it gives up after {seconds(timeout_s)}, but {inner.name} goes on "
        + (f"for {seconds(inner_s)}" if math.isfinite(inner_s) else "without end"),
        why=f"Retries of {inner.name} then answer nobody, and {stage.name} sends again what is still being tried.",
        turn=f"deadline_s below {seconds(timeout_s)} in {inner.name}",
    )
