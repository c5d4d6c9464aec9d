"""Layers and budgets: how many attempts a chain makes where attempts fail by chance, and how long it sleeps."""

from functools import partial
from typing import Any

import numpy as np

from scenarios.layers import Layer
from scenarios.presets import preset
from scenarios.spec import Scenario
from simulator import chain as model
from simulator.chain.results import OK_END
from tests.simulator.chains import chain, pool
from tests.validation.row import Exactly, Measured, Row, Within

PRODUCT = "law of nested retries: (1 - p^n) / (1 - p), n the product of the attempts"
CAP = "a cap k over the chain: (1 - p^(k+1)) / (1 - p)"
SRE = "B. Beyer et al., Site Reliability Engineering, chapter 21: retries of 10 % of the calls"
BROOKER = "M. Brooker, Fixing retries with token buckets and circuit breakers, 2022"
GRPC = "gRPC A6, retryThrottling"
FINAGLE = "Finagle's RetryBudget: ratio .2, 10 a second, 10 s"
THROTTLING = "B. Beyer et al., Site Reliability Engineering, chapter 21: adaptive throttling"
OPENAI = "openai 3.57.0, _base_client.py: min(0.5 * 2^k, 8) * U(.75, 1]"


def _counted(scenario: Scenario, replication: int) -> Measured:
    """Return attempts of one operation, the share of operations that ended well, and how long they took."""
    outcome = model.run(scenario, replication)
    took_s = outcome.operations["t_end_s"] - outcome.operations["t_start_s"]
    return {
        "attempts": outcome.sends_per_operation(),
        "success": float(np.mean(outcome.operations["end"] == OK_END)),
        "mean sleep": float(took_s.mean()),
        "longest sleep": float(took_s.max()),
    }


def _row(row: str, what: str, source: str, scenario: Scenario, *, replications: int = 8, **expected: Any) -> Row:
    return Row(
        id=row,
        what=what,
        source=source,
        measure=lambda replication: _counted(scenario, replication),
        expected={name.replace("_", " "): value for name, value in expected.items()},
        replications=replications,
    )


def _failing(p: float, *layers: Layer, operations: int = 20_000, rate: float = 1000.0, **knobs: Any) -> Scenario:
    """Return a chain in front of a pool where every attempt fails at once with probability p."""
    pools = (pool(slots=None, mean_s=1e-6, kind="deterministic", fail_share=p),)
    return chain(*layers, pools=pools, operations=operations, rate_rps=rate, **knobs)


def _layers(*retries: int, **knobs: Any) -> list[Layer]:
    return [Layer(name=f"layer_{place}", retries=count, **knobs) for place, count in enumerate(retries)]


def _budget(budget: str, retries: int, **knobs: Any) -> Layer:
    return Layer(name="client", retries=retries, budget=budget, **knobs)


def _products() -> list[Row]:
    cases = ((0.1, 1.11111, 50_000), (0.5, 1.99951, 50_000), (0.9, 7.17570, 20_000))
    rows = [
        _row(f"R1 p={p:g}", "layers of 3 and 2 retries", PRODUCT, _failing(p, *_layers(3, 2), operations=count),
             attempts=Exactly(attempts, 0.005))
        for p, attempts, count in cases
    ]  # fmt: skip
    rows += [
        _row("R1 p=1", "layers of 3 and 2 retries", PRODUCT, _failing(1.0, *_layers(3, 2), operations=100),
             attempts=Exactly(12, 0)),
        _row("R3 5x3", "5 layers of 3 attempts, all fail", PRODUCT,
             _failing(1.0, *_layers(2, 2, 2, 2, 2), operations=5), attempts=Exactly(243, 0)),
        _row("R3 3x4", "3 layers of 4 attempts, all fail", PRODUCT, _failing(1.0, *_layers(3, 3, 3), operations=5),
             attempts=Exactly(64, 0)),
    ]  # fmt: skip
    return rows


def _caps() -> list[Row]:
    cases = ((0.1, 1.11, 0.999), (0.5, 1.75, 0.875), (0.9, 2.71, 0.271), (1.0, 3.0, 0.0))
    return [
        _row(f"R2 p={p:g}", "the same under a cap of 2 over the chain", CAP,
             _failing(p, *_layers(3, 2, counts_chain=True), chain_cap=2, operations=1000 if p == 1 else 50_000),
             attempts=Exactly(attempts, 0 if p == 1 else 0.005), success=Exactly(success, 0 if p == 1 else 0.005))
        for p, attempts, success in cases
    ]  # fmt: skip


