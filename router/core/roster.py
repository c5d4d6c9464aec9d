"""Who is there: the states behind the pools of the present catalog, and who could take what.

What is remembered of a frontend survives a new catalog as long as its name and address do, or a send to it or a trial
of it is under way; a pool that is gone is still listed in what is in flight until its last send has ended.
"""

from collections.abc import Callable, Iterator

from router.core.cooldown import Cooldown
from router.core.in_flight import FrontendState, PoolState
from router.core.selection import Candidate
from router.core.topology import Catalog, Frontend, Pool


class Group:
    """All that may serve one model, whether usable now or not; `model` is the name under which state is kept."""

    __slots__ = ("candidates", "model")

    def __init__(self, model: str, candidates: tuple[Candidate, ...]) -> None:
        self.model = model
        self.candidates = candidates

    def states(self) -> Iterator[FrontendState]:
        """Yield every frontend."""
        return (state for candidate in self.candidates for state in candidate.frontends)

    def all_benched(self) -> bool:
        """Tell whether nothing of it is usable until a trial was good."""
        return not any(state.cooldown.takes_sends for state in self.states())

    def on_trial(self) -> bool:
        """Tell whether a trial of any of it is under way."""
        return any(state.on_trial for state in self.states())


class Roster:
    """States of all frontends, by the present catalog. `ready` tells whether a frontend is ready for a model."""

    __slots__ = ("_groups", "_leaving", "_new_cooldown", "_pools", "_ready", "catalog", "states")

    def __init__(self, new_cooldown: Callable[[], Cooldown], ready: Callable[[Frontend, str], bool]) -> None:
        self._new_cooldown = new_cooldown
        self._ready = ready
        self.catalog = Catalog(())
        self.states: dict[Frontend, FrontendState] = {}
        self._leaving: list[FrontendState] = []
        self._pools: dict[str, PoolState] = {}
        self._groups: dict[str, Group] = {}

    def publish(self, catalog: Catalog) -> None:
        """Take a new catalog."""
        known = {state.frontend: state for state in (*self._leaving, *self.states.values())}
        pools = {pool.name: self._pools.get(pool.name) or PoolState(pool.name) for pool in catalog.pools}
        self.states = {
            frontend: known.pop(frontend)
            if frontend in known
            else FrontendState(frontend, pools[pool.name], self._new_cooldown())
            for pool in catalog.pools
            for frontend in pool.frontends
        }
        self._leaving = [state for state in known.values() if state.in_flight or state.on_trial]
        # A pool that is gone keeps its count as long as a frontend of it holds leases: it may come back.
        self._pools = {state.pool.name: state.pool for state in self._leaving} | pools
        self.catalog = catalog
        self.refresh()

    def refresh(self) -> None:
        """Forget which frontends were found ready."""
        self._groups.clear()

    def group_for(self, asked: str) -> Group:
        """Return all that may serve what a client asked for."""
        group = self._groups.get(asked)
        return group or self._find(self.catalog.cursor_for(asked))

    def groups(self) -> Iterator[Group]:
        """Yield the groups of all models that any pool can be asked for."""
        return (self._groups.get(model) or self._find(model) for model in self.catalog.cursors())

    def in_flight(self) -> dict[str, int]:
        """Return the leases held now, by pool."""
        gone = {name: state for name, state in self._pools.items() if state.in_flight}
        return {pool.name: 0 for pool in self.catalog.pools} | {n: s.in_flight for n, s in gone.items()}

    def standing_pools(self) -> list[str]:
        """Return the names of the pools that can be used at all, sorted; one that is merely full can."""
        return [pool.name for pool in self.catalog.pools if not pool.draining and self._stands(pool)]

    def _stands(self, pool: Pool) -> bool:
        return any(
            self.states[frontend].cooldown.takes_sends
            and any(self._ready(frontend, model) for model in pool.models or ("",))
            for frontend in pool.frontends
        )

    def _find(self, model: str) -> Group:
        group = self._groups.get(model)
        if group is None:
            group = self._groups[model] = Group(model, tuple(self._candidates(model)))
        return group

    def _candidates(self, model: str) -> Iterator[Candidate]:
        for pool in self.catalog.pools_for(model):
            frontends = [self.states[f] for f in pool.frontends if self._ready(f, model)]
            if frontends and not pool.draining:
                yield Candidate(self._pools[pool.name], frontends)
