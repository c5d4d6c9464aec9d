"""Queues after an outage: what stays collapsed, what recovers and when, and how long the first request waits."""

from functools import partial
from typing import Any

import msgspec
import numpy as np

from scenarios.layers import Layer
from scenarios.measures.measured import good_of
from scenarios.measures.recovery import Arrivals, recovery_of
from scenarios.presets import preset
from scenarios.spec import Fault, Pool, Router, Scenario, Service
from simulator import chain as model
from simulator.history import history_of
from tests.simulator.chains import chain, pool
from tests.validation.row import Exactly, Measured, Row, Within

HOTOS = "N. Bronson et al., Metastable Failures in Distributed Systems, HotOS 2021"
CLOSED_FORM = "(B - mu T) / (mu - lambda (1 + R)), and three independent simulations"
BACKLOG = "fluid limit: (200 - mu) * 10 s / (mu - lambda)"
BOUNDED = "a queue bound below mu T, LIFO, or work that ends with its client leave no stale work"
DRILL = "the failover drill: connect time-out 1.5 s, SDK of 3 retries, gateway of 2"

FAULT_S, OUTAGE_S = 20.0, 10.0


def outage(mu: float, rate: float, *, end_s: float, **knobs: Any) -> Scenario:
    """Return a queue of one server behind one retry after 1 s, which serves nothing for 10 s from 20 s on."""
    given: dict[str, Any] = {"cancel": "never"} | knobs
    return chain(
        Layer(name="client", retries=1, attempt_timeout_s=1.0, retry_on=("timeout", "503")),
        rate_rps=rate,
        operations=int(rate * end_s),
        arrivals="poisson",
        pools=(pool(mean_s=1 / mu, **given),),
        faults=(
            Fault(kind="capacity_loss", pool="east", share=1.0, inject_s=FAULT_S, clear_s=FAULT_S + OUTAGE_S),
        ),
        horizon_s=end_s,
    )  # fmt: skip


def _after(scenario: Scenario, replication: int) -> Measured:
    """Return what becomes of the arrivals 60 to 120 s after the fault, and the attempts a second then."""
    outcome = model.run(scenario, replication)
    history = history_of(outcome)
    since_s = history.operations.t_s - (FAULT_S + OUTAGE_S)
    then = (since_s >= 60) & (since_s < 118)
    sent_s = outcome.sends["t_start_s"] - (FAULT_S + OUTAGE_S)
    return {
        "goodput": float(good_of(scenario, history)[then].mean()),
        "attempts/s": float(((sent_s >= 60) & (sent_s < 118)).sum()) / 58.0,
    }


def _recovered(scenario: Scenario, replication: int) -> Measured:
    history = history_of(model.run(scenario, replication))
    control = history_of(model.run(scenario, replication, faults=False))
    arrivals = Arrivals(
        t_s=history.operations.t_s,
        good=good_of(scenario, history),
        expected=good_of(scenario, control).astype(float),
        load_end_s=scenario.duration_s,
    )
    found = recovery_of(arrivals, FAULT_S + OUTAGE_S)
    assert found is not None, "the run goes on for long enough"
    return {"recovery": np.inf if found.censored else found.seconds}


def _drained(replication: int) -> Measured:
    """Return how long after the end of a spike nobody waits any more."""
    scenario = chain(rate_rps=90.0, operations=90 * 200, pools=(pool(mean_s=0.01, kind="deterministic"),))
    spike = msgspec.structs.replace(scenario.load[0], rate_rps=110.0, start_s=20.0, end_s=30.0)
    scenario = msgspec.structs.replace(scenario, load=(*scenario.load, spike))
    sends = model.run(scenario, replication).sends
    waits_s = sends["t_work_s"] - sends["t_start_s"]
    at_rest = (sends["t_start_s"] > 30.0) & (waits_s < 0.01)
    return {"drained": float(sends["t_start_s"][at_rest][0]) - 30.0}


