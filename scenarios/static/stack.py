"""The plain numbers that the static check looks at: layers from outermost to innermost, and the pools below them."""

from dataclasses import dataclass

from scenarios.theory.latency import Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One layer.

    `repeats`: whether it may send again what a pool may be running or has answered; else only what was never handed
    over. `bounds_silence`: whether its time-out for an attempt also ends the wait for a pool that has accepted.
    `budget` is described as in router.core.budgets.kinds; `budgets` of them share the layer's traffic evenly.
    `counts_chain`: whether its re-sends count against the cap of the chain, and stop at it.
    """

    name: str
    patience: Patience
    repeats: bool = True
    bounds_silence: bool = True
    budget: str = "none"
    budgets: int = 1
    counts_chain: bool = False

    @property
    def attempts_max(self) -> int:
        """Sends of one call of this layer, before any budget."""
        return self.patience.retries + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """One pool. `queue_max` None: no bound; `capacity_rps` None: not known.

    `finishes_orphans`: whether it works on what nobody waits for any more; `newest_first`: LIFO; `assumed`: nothing is
    known of its queue, so the worst is taken; `used`: whether anything is ever sent to it.
    """

    id: str
    capacity_rps: float | None = None
    queue_max: int | None = None
    newest_first: bool = False
    finishes_orphans: bool = True
    assumed: bool = False
    used: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What is checked. `resends_max`: the cap over the whole chain; None: there is none."""

    name: str
    title: str
    stages: tuple[Stage, ...]
    stations: tuple[Station, ...] = ()
    rate_rps: float | None = None
    resends_max: int | None = None
    slo_s: float | None = None
    """Within which an operation must be answered."""

    @property
    def used(self) -> tuple[Station, ...]:
        """The pools that anything is sent to."""
        return tuple(station for station in self.stations if station.used)

    @property
    def capacity_rps(self) -> float | None:
        """What all pools that are used serve together; None: not known."""
        known = [station.capacity_rps for station in self.used if station.capacity_rps is not None]
        return sum(known) if known and len(known) == len(self.used) else None

    @property
    def utilisation(self) -> float | None:
        """Share of the capacity that the operations take without any retry; None: not known."""
        return self.rate_rps / self.capacity_rps if self.rate_rps is not None and self.capacity_rps else None

    @property
    def patience_s(self) -> float:
        """How long a request can wait in a queue before the first layer above gives it up; infinite: for ever."""
        waits = [stage.patience.deadline_s for stage in self.stages]
        waits += [stage.patience.attempt_timeout_s for stage in self.stages if stage.bounds_silence]
        return min((wait_s for wait_s in waits if wait_s is not None), default=float("inf"))
