"""How fast the queue-level model is: python -m tests.benchmarks.bench_simulator

Every figure is CPU time against a tutorial-style model of the same chain (tutorial_model.py), measured in turns in one
run; the best of several rounds, so that a busy machine does not count. Exit code 1: a bound is not kept.
"""

import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from router.core.config import RouterConfig
from router.core.delivery import Outcome
from router.core.effects import End, Request, Send
from router.core.policy import build_policy
from router.core.topology import Catalog
from router.core.topology import Pool as CorePool
from scenarios.layers import Layer
from scenarios.spec import Expect, Load, Pool, Router, Scenario, Service
from scenarios.world.streams import stream
from simulator.chain.clockwork import Wake
from simulator.chain.layer import GenericLayer
from simulator.chain.model import Model
from simulator.chain.outcome import outcome_of
from tests.benchmarks.tutorial_model import Shape, Tutorial, TutorialRouter

ROUNDS = 5
OPERATIONS = 10_000
WIDTH = 80

AT_90 = Shape(rate_rps=90.0, pools=1, slots=1, mean_s=0.01, operations=OPERATIONS)
SLOTS_8 = replace(AT_90, rate_rps=720.0, slots=8)
LAYERED = replace(AT_90, rate_rps=1440.0, pools=2, slots=8, layers=("sdk", "gateway"))
BACKLOG = replace(AT_90, rate_rps=90.0, operations=OPERATIONS, backlog=4_000)
LAYERED_BACKLOG = replace(BACKLOG, layers=("sdk", "gateway"))
ROUTED = replace(AT_90, rate_rps=1440.0, pools=2, slots=8)
EMPTY = replace(AT_90, rate_rps=50.0)
FULL = replace(EMPTY, rate_rps=100.0, operations=OPERATIONS + 40_000, backlog=40_000)


class Line(NamedTuple):
    """One figure, and the bound that it has to keep; `at_most`: from which side."""

    name: str
    value: float
    bound: float
    at_most: bool = False
    unit: str = "x"

    @property
    def kept(self) -> bool:
        """Whether it keeps its bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        sign = "at most" if self.at_most else "at least"
        told = f"{self.value:8.2f}{self.unit:<3} {sign} {self.bound:g}{self.unit}"
        return f"{self.name:<{WIDTH - 34}}{told:<28}{'pass' if self.kept else 'FAIL':>6}"


@dataclass(slots=True)
class Side:
    """One thing that is measured: the best CPU time a send, in microseconds."""

    run: Callable[[], tuple[float, int]]
    best_us: float = float("inf")

    def measure(self) -> None:
        """Run once."""
        seconds, sends = self.run()
        self.best_us = min(self.best_us, seconds / sends * 1e6)


def scenario_of(shape: Shape, *, router: bool = False) -> Scenario:
    """Return the scenario of a shape."""
    pools = tuple(
        Pool(id=f"p{place}", slots=shape.slots, service=Service(kind="exponential", mean_s=shape.mean_s))
        for place in range(shape.pools)
    )
    end_s = (shape.operations - shape.backlog) / shape.rate_rps
    load = [Load(rate_rps=shape.rate_rps, start_s=0.0, end_s=end_s, arrivals="poisson")]
    if shape.backlog:
        load.append(Load(rate_rps=shape.backlog / 1e-3, start_s=0.0, end_s=1e-3))
    layers = [Layer(name=name, retries=shape.retries, attempt_timeout_s=shape.timeout_s) for name in shape.layers]
    return Scenario(
        name="bench",
        title="bench",
        seed=1,
        duration_s=end_s,
        pools=pools,
        load=tuple(load),
        expect=Expect(),
        layers=(Layer(name="router", kind="pooldrill"),) if router else tuple(layers),
        router=Router(deadline_s=shape.timeout_s),
        model_only="a benchmark",
    )


def ours(shape: Shape, *, router: bool = False) -> Side:
    """Return the queue-level model, everything recorded."""
    scenario = scenario_of(shape, router=router)

    def run() -> tuple[float, int]:
        model = Model(scenario)
        begin = time.process_time()
        model.run()
        seconds = time.process_time() - begin
        return seconds, len(outcome_of(model, 0).sends["end"])

    return Side(run)


def tutorial(shape: Shape, kind: type[Tutorial] = Tutorial) -> Side:
    """Return the tutorial's model."""

    def run() -> tuple[float, int]:
        model = kind(shape)
        begin = time.process_time()
        model.run()
        seconds = time.process_time() - begin
        return seconds, sum(row.layer == "send" for row in model.rows)

    return Side(run)


