"""Which of the usable frontends takes a send.

Round robin rotates over the pools that serve the model, then over the chosen pool's frontends, so each pool has an
equal share whatever its number of frontends. First and second choices turn separate cursors: with one shared cursor,
two pools and one of them dead, every first send would meet the dead one (cursor resonance).
"""

from collections.abc import Sequence
from typing import Protocol

from router.core.in_flight import FrontendState


class Candidate:
    """One pool that could take the send, with those of its frontends that could."""

    __slots__ = ("frontends", "pool")

    def __init__(self, pool: str, frontends: Sequence[FrontendState]) -> None:
        self.pool = pool
        self.frontends = frontends


class Selector(Protocol):
    """Chooses among candidates, which are sorted by pool name and never empty."""

    def choose(self, model: str, candidates: Sequence[Candidate], *, second: bool) -> FrontendState:
        """Return the frontend that takes the send; `second` is true for a failover."""
        ...


class RoundRobin:
    """Equal shares in turn; cursors are kept modulo the present number of candidates and never reset."""

    __slots__ = ("_frontend_turns", "_pool_turns")

    def __init__(self) -> None:
        self._pool_turns: dict[tuple[str, bool], int] = {}
        self._frontend_turns: dict[tuple[str, bool], int] = {}

    def choose(self, model: str, candidates: Sequence[Candidate], *, second: bool) -> FrontendState:
        """Take the next pool of this model, then that pool's next frontend."""
        turn = self._pool_turns.get((model, second), 0)
        self._pool_turns[model, second] = turn + 1
        candidate = candidates[turn % len(candidates)]
        turn = self._frontend_turns.get((candidate.pool, second), 0)
        self._frontend_turns[candidate.pool, second] = turn + 1
        return candidate.frontends[turn % len(candidate.frontends)]
