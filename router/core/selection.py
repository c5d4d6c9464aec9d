"""Which of the usable frontends takes a send.

A pool is chosen first, then one of its frontends, so a pool's share does not hang on its number of frontends.

Laws
1. First and second choices turn separate cursors: with one shared cursor, two pools and one of them dead, every first
   send would meet the dead one (cursor resonance).
2. Who is bound to a pool already, by a session's pin, turns no cursor over pools: the others' shares stay equal.
3. A failure never makes a pool look better: a pool that refuses at once has the lowest count in flight, so while
   something failed lately it gets its turn and no more (no magnet).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeVar

from router.core.config import RouterConfig, Selection
from router.core.in_flight import FrontendState, PoolState
from router.core.primary import Primary
from router.core.random_source import RandomSource


class Candidate:
    """One pool that could take the send, with those of its frontends that could."""

    __slots__ = ("frontends", "pool")

    def __init__(self, pool: PoolState, frontends: Sequence[FrontendState]) -> None:
        self.pool = pool
        self.frontends = frontends

    @property
    def in_flight(self) -> int:
        """Sends under way at the pool."""
        return self.pool.in_flight

    @property
    def wary(self) -> bool:
        """Tell whether any of these frontends failed lately."""
        for state in self.frontends:  # noqa: SIM110 - any() with a generator costs three times as much
            if state.cooldown.wary:
                return True
        return False


class Selector(Protocol):
    """Chooses a pool, then a frontend of it; `second` is true for a failover."""

    def pool(self, model: str, candidates: Sequence[Candidate], /, *, second: bool) -> Candidate:
        """Choose among candidates, which are sorted by pool name and never empty."""
        ...

    def frontend(self, candidate: Candidate, /, *, second: bool) -> FrontendState:
        """Choose one of a pool's frontends, of which there is at least one."""
        ...


TURNS_MAX = 4096
"""Cursors kept: names of pools and models come and go with the list of pools, for as long as the router runs."""


class Turns:
    """Cursors that go round, one for each key; kept modulo the present number of places and never reset.

    Beyond `TURNS_MAX` the one that came first is forgotten.
    """

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[tuple[str, bool], int] = {}

    def next(self, key: tuple[str, bool], places: int) -> int:
        """Return the place whose turn it is and move on."""
        turn = self._turns.get(key)
        if turn is None:
            turn = 0
            if len(self._turns) >= TURNS_MAX:
                del self._turns[next(iter(self._turns))]
        self._turns[key] = turn + 1
        return turn % places


class RoundRobin:
    """Equal shares in turn: pools of the model first, then frontends of the pool."""

    __slots__ = ("_frontends", "_pools")

    def __init__(self) -> None:
        self._pools = Turns()
        self._frontends = Turns()

    def pool(self, model: str, candidates: Sequence[Candidate], /, *, second: bool) -> Candidate:
        """Take the next pool of this model."""
        return candidates[self._pools.next((model, second), len(candidates))]

    def frontend(self, candidate: Candidate, /, *, second: bool) -> FrontendState:
        """Take this pool's next frontend."""
        return candidate.frontends[self._frontends.next((candidate.pool.name, second), len(candidate.frontends))]


Place = TypeVar("Place", Candidate, FrontendState)
"""Where load is counted: at a pool, then at one of its frontends."""


class _ByLoad(ABC):
    """A choice by sends under way, among pools, then among one pool's frontends; what failed lately has turns."""

    __slots__ = ("_frontends", "_pools", "_random")

    def __init__(self, rng: RandomSource) -> None:
        self._random = rng.random
        self._pools = Turns()
        self._frontends = Turns()

    def pool(self, model: str, candidates: Sequence[Candidate], /, *, second: bool) -> Candidate:
        """Choose a pool of this model by its load."""
        # Written out: nothing failed lately as a rule, and asking each candidate costs twice as much.
        for candidate in candidates:
            for state in candidate.frontends:
                if state.cooldown.wary:
                    return self._with_turns(candidates, self._pools, (model, second))
        return self._lightest(candidates)

    def frontend(self, candidate: Candidate, /, *, second: bool) -> FrontendState:
        """Choose a frontend of this pool by its load."""
        for state in candidate.frontends:
            if state.cooldown.wary:
                return self._with_turns(candidate.frontends, self._frontends, (candidate.pool.name, second))
        return self._lightest(candidate.frontends)

    def _with_turns(self, places: Sequence[Place], turns: Turns, key: tuple[str, bool]) -> Place:
        """Give those that failed lately their turn, and let load decide among the others."""
        in_turn = places[turns.next(key, len(places))]
        return in_turn if in_turn.wary else self._lightest([place for place in places if not place.wary])

    @abstractmethod
    def _lightest(self, places: Sequence[Place]) -> Place:
        """Choose by load alone."""
        ...


class LeastInFlight(_ByLoad):
    """The fewest sends under way; ties are broken at random."""

    __slots__ = ()

    def _lightest(self, places: Sequence[Place]) -> Place:
        fewest, least = places[0].in_flight, [places[0]]
        for place in places[1:]:
            load = place.in_flight
            if load < fewest:
                fewest, least = load, [place]
            elif load == fewest:
                least.append(place)
        return least[int(self._random() * len(least))] if len(least) > 1 else least[0]


class PowerOfTwoChoices(_ByLoad):
    """The less loaded of two different ones drawn at random; the first drawn wins a tie."""

    __slots__ = ()

    def _lightest(self, places: Sequence[Place]) -> Place:
        if len(places) == 1:
            return places[0]
        # A fraction of the cost of `randrange`, and even to one part in 2^53.
        one = int(self._random() * len(places))
        other = int(self._random() * (len(places) - 1))
        first, second = places[one], places[other + (other >= one)]
        return second if second.in_flight < first.in_flight else first


class PrimaryBackup:
    """Everything to the active pool; its frontends in turn."""

    __slots__ = ("_frontends", "_primary")

    def __init__(self, primary: Primary) -> None:
        self._primary = primary
        self._frontends = Turns()

    def pool(self, _model: str, candidates: Sequence[Candidate], /, *, second: bool) -> Candidate:  # noqa: ARG002 - one order for all
        """Take the active pool if it could take the send, else the first by name."""
        active = self._primary.active
        return next((c for c in candidates if c.pool.name == active), candidates[0])

    def frontend(self, candidate: Candidate, /, *, second: bool) -> FrontendState:
        """Take this pool's next frontend."""
        return candidate.frontends[self._frontends.next((candidate.pool.name, second), len(candidate.frontends))]


def selector_of(config: RouterConfig, rng: RandomSource, primary: Primary | None) -> Selector:
    """Build the selector that is configured; `primary` is there exactly for primary and backups."""
    if primary is not None:
        return PrimaryBackup(primary)
    if config.selection is Selection.LEAST_IN_FLIGHT:
        return LeastInFlight(rng)
    if config.selection is Selection.POWER_OF_TWO_CHOICES:
        return PowerOfTwoChoices(rng)
    return RoundRobin()
