"""How much work a send is, drawn so that nothing shifts anything else.

The first send of an operation takes a draw that was made for the operation when it arrived; so runs with other faults,
layers, pools or further loads give it the same work (common random numbers). What is sent again draws from the pool's
own stream.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scenarios.spec import Pool, Service
from scenarios.world import blocks
from scenarios.world.prefix_cache import PrefixCache
from scenarios.world.service import Profile
from scenarios.world.station import profile_of
from simulator.chain.calls import Operation

Work = tuple[float, float, int]
"""Seconds before the first token, all seconds, tokens."""

Draw = Callable[[Operation, PrefixCache], Work]
Law = tuple[str, float]
"""What a unit draw is of: the kind of service, and its squared coefficient of variation."""


class Units:
    """One unit draw an operation for each law that the pools need, from streams of each load's own."""

    def __init__(self, services: Sequence[Service], seed: int, *, loads: int) -> None:
        laws = {law: None for service in services if (law := law_of(service)) is not None}
        self.laws: tuple[Law, ...] = tuple(laws)
        self.next = [self._next(seed, load) for load in range(loads)]
        """By load, what returns the draws of its next operation: a number where there is one law, else a tuple."""

    def _next(self, seed: int, load: int) -> Callable[[], Any]:
        streams = [unit_draws(law, seed, f"first/{load}" if load else "first") for law in self.laws]
        return streams[0].__next__ if len(streams) == 1 else lambda: tuple(next(draws) for draws in streams)


def law_of(service: Service) -> Law | None:
    """Return what a unit draw of a service is of; None: it draws nothing."""
    if service.kind == "exponential":
        return ("exponential", 1.0)
    return ("lognormal", service.cv2) if service.kind == "lognormal" else None


def unit_draws(law: Law, seed: int, purpose: str) -> Iterator[float]:
    """Yield draws of mean 1."""
    kind, cv2 = law
    draws = blocks.generator(seed, f"work/{kind}/{cv2:g}/{purpose}")
    return blocks.exponential(draws) if kind == "exponential" else blocks.lognormal(draws, cv2=cv2)


def draw_of(pool: Pool, units: Units, seed: int) -> Draw:
    """Return what draws the work of a pool's sends."""
    service = pool.service
    law = law_of(service)
    if service.kind == "by_tokens":
        return _by_tokens(profile_of(service))
    if law is None:
        return _constant(service)
    place = None if len(units.laws) == 1 else units.laws.index(law)
    return _drawn(service.mean_s, place, unit_draws(law, seed, f"again/{pool.id}"))


def _constant(service: Service) -> Draw:
    tokens = service.kind == "tokens"
    first_s = service.first_token_s if tokens else service.mean_s
    work = (first_s, service.total_s, service.tokens if tokens else 0)
    return lambda _operation, _cache: work


def _drawn(mean_s: float, place: int | None, again: Iterator[float]) -> Draw:
    def draw(operation: Operation, _cache: PrefixCache) -> Work:
        if operation.sends:
            work_s = next(again) * mean_s
        else:
            work_s = (operation.unit if place is None else operation.unit[place]) * mean_s
        operation.sends += 1
        return work_s, work_s, 0

    return draw


def _by_tokens(profile: Profile) -> Draw:
    def draw(operation: Operation, cache: PrefixCache) -> Work:
        session, prompt, output = operation.session, operation.prompt_tokens, operation.output_tokens
        cached = cache.cached(session, prompt)
        cache.keep(session, prompt + output)
        prefill_s, work_s = profile.work(prompt, output, cached)
        return prefill_s, work_s, output

    return draw
