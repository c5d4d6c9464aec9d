"""Which frontends could take a send now.

While nothing is in trouble, everything that serves the model can, and no single frontend is looked at. Otherwise out
are: pools that are full, frontends that are benched or on trial, and those with a suspect connect; a frontend that has
just returned makes way by chance, but not where nothing else is left.
"""

from collections.abc import Callable, Iterable

from router.core.cooldown import Standing
from router.core.in_flight import FrontendState, Ledger
from router.core.random_source import RandomSource
from router.core.roster import Roster
from router.core.selection import Candidate


class Usable:
    """Knows who is in trouble. `on_standing` is told of every change of a frontend's standing."""

    __slots__ = ("_ledger", "_rng", "_roster", "_troubled", "on_standing")

    def __init__(self, roster: Roster, ledger: Ledger, rng: RandomSource) -> None:
        self._roster = roster
        self._ledger = ledger
        self._rng = rng
        self._troubled: dict[FrontendState, float] = {}
        """Whoever does not take all its sends -> since when it stands as it does."""
        self.on_standing: Callable[[FrontendState], None] = _nobody_listens

    def roster_changed(self) -> None:
        """Take in a new catalog."""
        states = self._roster.states.values()
        self._troubled = {s: s.cooldown.since_s for s in states if s.cooldown.standing is not Standing.IN_USE}

    def standing_changed(self, state: FrontendState) -> None:
        """Take in that a frontend was benched or has returned; that it stands as before is nothing to tell."""
        cooldown = state.cooldown
        if self._roster.states.get(state.frontend) is not state or self._troubled.get(state) == cooldown.since_s:
            return
        self._troubled[state] = cooldown.since_s
        if cooldown.standing is Standing.IN_USE:
            del self._troubled[state]
        self.on_standing(state)

    def among(self, candidates: tuple[Candidate, ...], now: float) -> tuple[Candidate, ...]:
        """Return those candidates, with those of their frontends, that could take a send now.

        Chance takes part: a decision asks once, with no candidate that it could not take.
        """
        if not self._troubled and self._ledger.all_free(now):
            return candidates
        roomy = (c for c in candidates if self._ledger.has_room(c.pool))
        usable = _those(roomy, lambda state: self._takes_sends(state, now))
        return _those(usable, lambda state: self._has_its_share(state, now)) or usable

    def _takes_sends(self, state: FrontendState, now: float) -> bool:
        if state.cooldown.has_started(now):
            self.standing_changed(state)
        return state.cooldown.takes_sends and not self._ledger.is_suspect(state, now)

    def _has_its_share(self, state: FrontendState, now: float) -> bool:
        share = state.cooldown.share(now)
        return share >= 1.0 or self._rng.random() < share


def _those(candidates: Iterable[Candidate], keep: Callable[[FrontendState], bool]) -> tuple[Candidate, ...]:
    """Return the candidates with those of their frontends that are to be kept, without those that have none."""
    kept = ((c, [state for state in c.frontends if keep(state)]) for c in candidates)
    return tuple(Candidate(c.pool, frontends) for c, frontends in kept if frontends)


def _nobody_listens(_: FrontendState) -> None:
    """Stand in until a driver wants to be told."""
