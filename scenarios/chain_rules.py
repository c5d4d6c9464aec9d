"""What must hold in a scenario with layers, and of the knobs that only the queue-level model has."""

import math
from collections import Counter
from collections.abc import Iterator

from router.core.budgets.kinds import check_budget
from router.core.budgets.retry_budget import BudgetError
from scenarios import loop_rules
from scenarios.keys import nearest
from scenarios.layers import Layer
from scenarios.measures.names import PLAIN, is_measure
from scenarios.presets import layer_preset_names
from scenarios.problem import Problem
from scenarios.spec import Fault, Load, Pool, Scenario, Semantics

_FAULT_KNOBS = {
    "share": ("capacity_loss", "errors", "not_ready"),
    "slots": ("capacity_loss",),
    "factor": ("slow_down",),
    "status": ("errors", "not_ready"),
    "offset_s": ("clock_offset",),
}
"""Knob of a fault -> kinds for which it means something."""

_OF_POOLDRILL = ("name", "kind", "preset", "instances")

SENDS_MAX = 1_000_001
"""Sends that one operation may become: as many as one layer can make. The model would not live to see more."""


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield every broken rule about layers, queues and modelled faults."""
    for index, layer in enumerate(scenario.layers):
        yield from layer_problems(f"layers[{index}]", layer, innermost=index == len(scenario.layers) - 1)
    yield from _chain(scenario)
    for index, pool in enumerate(scenario.pools):
        yield from _pool(f"pools[{index}]", pool, layered=bool(scenario.layers))
    for index, load in enumerate(scenario.load):
        yield from _load(f"load[{index}]", load)
    for index, fault in enumerate(scenario.faults):
        target = next((pool for pool in scenario.pools if pool.id == fault.pool), None)
        yield from _fault(f"faults[{index}]", fault, target, layered=bool(scenario.layers))
    yield from loop_rules.problems(scenario)
    yield from _whole(scenario)


def layer_problems(key: str, layer: Layer, *, innermost: bool) -> Iterator[Problem]:
    """Yield every broken rule about one layer."""
    if layer.preset and layer.preset not in layer_preset_names():
        meant = nearest(layer.preset, layer_preset_names())
        remedy = f"did you mean {meant}?" if meant else f"one of {', '.join(layer_preset_names())}"
        yield Problem(f"{key}.preset", f"no preset is called {layer.preset!r}", remedy)
    if layer.kind == "pooldrill":
        yield from _pooldrill(key, layer, innermost=innermost)
        return
    try:
        check_budget(layer.budget)
    except BudgetError as wrong:
        what, _, remedy = str(wrong).partition("; remedy: ")
        yield Problem(f"{key}.budget", what, remedy or "give another value")
    for knob in ("timeout_covers", "timeout_spread"):
        if layer.attempt_timeout_s is None and getattr(layer, knob) != _default(knob):
            yield Problem(f"{key}.{knob}", "means nothing without attempt_timeout_s", "give attempt_timeout_s too")
    yield from _connect(key, layer, innermost=innermost)
    for knob in ("pools", "balance"):
        if not innermost and getattr(layer, knob) != _default(knob) and not layer.preset:
            yield Problem(f"{key}.{knob}", "only the innermost layer chooses pools", "leave it out here")
    if layer.clients > 1 and layer.budget_scope != "client":
        yield Problem(f"{key}.clients", "means nothing unless a budget is a client's", 'budget_scope = "client"')


def _connect(key: str, layer: Layer, *, innermost: bool) -> Iterator[Problem]:
    """Yield what is wrong with the bound on connects; a preset may bring one that means nothing where it stands."""
    bound_s, attempt_s = layer.connect_timeout_s, layer.attempt_timeout_s
    if bound_s is None or layer.preset:
        return
    if not innermost:
        yield Problem(f"{key}.connect_timeout_s", "only the innermost layer connects to pools", "leave it out here")
    elif attempt_s is not None and layer.timeout_spread == "fixed" and bound_s > attempt_s:
        what = f"{bound_s:g} is never reached: attempt_timeout_s ends an attempt after {attempt_s:g}"
        yield Problem(f"{key}.connect_timeout_s", what, "less than attempt_timeout_s, or leave it out")


def _pooldrill(key: str, layer: Layer, *, innermost: bool) -> Iterator[Problem]:
    if not innermost:
        yield Problem(f"{key}.kind", "only the innermost layer can be pooldrill", "move it to the end of the layers")
    for knob in Layer.__struct_fields__:
        if knob not in _OF_POOLDRILL and getattr(layer, knob) != _default(knob):
            yield Problem(f"{key}.{knob}", "means nothing for kind pooldrill", "set the knobs of [router] instead")


def _default(knob: str) -> object:
    return getattr(Layer(name="any"), knob)


def _chain(scenario: Scenario) -> Iterator[Problem]:
    counts = Counter(layer.name for layer in scenario.layers)
    for index, layer in enumerate(scenario.layers):
        if counts[layer.name] > 1:
            yield Problem(
                f"layers[{index}].name", f"{layer.name!r} is used {counts[layer.name]} times", "name each once"
            )
    if (most := _sends_max(scenario)) > SENDS_MAX:
        yield Problem("layers", f"make up to {most:,} sends of one operation", f"fewer retries: at most {SENDS_MAX:,}")
    if scenario.chain_cap is not None and not any(layer.counts_chain for layer in scenario.layers):
        yield Problem("chain_cap", "binds no layer", "counts_chain = true in every layer that obeys it")
    if not scenario.layers and scenario.semantics != Semantics():
        yield Problem("semantics", "means nothing without layers", "leave it out, or add [[layers]]")
    if scenario.layers and not scenario.model_only and (why := _no_real_run(scenario)):
        yield Problem("model_only", f"is empty, but {why}", "say why there is no real run")


def _sends_max(scenario: Scenario) -> int:
    """Return the most sends of one operation; a router makes two of a request."""
    attempts = {layer.name: 2 if layer.kind == "pooldrill" else layer.retries + 1 for layer in scenario.layers}
    counted = math.prod(attempts[layer.name] for layer in scenario.layers if layer.counts_chain)
    free = math.prod(attempts[layer.name] for layer in scenario.layers if not layer.counts_chain)
    return free * (counted if scenario.chain_cap is None else min(counted, scenario.chain_cap + 1))


def _no_real_run(scenario: Scenario) -> str:
    """Say why a scenario with layers cannot be run for real; empty: it can."""
    *outer, innermost = scenario.layers
    if unreal := loop_rules.why_not_real(scenario):
        return unreal
    if innermost.kind != "pooldrill":
        return f"a real run has no layer like {innermost.name}"
    clients = {load.client for load in scenario.load}
    if [layer.preset for layer in outer] not in ([], ["openai-3.x"]) or clients != {"openai" if outer else "raw"}:
        return "real clients are raw ones without a layer, or openai ones with one of preset openai-3.x"
    return ""


def _pool(key: str, pool: Pool, *, layered: bool) -> Iterator[Problem]:
    if pool.probes_queue and not layered:
        what = "is modelled only with layers: the proofs of a real run's faults may not wait in a queue"
        yield Problem(f"{key}.probes_queue", what, "leave it out, or add [[layers]]")
    if pool.slots is None:
        for knob in ("queue_max", "order"):
            if getattr(pool, knob) not in (None, "fifo"):
                yield Problem(f"{key}.{knob}", "means nothing without slots: nothing ever waits", "give slots too")
        if pool.service.load_factor > 1:
            yield Problem(f"{key}.service.load_factor", "means nothing without slots", "give slots too")
        if pool.probes_queue:
            yield Problem(f"{key}.probes_queue", "means nothing without slots", "give slots too")
    if pool.cache_sessions and pool.service.kind != "by_tokens":
        yield Problem(f"{key}.cache_sessions", "means nothing unless service is by tokens", 'kind = "by_tokens"')


def _load(key: str, load: Load) -> Iterator[Problem]:
    if load.cv != 1.0 and load.arrivals != "gamma":
        yield Problem(f"{key}.cv", f"means nothing for {load.arrivals} arrivals", 'arrivals = "gamma"')
    if load.file and load.arrivals != "replay":
        yield Problem(f"{key}.file", f"means nothing for {load.arrivals} arrivals", 'arrivals = "replay"')
    if load.arrivals == "replay" and not load.file:
        yield Problem(f"{key}.file", "is missing", "name the CSV beside the scenario")


def _fault(key: str, fault: Fault, pool: Pool | None, *, layered: bool) -> Iterator[Problem]:
    if fault.kind in ("capacity_loss", "slow_down") and pool is not None and pool.slots is None and not layered:
        yield Problem(f"{key}.kind", f"{fault.kind} means nothing without slots", f"give {pool.id} slots")
    for knob, kinds in _FAULT_KNOBS.items():
        if getattr(fault, knob) is not None and fault.kind not in kinds:
            yield Problem(f"{key}.{knob}", f"means nothing for {fault.kind}", f"leave it out, or kind = {kinds[0]!r}")
    if fault.kind == "capacity_loss" and (fault.share is None) == (fault.slots is None):
        yield Problem(f"{key}.share", "or slots must be given, and not both", "share = 1.0 is an outage")
    if fault.kind == "slow_down" and fault.factor is None:
        yield Problem(f"{key}.factor", "is missing", "how many times as long work takes, such as 3")
    if fault.kind == "errors" and fault.share is None:
        yield Problem(f"{key}.share", "is missing", "the share of requests that fail, such as 0.5")


def _whole(scenario: Scenario) -> Iterator[Problem]:
    if scenario.exact and scenario.layers:
        yield Problem("exact", "cannot hold for a chain of layers, which draws its waits", "exact = false")
    if scenario.horizon_s is not None and scenario.horizon_s < scenario.duration_s:
        what = f"{scenario.horizon_s:g} stops the model before duration_s {scenario.duration_s:g}"
        yield Problem("horizon_s", what, "raise it, or leave it out")
    if scenario.warm_up_s >= scenario.duration_s:
        yield Problem("warm_up_s", f"{scenario.warm_up_s:g} leaves nothing of the run", "less than duration_s")
    for name, (low, high) in scenario.expect.measures.items():
        if not is_measure(name):
            meant = nearest(name, PLAIN)
            remedy = f"did you mean {meant}?" if meant else f"one of {', '.join(PLAIN)}"
            yield Problem(f"expect.measures.{name}", "there is no such measure", remedy)
        if not low <= high:
            yield Problem(f"expect.measures.{name}", f"[{low:g}, {high:g}] is no range", "[low, high], low <= high")
