"""What a scenario plans: every operation with its id and its intended start."""

from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

from scenarios.spec import Load, Router, Scenario
from scenarios.world.arrivals import Ask, arrivals, asks


class Planned(NamedTuple):
    """One operation that will be made: its load entry, its intended start in seconds, what it asks if that matters."""

    load: int
    turn: int
    t_s: float
    ask: Ask | None = None

    @property
    def operation_id(self) -> str:
        """The id that the clients give it."""
        return f"op-{self.load}-{self.turn}"

    @property
    def session(self) -> str | None:
        """The session that it belongs to."""
        return None if self.ask is None else self.ask.session


def plan(scenario: Scenario, seed: int | None = None) -> list[Planned]:
    """Return every operation of a scenario in the order of arrival; `seed` in place of the scenario's own."""
    chosen = scenario.seed if seed is None else seed
    found = [
        Planned(index, turn, t_s, ask)
        for index, load in enumerate(scenario.load)
        for turn, (t_s, ask) in enumerate(
            zip(arrivals(load, chosen, index), _asks(scenario, load, chosen, index), strict=False)
        )
    ]
    return sorted(found, key=lambda planned: planned.t_s)


def _asks(scenario: Scenario, load: Load, seed: int, index: int) -> Iterable[Ask | None]:
    """Return what operations ask, where a pool cares or a session belongs to them."""
    cares = any(pool.service.kind == "by_tokens" for pool in scenario.pools if pool.model == load.model)
    return asks(load, seed, index) if cares or load.sessions else repeat(None)


def first_connect_max_s(router: Router) -> float:
    """Seconds that a first connect may take: the router keeps half of the deadline for a failover."""
    return min(router.connect_timeout_s, router.deadline_s / 2)
