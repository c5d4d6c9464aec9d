"""What one run of the queue-level model came to: tables of columns, and what the pools counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scenarios import record
from scenarios.spec import Scenario
from scenarios.world.job import CANCELLED, FINISHED, REJECTED
from simulator.chain.columns import Columns
from simulator.chain.model import Look, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTotals:
    """What one frontend's server counted over the run, without probes, and how much of it is still there."""

    pool: str
    frontend: str
    offered: int
    finished: int
    cancelled: int
    rejected: int
    waiting: int
    running: int
    orphaned_s: float
    orphaned_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One replication. `end_s` is when the model stopped; `drained` tells that nothing was left then.

    `operations` has a row an operation; `layers` a table of attempts for each layer by name, the innermost's being
    `sends`; `turns` the attempts by layer of each operation, one row each.
    """

    scenario: Scenario
    replication: int
    end_s: float
    drained: bool
    operations: Columns
    turns: Columns
    layers: Mapping[str, Columns]
    sends: Columns
    frontends: Sequence[PoolTotals]
    looks: Sequence[Look]
    faults: Sequence[record.Fault]
    sessions: Mapping[str, int]

    def sends_per_operation(self) -> float:
        """Return the send amplification."""
        return len(self.sends["operation"]) / max(1, len(self.operations["t_start_s"]))


def outcome_of(model: Model, replication: int) -> Outcome:
    """Return what a model came to that has run."""
    names = [layer.name for layer in model.layers]
    sends = model.sends.columns()
    layers: dict[str, Columns] = {
        upper: lower.calls.columns() for upper, lower in zip(names, model.layers[1:], strict=False)
    }
    layers[names[-1]] = sends
    totals = [
        PoolTotals(
            pool=frontend.pool,
            frontend=frontend.name,
            offered=frontend.server.offered - frontend.probes.total(),
            finished=frontend.server.finished - frontend.probes[FINISHED],
            cancelled=frontend.server.cancelled - frontend.probes[CANCELLED],
            rejected=frontend.server.rejected - frontend.probes[REJECTED],
            waiting=frontend.server.waiting,
            running=frontend.server.running,
            orphaned_s=frontend.server.orphaned_s,
            orphaned_tokens=frontend.server.orphaned_tokens,
        )
        for frontend in model.frontends
    ]
    operations = model.users.rows.columns(model.arriving.t_s, model.arriving.load, model.users.arrived)
    count = len(operations["t_start_s"])
    turns = {name: np.bincount(table["operation"], minlength=count).astype(np.int32) for name, table in layers.items()}
    return Outcome(
        scenario=model.scenario,
        replication=replication,
        end_s=model.clockwork.now,
        drained=model.users.live == 0 and not any(total.waiting or total.running for total in totals),
        operations=operations,
        turns=turns,
        layers=layers,
        sends=sends,
        frontends=totals,
        looks=model.looks,
        faults=[fault.row() for fault in model.faults],
        sessions=model.users.sessions(),
    )
