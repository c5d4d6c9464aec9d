"""When operations arrive, and what each asks: open loop, so an answer that is late never delays the next arrival.

Laws
1. A load entry draws from streams of its own: one for its gaps, one for sessions, one each for prompts and answers. So
   no entry and no knob shifts the draws of another.
2. A longer load begins as the shorter one does.

Phases and spikes are several load entries, whose arrivals add up. A model that wants one stream with a changing rate
takes `phased`.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Final, NamedTuple

from scenarios.spec import Load
from scenarios.world.service import lognormal
from scenarios.world.streams import stream

SESSION_HEADER: Final = "x-session-id"
"""The header by which the router knows the requests of one session, as long as it is not told another."""


class Ask(NamedTuple):
    """What one operation asks of a pool: tokens of prompt and answer, and the session that its prompt belongs to."""

    session: str | None = None
    prompt_tokens: int = 1
    output_tokens: int = 1


class Phase(NamedTuple):
    """A span with one rate; 0: nothing arrives."""

    start_s: float
    end_s: float
    rate_rps: float


def arrivals(load: Load, seed: int, index: int) -> list[float]:
    """Return the intended start times of one load entry, in seconds since the run's start, ascending.

    `index` is the entry's place in the scenario: it keeps the random streams of several entries apart.
    """
    match load.arrivals:
        case "even":
            times = _even(load)
        case "poisson":
            times = _poisson(load, stream(seed, f"arrivals/{index}"))
        case "gamma":
            times = _gamma(load, stream(seed, f"arrivals/{index}"))
        case "replay":
            times = (t_s for t_s, _, _ in load.replayed)
    return list(times)


def asks(load: Load, seed: int, index: int) -> Iterator[Ask]:
    """Yield what each operation of a load entry asks, in the order of arrival, for ever.

    Of a replay with tokens only as many as it has. Sessions are named by entry and number, such as s0-17.
    """
    sessions = _sessions(load, seed, index)
    if load.replayed and load.replayed[0][1]:
        for _, prompt_tokens, output_tokens in load.replayed:
            yield Ask(next(sessions), prompt_tokens, output_tokens)
        return
    prompts = _tokens(load.prompt_tokens, load.prompt_cv2, stream(seed, f"prompts/{index}"))
    outputs = _tokens(load.output_tokens, load.output_cv2, stream(seed, f"outputs/{index}"))
    while True:
        yield Ask(next(sessions), next(prompts), next(outputs))


def phased(gaps: Iterator[float], phases: Iterable[Phase]) -> Iterator[float]:
    """Yield arrivals at the rates of the phases, which follow each other in time.

    `gaps` have the mean 1, such as blocks.exponential or blocks.gamma: the arrivals are those of rate 1, with the time
    between them stretched by the rate of the moment. So a gap that a change of rate falls into is stretched in parts.
    """
    left = next(gaps)
    for start_s, end_s, rate_rps in phases:
        at_s = start_s
        while left < (end_s - at_s) * rate_rps:
            at_s += left / rate_rps
            yield at_s
            left = next(gaps)
        left -= (end_s - at_s) * rate_rps


def _even(load: Load) -> Iterator[float]:
    spacing_s = 1.0 / load.rate_rps
    # Rounding away from the end keeps a count of duration x rate in spite of binary fractions.
    for turn in range(round((load.end_s - load.start_s) * load.rate_rps)):
        yield load.start_s + turn * spacing_s


def _poisson(load: Load, draws: Random) -> Iterator[float]:
    at_s = load.start_s + draws.expovariate(load.rate_rps)
    while at_s < load.end_s:
        yield at_s
        at_s += draws.expovariate(load.rate_rps)


def _gamma(load: Load, draws: Random) -> Iterator[float]:
    shape = load.cv**-2.0
    scale_s = 1.0 / (shape * load.rate_rps)
    at_s = load.start_s + draws.gammavariate(shape, scale_s)
    while at_s < load.end_s:
        yield at_s
        at_s += draws.gammavariate(shape, scale_s)


def _sessions(load: Load, seed: int, index: int) -> Iterator[str | None]:
    draws = stream(seed, f"sessions/{index}")
    while True:
        yield f"s{index}-{draws.randrange(load.sessions)}" if load.sessions else None


def _tokens(mean: int, cv2: float, draws: Random) -> Iterator[int]:
    while True:
        yield max(1, round(lognormal(mean, cv2=cv2, draws=draws))) if cv2 else mean