def _first_wait(scenario: Scenario, replication: int) -> Measured:
    table = model.run(scenario, replication).operations
    return {"first request": float(table["t_end_s"][0] - table["t_start_s"][0])}


_HOLE = Fault(kind="black_hole", pool="east", inject_s=0.5, clear_s=300.0)
_SERVICE = Service(kind="deterministic", mean_s=0.25)


def _sdk(retries: int) -> Layer:
    return msgspec.structs.replace(preset("openai-3.x").layers[0], retries=retries)


def _before() -> Scenario:
    gateway = Layer(name="gateway", retries=2, attempt_timeout_s=1.5, timeout_covers="connect")
    return _drill((_sdk(3), gateway), pools=(Pool(id="east", service=_SERVICE),))


def _after_failover() -> Scenario:
    pools = tuple(Pool(id=name, service=_SERVICE) for name in ("east", "west"))
    router = Router(connect_timeout_s=1.5, selection=_PRIMARY_BACKUP)
    return _drill((_sdk(2), Layer(name="gateway", kind="pooldrill")), pools=pools, router=router)


def _drill(layers: tuple[Layer, ...], **knobs: Any) -> Scenario:
    scenario = chain(*layers, rate_rps=0.01, operations=1, faults=(_HOLE,), **knobs)
    late = msgspec.structs.replace(scenario.load[0], start_s=1.0, end_s=101.0)
    return msgspec.structs.replace(scenario, load=(late,), duration_s=101.0)


_PRIMARY_BACKUP = next(word for word in type(Router().selection) if word == "primary_backup")

_LIVES, _DEAD = Within(0.995, 1.0), Within(0.0, 0.005)
_VARIANTS: dict[str, tuple[dict[str, Any], Within]] = {
    "K=150": ({"queue_max": 150}, _LIVES),
    "K=600": ({"queue_max": 600}, _DEAD),
    "LIFO": ({"order": "lifo"}, _LIVES),
    "cancel": ({"cancel": "service"}, _LIVES),
    "none": ({}, _DEAD),
}

ROWS = (
    Row(
        id="X1",
        what="mu 300, lambda 280, time-out 1 s, one retry, outage of 10 s",
        source=HOTOS,
        measure=partial(_after, outage(300, 280, end_s=150)),
        expected={"goodput": _DEAD, "attempts/s": Exactly(560, 0.01)},
        replications=4,
    ),
    Row(
        id="X8",
        what="mu 300, lambda 120, one retry after 1 s, outage of 10 s: time to recover",
        source=CLOSED_FORM,
        measure=partial(_recovered, outage(300, 120, end_s=150)),
        expected={"recovery": Within(28.3, 32.7, every=False)},
        replications=16,
    ),
    Row(
        id="X9",
        what="mu 100, lambda 90, a spike of 200 for 10 s, no retries: time to drain",
        source=BACKLOG,
        measure=_drained,
        expected={"drained": Exactly(100, 0.05)},
        replications=2,
    ),
    *(
        Row(
            id=f"X10 {variant}",
            what=f"X1 with {variant}, arrivals 60 to 120 s after the fault",
            source=BOUNDED,
            measure=partial(_after, outage(300, 280, end_s=150, **knobs)),
            expected={"goodput": expected},
            replications=4,
        )
        for variant, (knobs, expected) in _VARIANTS.items()
    ),
    Row(
        id="X11 before",
        what="whole pool black-holed, SDK of 3 retries, gateway of 2: the first request",
        source=DRILL,
        measure=partial(_first_wait, _before()),
        expected={"first request": Within(20.6, 21.5)},
    ),
    Row(
        id="X11 after",
        what="the same with one failover",
        source=DRILL,
        measure=partial(_first_wait, _after_failover()),
        expected={"first request": Within(1.5 + 0.25, 1.5 + 0.25 + 0.05)},
    ),
)
