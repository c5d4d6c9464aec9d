"""What the static check sees of a scenario."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from router.core.budgets.kinds import knobs_of
from scenarios.layers import Layer
from scenarios.plan import first_connect_max_s
from scenarios.spec import Load, Pool, Router, Scenario
from scenarios.static.stack import Stack, Stage, Station
from scenarios.theory.amplification import burst_retries
from scenarios.theory.latency import Patience, exponential_sleeps_s
from scenarios.world.sdk_schedule import SdkSchedule
from scenarios.world.service import PROFILES, Profile

_UNSENT_WORDS = frozenset({"connect"})
"""What a layer may retry on when nothing was handed over."""


def of_scenario(scenario: Scenario, *, rate_rps: float | None = None) -> Stack:
    """Return the stack of a scenario: its layers, or client and router of a plain drill; `rate_rps` for the file's."""
    stages = of_layers(scenario.layers, scenario.router) if scenario.layers else _plain(scenario)
    return Stack(
        name=scenario.name,
        title=scenario.title,
        stages=tuple(stages),
        stations=_stations(scenario),
        rate_rps=usual_rate_rps(scenario.load) if rate_rps is None else rate_rps,
        resends_max=scenario.chain_cap,
        slo_s=scenario.slo.total_s,
    )


def of_layers(layers: Sequence[Layer], router: Router) -> list[Stage]:
    """Return the stages of layers, outermost first; one of kind pooldrill takes its knobs from `router`.

    The innermost alone connects to pools, so only there a time-out for connects counts.
    """
    *outer, innermost = layers
    stages = [_stage(layer) for layer in outer]
    if innermost.kind == "pooldrill":
        return [*stages, _pooldrill(innermost.name, router)]
    return [*stages, _stage(innermost, connect_timeout_s=innermost.connect_timeout_s)]


def usual_rate_rps(loads: Sequence[Load]) -> float:
    """Return the rate that is there for the longest time while there is any: spikes are not what is asked about."""
    edges = sorted({edge for load in loads for edge in (load.start_s, load.end_s)})
    lasting: dict[float, float] = {}
    for start_s, end_s in itertools.pairwise(edges):
        rate = math.fsum(load.rate_rps for load in loads if load.start_s <= start_s and load.end_s >= end_s)
        lasting[rate] = lasting.get(rate, 0.0) + (end_s - start_s if rate else 0.0)
    return max(lasting, key=lambda rate: (lasting[rate], rate), default=0.0)


def _stage(layer: Layer, *, connect_timeout_s: float | None = None) -> Stage:
    covers_connect = layer.timeout_covers == "connect" and layer.attempt_timeout_s is not None
    unsent = _UNSENT_WORDS | ({"timeout"} if covers_connect else set())
    if connect_timeout_s is not None and connect_timeout_s >= (layer.attempt_timeout_s or math.inf):
        connect_timeout_s = None  # the other ends a connect first
    retries, budget = layer.retries, layer.budget
    if budget != "none" and layer.budget_scope == "request":
        # A budget of a call's own begins full with each call, so it is a number of retries.
        retries, budget = int(min(retries, burst_retries(knobs_of(budget)))), "none"
    backoff = layer.backoff
    return Stage(
        name=layer.name,
        patience=Patience(
            retries=retries,
            attempt_timeout_s=layer.attempt_timeout_s,
            connect_timeout_s=connect_timeout_s,
            deadline_s=layer.deadline_s,
            sleeps_s=exponential_sleeps_s(backoff.initial_s, backoff.max_s, retries, factor=backoff.factor),
        ),
        repeats=not unsent.issuperset(layer.retry_on),
        bounds_silence=not covers_connect,
        budget=budget,
        budgets={"client": layer.clients, "instance": layer.instances}.get(layer.budget_scope, 1),
        counts_chain=layer.counts_chain,
    )


def _pooldrill(name: str, router: Router) -> Stage:
    """Return the reference router: one failover of what was never handed over, all of it within its deadline."""
    patience = Patience(retries=1, attempt_timeout_s=first_connect_max_s(router), deadline_s=router.deadline_s)
    return Stage(name=name, patience=patience, repeats=False, bounds_silence=False)


def _plain(scenario: Scenario) -> list[Stage]:
    clients = [load for load in scenario.load if load.client == "openai"]
    router = _pooldrill("router", scenario.router)
    if not clients:
        timeout_s = max(load.timeout_s for load in scenario.load)
        return [Stage(name="client", patience=Patience(attempt_timeout_s=timeout_s)), router]
    worst = max(clients, key=lambda load: (load.max_retries, load.timeout_s))
    schedule = SdkSchedule.openai(retries_max=worst.max_retries)
    sleeps_s = exponential_sleeps_s(schedule.sleep_initial_s, schedule.sleep_max_s, worst.max_retries)
    patience = Patience(retries=worst.max_retries, attempt_timeout_s=worst.timeout_s, sleeps_s=sleeps_s)
    return [Stage(name="sdk", patience=patience), router]


def _stations(scenario: Scenario) -> tuple[Station, ...]:
    """Return the pools; a layer that sends and sends again to the first of a model leaves the others idle."""
    innermost = scenario.layers[-1] if scenario.layers else None
    stays = innermost is not None and (innermost.kind, innermost.balance, innermost.pools) == (
        "generic",
        "primary",
        "same",
    )
    first = {pool.model: pool.id for pool in reversed(scenario.pools)}
    return tuple(
        replace(_station(pool, scenario.load), used=not stays or first[pool.model] == pool.id)
        for pool in scenario.pools
    )


def _station(pool: Pool, loads: Sequence[Load]) -> Station:
    capacity = None
    if pool.slots is not None:
        capacity = pool.frontends * pool.slots / (service_s(pool, loads) * pool.service.load_factor)
    return Station(
        id=pool.id,
        capacity_rps=capacity,
        queue_max=None if pool.queue_max is None else pool.queue_max * pool.frontends,
        newest_first=pool.order == "lifo",
        finishes_orphans=pool.cancel == "never",
    )


def service_s(pool: Pool, loads: Sequence[Load]) -> float:
    """Return the mean seconds of work of one request that has a frontend alone."""
    service = pool.service
    if service.kind != "by_tokens":
        return service.total_s
    profile = PROFILES.get(service.profile) or Profile(
        overhead_s=service.overhead_s, prompt_token_s=service.prompt_token_s, token_gap_s=service.token_gap_s
    )
    met = [load for load in loads if load.model == pool.model] or list(loads)
    weight = math.fsum(load.rate_rps for load in met)
    prompt = math.fsum(load.rate_rps * load.prompt_tokens for load in met) / weight
    output = math.fsum(load.rate_rps * load.output_tokens for load in met) / weight
    return profile.prefill_s(round(prompt)) + profile.decode_s(round(output))
