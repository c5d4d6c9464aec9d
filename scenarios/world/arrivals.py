"""When operations arrive: open loop, so an answer that is late never delays the next arrival."""

from collections.abc import Iterator

from scenarios.spec import Load
from scenarios.world.streams import stream


def arrivals(load: Load, seed: int, index: int) -> list[float]:
    """Return the intended start times of one load entry, in seconds since the run's start, ascending.

    `index` is the entry's place in the scenario: it keeps the random streams of several entries apart.
    """
    times = _even(load) if load.arrivals == "even" else _poisson(load, seed, index)
    return list(times)


def _even(load: Load) -> Iterator[float]:
    spacing_s = 1.0 / load.rate_rps
    # Rounding away from the end keeps a count of duration x rate in spite of binary fractions.
    for turn in range(round((load.end_s - load.start_s) * load.rate_rps)):
        yield load.start_s + turn * spacing_s


def _poisson(load: Load, seed: int, index: int) -> Iterator[float]:
    draws = stream(seed, f"arrivals/{index}")
    at_s = load.start_s + draws.expovariate(load.rate_rps)
    while at_s < load.end_s:
        yield at_s
        at_s += draws.expovariate(load.rate_rps)
