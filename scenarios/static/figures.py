"""What follows from a stack: sends at most, safe utilisation, longest wait."""

import math
from dataclasses import dataclass, replace

from router.core.budgets.kinds import knobs_of
from scenarios.static.stack import Stack, Stage
from scenarios.theory.amplification import Traffic, worst_amplification
from scenarios.theory.attempts import attempts_product, capped
from scenarios.theory.latency import Patience, worst_by_layer_s, worst_under_cap_s
from scenarios.theory.queueing import always_safe_utilisation, utilisation_without_largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of them at worst. Infinite: nothing bounds it; None: cannot be told from what is given.

    `sends_max`: sends of one operation, connects that never stand included; `entries_max`: those of them that pools can
    queue. `sends_mean_max` and `entries_mean_max`: the same for each operation in the mean of a long failure, where
    budgets tell. `wait_hang_s`: the longest first request if connects hang; `wait_silent_s`: if a pool accepts and
    says nothing.
    """

    sends_max: int
    entries_max: int
    sends_mean_max: float
    entries_mean_max: float
    safe_utilisation: float
    utilisation: float | None
    wait_hang_s: float
    wait_silent_s: float
    utilisation_one_lost: float | None


def figures_of(stack: Stack) -> Figures:
    """Work out the figures of a stack."""
    entries_mean = _mean_max(stack, repeating_only=True)
    return Figures(
        sends_max=_sends_max(stack, repeating_only=False),
        entries_max=_sends_max(stack, repeating_only=True),
        sends_mean_max=_mean_max(stack, repeating_only=False),
        entries_mean_max=entries_mean,
        safe_utilisation=always_safe_utilisation(entries_mean),
        utilisation=stack.utilisation,
        wait_hang_s=waits_s(stack, connected=False)[0],
        wait_silent_s=waits_s(stack, connected=True)[0],
        utilisation_one_lost=_one_lost(stack),
    )


def waits_s(stack: Stack, *, connected: bool) -> list[float]:
    """Return the longest wait for nothing at each layer: where connects hang, or where a pool accepts and is silent."""
    layers = [_patience(stage, connected=connected) for stage in stack.stages]
    if stack.resends_max is None:
        return worst_by_layer_s(layers)
    return worst_under_cap_s(layers, [stage.counts_chain for stage in stack.stages], stack.resends_max)


def traffic_of(stack: Stack, stage: Stage, above: float = 1.0) -> Traffic:
    """Return what one budget of a layer sees, if the layers above make `above` requests of an operation."""
    return Traffic(
        rate_rps=None if stack.rate_rps is None else stack.rate_rps * above / stage.budgets,
        attempt_s=stage.patience.attempt_timeout_s,
        capacity_rps=None if stack.capacity_rps is None else stack.capacity_rps / stage.budgets,
    )


def stage_amplification(stack: Stack, stage: Stage, above: float = 1.0) -> float:
    """Return the sends of one call of a layer in the mean of a long failure, its budget counted."""
    return worst_amplification(
        knobs_of(stage.budget), attempts_max=stage.attempts_max, traffic=traffic_of(stack, stage, above)
    )


def _sends_max(stack: Stack, *, repeating_only: bool) -> int:
    stages = [stage for stage in stack.stages if stage.repeats or not repeating_only]
    counted = attempts_product(stage.patience.retries for stage in stages if stage.counts_chain)
    free = attempts_product(stage.patience.retries for stage in stages if not stage.counts_chain)
    return capped(counted, stack.resends_max) * free


def _mean_max(stack: Stack, *, repeating_only: bool) -> float:
    counted, free = 1.0, 1.0
    for stage in stack.stages:
        if repeating_only and not stage.repeats:
            continue
        factor = stage_amplification(stack, stage, counted * free)
        if stage.counts_chain:
            counted *= factor
        else:
            free *= factor
    return (counted if stack.resends_max is None else min(counted, stack.resends_max + 1)) * free


def _patience(stage: Stage, *, connected: bool) -> Patience:
    """Return how long a layer goes on.

    Once connected, time-outs for connects end nothing, and who sends again only what was unsent makes no retry.
    """
    patience = stage.patience
    if not connected:
        return patience
    patience = replace(patience, connect_timeout_s=None)
    if not stage.bounds_silence:
        patience = replace(patience, attempt_timeout_s=None)
    return patience if stage.repeats else replace(patience, retries=0, sleeps_s=())


def _one_lost(stack: Stack) -> float | None:
    capacities = [station.capacity_rps for station in stack.used]
    idle = len(stack.used) < len(stack.stations)  # the others take nothing over
    if idle or stack.rate_rps is None or not capacities or None in capacities:
        return None
    return utilisation_without_largest([c for c in capacities if c is not None], stack.rate_rps)


def finite(value: float) -> float | None:
    """Return a figure as JSON can tell it; None: nothing bounds it."""
    return value if math.isfinite(value) else None