def _buckets() -> list[Row]:
    rows = [
        _row(f"R4 p={p:g}", "bucket, .1 a call, at most 3 retries", SRE,
             _failing(p, _budget("token_bucket", 3)), attempts=Exactly(1.1, 0.005))
        for p in (0.2, 0.5, 1.0)
    ]  # fmt: skip
    rows += [
        _row(f"R5 p={p:g}", "bucket, .1 a success, at most 3 retries", BROOKER,
             _failing(p, _budget("token_bucket:deposit_on=success", 3), operations=50_000),
             attempts=Exactly(attempts, 0.005))
        for p, attempts in ((0.5, 1.05263), (0.9, 1.01010))
    ]  # fmt: skip
    rows += [
        _row(f"R6 p={p:g}", "gRPC, maxTokens 10, ratio .1, at most 3 retries", GRPC,
             _failing(p, _budget("grpc", 3), operations=50_000), attempts=Exactly(attempts, 0.005))
        for p, attempts in ((0.02, 1.0204), (0.2, 1.0000))
    ]  # fmt: skip
    return rows


def _windows() -> list[Row]:
    return [
        _row(f"R8 lambda={rate}", "window, ratio .2, floor 10/s, 10 s; all fail, at most 25 retries", FINAGLE,
             _failing(1.0, _budget("window", 25), operations=200 * rate, rate=rate, arrivals="poisson"),
             attempts=Exactly(attempts, 0.01), replications=2 if rate == 1000 else 8)
        for rate, attempts in ((1000, 1.21), (100, 1.30), (20, 1.70))
    ]  # fmt: skip


def _throttled(offered: float, replication: int) -> Measured:
    """Throttle at the client in front of a pool that serves 100/s and rejects what finds no room."""
    mu = 100.0
    scenario = chain(
        Layer(name="client", budget="adaptive", budget_gates="attempts"),
        pools=(pool(slots=100, mean_s=1.0, kind="deterministic", queue_max=20),),
        rate_rps=offered * mu,
        operations=int(offered * mu * 600),
        arrivals="poisson",
    )
    outcome = model.run(scenario, replication)
    sends, span_s = outcome.sends, scenario.duration_s
    late = sends["t_start_s"] > 0.4 * span_s
    length_s = 0.6 * span_s
    ok = late & (sends["end"] == OK_END)
    return {"sent / mu": late.sum() / length_s / mu, "accepted / mu": ok.sum() / length_s / mu}


def _adaptive() -> list[Row]:
    return [
        Row(
            id=f"R10 {offered:g} mu",
            what=f"adaptive throttling, K 2, offered {offered:g} mu",
            source=THROTTLING,
            measure=partial(_throttled, offered),
            expected={"sent / mu": Exactly(2.0, 0.01), "accepted / mu": Exactly(1.0, 0.01)},
            replications=3,
        )
        for offered in (3.0, 10.0)
    ]


def _clients() -> list[Row]:
    cases = ((0.05, 1.0526), (0.2, 1.248), (0.5, 1.875), (0.75, 2.7344))
    return [
        _row(f"X4 p={p:g}", "100 clients, 10/s each, 3 retries", PRODUCT,
             _failing(p, Layer(name="client", retries=3, clients=100), operations=30_000, arrivals="poisson"),
             attempts=Exactly(attempts, 0.01))
        for p, attempts in cases
    ]  # fmt: skip


def _sleeps() -> list[Row]:
    def sleeping(retries: int) -> Scenario:
        sdk = preset("openai-3.x").layers[0]
        values = {name: getattr(sdk, name) for name in sdk.__struct_fields__} | {"retries": retries}
        return _failing(1.0, Layer(**values), operations=10_000)

    return [
        _row(f"X12 R={retries}", f"OpenAI's SDK, {retries} retries: all its sleeps together", OPENAI, sleeping(retries),
             mean_sleep=Exactly(mean_s, 0.01), longest_sleep=Within(0.99 * longest_s, longest_s))
        for retries, mean_s, longest_s in ((1, 0.4375, 0.5), (2, 1.3125, 1.5), (3, 3.0625, 3.5))
    ]  # fmt: skip


ROWS = (*_products(), *_caps(), *_buckets(), *_windows(), *_adaptive(), *_clients(), *_sleeps())
