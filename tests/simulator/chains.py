"""Short ways to write chains down: one pool, one load, layers."""

from typing import Any

from scenarios.layers import Layer
from scenarios.spec import Expect, Fault, Load, Pool, Scenario, Service


def chain(
    *layers: Layer,
    rate_rps: float = 100.0,
    operations: int = 1000,
    pools: tuple[Pool, ...] | None = None,
    faults: tuple[Fault, ...] = (),
    arrivals: Any = "even",
    stream: bool = False,
    **scenario: Any,
) -> Scenario:
    """Return a scenario of one load from 0 on, at one pool of unlimited slots unless others are given."""
    end_s = operations / rate_rps
    given: dict[str, Any] = {
        "name": "chain",
        "title": "a chain",
        "seed": 1,
        "duration_s": end_s,
        "model_only": "a test",
    } | scenario
    return Scenario(
        pools=pools or (pool(slots=None),),
        load=(Load(rate_rps=rate_rps, start_s=0.0, end_s=end_s, arrivals=arrivals, stream=stream),),
        expect=Expect(),
        layers=layers or (Layer(name="client"),),
        faults=faults,
        **given,
    )


def pool(name: str = "east", *, mean_s: float = 0.001, kind: Any = "exponential", **knobs: Any) -> Pool:
    """Return a pool of one frontend with one slot, unless it is said otherwise."""
    service = knobs.pop("service", None) or Service(kind=kind, mean_s=mean_s)
    return Pool(id=name, service=service, **{"slots": 1, **knobs})


def textbook(rate: float, *, slots: int = 1, operations: int = 50_000, **knobs: Any) -> Scenario:
    """Return a queue of service rate 1 as textbooks have it; `layer` is the customers' patience."""
    layer = knobs.pop("layer", Layer(name="client"))
    seed = knobs.pop("seed", 1)
    return chain(
        layer,
        rate_rps=rate,
        operations=operations,
        arrivals="poisson",
        pools=(pool(mean_s=1.0, slots=slots, **knobs),),
        seed=seed,
    )