class _Clock:
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s


def core_alone() -> tuple[float, int]:
    """Return what the decisions of `OPERATIONS` requests cost alone, sixteen of them open at a time."""
    clock, good = _Clock(), Outcome(slot_taken=True, status=200)
    pools = [CorePool.of_urls(f"p{place}", [f"http://p{place}.invalid"], ["m"]) for place in range(2)]
    policy = build_policy(RouterConfig(connect_timeout_s=1.0), clock, stream(1, "bench"), Catalog(pools))
    sends: deque[Send] = deque()
    begin = time.process_time()
    for _ in range(OPERATIONS):
        clock.now_s += 0.001
        send = policy.decide(Request("m", 1e9))
        assert isinstance(send, Send)
        send.lease.handed_over()
        sends.append(send)
        if len(sends) > 16:
            send = sends.popleft()
            policy.observe(send, good)
            policy.relayed(send, End.COMPLETE)
            policy.release(send)
            policy.tally.request_ended("200", send.attempt)
    return time.process_time() - begin, OPERATIONS


def ratios() -> list[Line]:
    """Measure everything that is a ratio, in turns."""
    pairs = {
        "layers and pools, .9, one slot": (ours(AT_90), tutorial(AT_90)),
        "layers and pools, .9, 8 slots": (ours(SLOTS_8), tutorial(SLOTS_8)),
        "two layers, two pools, .9": (ours(LAYERED), tutorial(LAYERED)),
        "one layer, 4,000 waiting": (ours(BACKLOG), tutorial(BACKLOG)),
        "two layers, 4,000 waiting": (ours(LAYERED_BACKLOG), tutorial(LAYERED_BACKLOG)),
    }
    routed, routed_tutorial, core = ours(ROUTED, router=True), tutorial(ROUTED, TutorialRouter), Side(core_alone)
    empty, full = ours(EMPTY), ours(FULL)
    sides = [side for pair in pairs.values() for side in pair]
    for _ in range(ROUNDS):
        for side in (*sides, routed, routed_tutorial, core, empty, full):
            side.measure()
    lines = [Line(name, slow.best_us / fast.best_us, 5.0) for name, (fast, slow) in pairs.items()]
    own_us = routed.best_us - core.best_us
    both_us = (routed_tutorial.best_us - core.best_us) / own_us
    print(f"router's core alone: {core.best_us:.1f} us a request; with the model around it: {routed.best_us:.1f} us;")
    print(f"tutorial around it: {routed_tutorial.best_us:.1f} us, {both_us:.1f}x once the core is off both")
    return [
        *lines,
        Line("router in the path, cost without the core's own", routed_tutorial.best_us / own_us, 5.0),
        Line("router in the path, the whole", routed_tutorial.best_us / routed.best_us, 2.0),
        Line("cost a send, 40,000 waiting against none", full.best_us / empty.best_us, 2.0, at_most=True),
    ]


def heap_bound() -> Line:
    """Return how many entries timers and heap held at most beyond what was live, with a time-out of 6,000 s."""
    model = Model(scenario_of(replace(AT_90, timeout_s=6_000.0, operations=5 * OPERATIONS)))
    most = 0

    def look(wake: Wake) -> None:
        nonlocal most
        held = model.clockwork.entries + len(model.timers) + sum(_entries(layer) for layer in model.layers)
        most = max(most, held - model.frontends[0].server.in_flight)
        if model.clockwork.entries:
            model.clockwork.again(model.clockwork.now + 0.5, wake)

    model.clockwork.at(0.5, look)
    model.run()
    return Line("dead entries of timers and heap, 6,000 s", float(most), 500.0, at_most=True, unit="")


def _entries(layer: object) -> int:
    assert isinstance(layer, GenericLayer), "no router is in this chain"
    return layer.entries


def memory(sends: int = 1_000_000) -> Line:
    """Return what a million recorded attempts take, in megabytes, at the peak of the run."""
    shape = replace(SLOTS_8, operations=sends // 10)
    model = Model(scenario_of(shape))
    tracemalloc.start()
    model.run()
    outcome = outcome_of(model, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Line(
        "a million attempts recorded", peak / 1e6 * sends / len(outcome.sends["end"]), 300.0, at_most=True, unit=" MB"
    )


def main() -> int:
    """Measure, print, and return the exit code."""
    lines = [*ratios(), heap_bound(), memory()]
    for line in lines:
        print(line)
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
