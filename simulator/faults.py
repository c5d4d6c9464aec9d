"""The faults of a scenario in the model, each put on and taken off at its planned time.

A fault is proved when it was found in its place after it was put on, and at least one send met it: a fault that nothing
met proves nothing about a router.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from scenarios import record
from scenarios.spec import Fault, Pool
from scenarios.world.condition import Condition, under
from simulator.frontend import Drops, Frontend, Weakness
from simulator.network import Door, Limit, Obstacle


class _Kind(Protocol):
    """One kind of fault, on all frontends of its pool."""

    def inject(self) -> None:
        """Put it on."""

    def clear(self) -> None:
        """Take it off."""

    @property
    def is_on(self) -> bool:
        """Whether it is in its place at every frontend."""

    @property
    def is_off(self) -> bool:
        """Whether every frontend is free of it."""

    @property
    def met(self) -> int:
        """Sends that met it."""

    def proof(self) -> str:
        """Say in words what met it."""


class Blocked:
    """refused and black_hole: an obstacle in every door of the pool."""

    def __init__(self, doors: Sequence[Door], *, hangs: bool) -> None:
        self._doors = doors
        self._obstacle = Obstacle(hangs=hangs)

    def inject(self) -> None:
        """Block the doors and cut what is inside."""
        for door in self._doors:
            door.put(self._obstacle)

    def clear(self) -> None:
        """Open the doors."""
        for door in self._doors:
            door.obstacle = None

    @property
    def is_on(self) -> bool:
        """Whether every door is blocked and nothing is inside."""
        return all(door.obstacle is self._obstacle and not len(door) for door in self._doors)

    @property
    def is_off(self) -> bool:
        """Whether every door is open."""
        return all(door.obstacle is None for door in self._doors)

    @property
    def met(self) -> int:
        """Connects that met it, and sends that were cut when it came."""
        return self._obstacle.connects + self._obstacle.cuts

    def proof(self) -> str:
        """Say what met it."""
        did = "hung" if self._obstacle.hangs else "refused"
        return f"connects {did}: {self._obstacle.connects}, sends in flight cut: {self._obstacle.cuts}"


class ReadDrop:
    """read_drop: every frontend of the pool drops what it has read."""

    def __init__(self, frontends: Sequence[Frontend]) -> None:
        self._frontends = frontends
        self._drops = Drops()

    def inject(self) -> None:
        """Let the frontends drop bodies from now on."""
        for frontend in self._frontends:
            frontend.drops = self._drops

    def clear(self) -> None:
        """Let the frontends answer again."""
        for frontend in self._frontends:
            frontend.drops = None

    @property
    def is_on(self) -> bool:
        """Whether every frontend drops."""
        return all(frontend.drops is self._drops for frontend in self._frontends)

    @property
    def is_off(self) -> bool:
        """Whether every frontend answers."""
        return all(frontend.drops is None for frontend in self._frontends)

    @property
    def met(self) -> int:
        """Bodies that were dropped."""
        return self._drops.bodies

    def proof(self) -> str:
        """Say what met it."""
        return f"bodies read and dropped: {self._drops.bodies}"


class Weakened:
    """capacity_loss, slow_down and errors: what every frontend of the pool can do."""

    def __init__(self, frontends: Sequence[Frontend], condition: Condition) -> None:
        self._frontends = frontends
        self._weakness = Weakness(condition)

    def inject(self) -> None:
        """Let the frontends do less from now on."""
        for frontend in self._frontends:
            frontend.weakness = self._weakness

    def clear(self) -> None:
        """Let them do everything again."""
        for frontend in self._frontends:
            frontend.weakness = None

    @property
    def is_on(self) -> bool:
        """Whether every frontend is weakened."""
        return all(frontend.weakness is self._weakness for frontend in self._frontends)

    @property
    def is_off(self) -> bool:
        """Whether none is."""
        return all(frontend.weakness is None for frontend in self._frontends)

    @property
    def met(self) -> int:
        """Requests that came meanwhile."""
        return self._weakness.requests

    def proof(self) -> str:
        """Say what met it."""
        return f"{self._weakness.condition}: {self._weakness.requests} requests came meanwhile"


class Cut:
    """cut: what connects to the pool meanwhile is cut after so many events."""

    def __init__(self, doors: Sequence[Door], *, events: int) -> None:
        self._doors = doors
        self._limit = Limit(events)

    def inject(self) -> None:
        """Limit every connection from now on."""
        for door in self._doors:
            door.limit = self._limit

    def clear(self) -> None:
        """Limit no connection from now on; those that have their limit keep it."""
        for door in self._doors:
            door.limit = None

    @property
    def is_on(self) -> bool:
        """Whether every door limits its connections."""
        return all(door.limit is self._limit for door in self._doors)

    @property
    def is_off(self) -> bool:
        """Whether no door does."""
        return all(door.limit is None for door in self._doors)

    @property
    def met(self) -> int:
        """Answers that were cut."""
        return self._limit.cuts

    def proof(self) -> str:
        """Say what met it."""
        return f"answers cut after {self._limit.events} events: {self._limit.cuts}"


class ModelledFault:
    """One fault of the scenario, and what its row in the record says."""

    def __init__(self, planned: Fault, kind: _Kind, now: Callable[[], float]) -> None:
        self.planned = planned
        self._kind = kind
        self._now = now
        self._was_on = False
        self._was_off = False
        self._t_inject: float | None = None
        self._t_clear: float | None = None

    def inject(self) -> None:
        """Put the fault on and look whether it is."""
        self._kind.inject()
        self._was_on, self._t_inject = self._kind.is_on, self._now()

    def clear(self) -> None:
        """Take the fault off and look whether it is gone."""
        self._kind.clear()
        self._was_off, self._t_clear = self._kind.is_off, self._now()

    def row(self) -> record.Fault:
        """Return what happened."""
        return record.Fault(
            name=self.planned.kind,
            target=self.planned.pool,
            planned_inject=self.planned.inject_s,
            planned_clear=self.planned.clear_s,
            t_inject=self._t_inject,
            t_clear=self._t_clear,
            proved=self._was_on and self._kind.met > 0,
            proof=self._kind.proof(),
            cleared=self._was_off,
            cleared_proof="not in its place any more" if self._was_off else "",
        )


def build(
    planned: Fault, pool: Pool, doors: Sequence[Door], frontends: Sequence[Frontend], now: Callable[[], float]
) -> ModelledFault:
    """Build a planned fault for the doors and frontends of its pool; `now` is the model's clock in seconds."""
    kind: _Kind
    match planned.kind:
        case "refused" | "black_hole":
            kind = Blocked(doors, hangs=planned.kind == "black_hole")
        case "read_drop":
            kind = ReadDrop(frontends)
        case "cut":
            assert planned.after_events is not None, "the loader asks for it"
            kind = Cut(doors, events=planned.after_events)
        case "capacity_loss" | "slow_down" | "errors":
            kind = Weakened(frontends, under(planned, pool))
    return ModelledFault(planned, kind, now)
