"""Findings about retry budgets: those that do nothing at this rate, and those that are mostly their floor."""

import math
from collections.abc import Iterator

from router.core.budgets.kinds import knobs_of
from scenarios.static.figures import stage_amplification, traffic_of
from scenarios.static.finding import Finding
from scenarios.static.numbers import count
from scenarios.static.stack import Stack, Stage
from scenarios.theory.amplification import (
    Traffic,
    binding_rate_rps,
    floor_retries,
    floor_retries_rps,
    share_retries,
    worst_amplification,
)

_NEAR = 0.999


def on_budgets(stack: Stack) -> Iterator[Finding]:
    """Yield what is wrong with the budgets of the layers."""
    above = 1.0
    for stage in stack.stages:
        if stage.budget != "none" and stage.patience.retries:
            yield from _budget(stack, stage, above)
        above *= stage_amplification(stack, stage, above)


def _budget(stack: Stack, stage: Stage, above: float) -> Iterator[Finding]:
    knobs, traffic = knobs_of(stage.budget), traffic_of(stack, stage, above)
    free = worst_amplification(None, attempts_max=stage.attempts_max, traffic=traffic)
    bound = worst_amplification(knobs, attempts_max=stage.attempts_max, traffic=traffic)
    kind = stage.budget.partition(":")[0]
    binds_rps = binding_rate_rps(knobs, attempts_max=stage.attempts_max, traffic=traffic) * stage.budgets / above
    each = f" ({stage.budgets} budgets)" if stage.budgets > 1 else ""
    if traffic.rate_rps is None:
        if floor_retries_rps(knobs, traffic):
            yield _unknown_rate(stage, kind, binds_rps, each)
    elif bound >= free * _NEAR:
        yield Finding(
            severity="warning",
            check="budget_does_nothing",
            at=stage.name,
            number=bound,
            unit="sends",
            what=f"at {count(stack.rate_rps or 0)}/s{each} its {kind} budget allows all {stage.attempts_max} attempts",
            why=_floored(knobs, traffic) or "What it allows is never below what the layer may do without it.",
            turn=_lower_floor(kind) if math.isfinite(binds_rps) else "a smaller share",
        )
    elif floor_retries(knobs, traffic) > share_retries(knobs):
        yield Finding(
            severity="warning",
            check="budget_is_its_floor",
            at=stage.name,
            number=bound,
            unit="sends",
            what=f"at {count(stack.rate_rps or 0)}/s{each} its {kind} budget allows {count(bound)} sends a call, not "
            f"{count(1 + share_retries(knobs))}",
            why=_floored(knobs, traffic),
            turn=_lower_floor(kind),
        )


def _unknown_rate(stage: Stage, kind: str, binds_rps: float, each: str) -> Finding:
    told = "at no rate" if math.isinf(binds_rps) else f"above {count(binds_rps)}/s"
    return Finding(
        severity="note",
        check="budget_does_nothing",
        at=stage.name,
        number=None if math.isinf(binds_rps) else binds_rps,
        unit="/s",
        what=f"its {kind} budget{each} allows less than {stage.attempts_max} attempts {told}",
        why="Its floor is counted in retries a second, so what it does depends on the rate.",
        turn="give the rate: --rate",
    )


def _floored(knobs: object, traffic: Traffic) -> str:
    floor = floor_retries(knobs, traffic)
    if not floor or not traffic.rate_rps:
        return ""
    return f"Its floor alone is {count(floor)} retries for each of {count(traffic.rate_rps)} calls a second."


def _lower_floor(kind: str) -> str:
    knob = {"window": "min_retries_per_second", "envoy": "min_retry_concurrency", "gateway_api": "min_retry_rate_count"}
    return f"a lower {knob[kind]}, or one budget for more clients" if kind in knob else "a smaller share"
