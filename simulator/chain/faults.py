"""Faults of the queue-level model: what each does to the frontends of its pool, and its row in the record.

At one moment faults go first, then faults come, then operations arrive: as in the readable model.
"""

from collections.abc import Sequence

from router.core.health import ProbeOutcome
from scenarios import record
from scenarios.spec import LOOP_FAULTS, Fault, Pool
from scenarios.world.condition import healthy, under
from simulator.chain.clockwork import Clockwork
from simulator.chain.pools import Frontend


class ModelledFault:
    """One fault at one pool; `met` counts what it did, for the proof."""

    def __init__(self, clockwork: Clockwork, planned: Fault, pool: Pool, frontends: Sequence[Frontend]) -> None:
        self.planned = planned
        self._pool = pool
        self.t_inject_s: float | None = None
        self.t_clear_s: float | None = None
        self._clockwork = clockwork
        self._frontends = frontends
        self._misled = 0

    def inject(self, _: object = None) -> None:
        """Let it come."""
        self.t_inject_s = self._clockwork.now
        self._misled = self._seen()
        for frontend in self._frontends:
            self._do(frontend)

    def clear(self, _: object = None) -> None:
        """Let it go."""
        self.t_clear_s = self._clockwork.now
        self._misled = self._seen() - self._misled
        for frontend in self._frontends:
            self._undo(frontend)

    def _do(self, frontend: Frontend) -> None:
        planned = self.planned
        match planned.kind:
            case "refused" | "black_hole":
                frontend.put(hangs=planned.kind == "black_hole")
            case "read_drop":
                frontend.drop_bodies(on=True)
            case "cut":
                frontend.cut_streams(planned.after_events)
            case "capacity_loss" | "slow_down" | "errors":
                frontend.set_condition(under(planned, self._pool))
            case "not_ready":
                answer = ProbeOutcome.EMPTY_LIST if planned.status is None else planned.status
                frontend.unready(answer, share=planned.share or 0.0)
            case "clock_offset":
                assert planned.offset_s is not None, "the loader asks for it"
                frontend.clock_offset_s = planned.offset_s

    def _undo(self, frontend: Frontend) -> None:
        match self.planned.kind:
            case "refused" | "black_hole":
                frontend.open_door()
            case "read_drop":
                frontend.drop_bodies(on=False)
            case "cut":
                frontend.cut_streams(None)
            case "capacity_loss" | "slow_down" | "errors":
                frontend.set_condition(healthy(self._pool))
            case "not_ready":
                frontend.unready(None)
            case "clock_offset":
                frontend.clock_offset_s = 0.0

    def _seen(self) -> int:
        return sum(frontend.misled for frontend in self._frontends)

    def _proof(self) -> str:
        if self.planned.kind not in LOOP_FAULTS:
            return f"modelled at {len(self._frontends)} frontends"
        if self.t_clear_s is None:
            return "modelled, still on"
        return f"met by {self._misled} probes" if self.planned.kind == "not_ready" else f"read {self._misled} times"

    def row(self) -> record.Fault:
        """Return its row of the record."""
        planned = self.planned
        came, went = self.t_inject_s is not None, self.t_clear_s is not None
        return record.Fault(
            name=planned.kind,
            target=planned.pool,
            planned_inject=planned.inject_s,
            planned_clear=planned.clear_s,
            t_inject=self.t_inject_s,
            t_clear=self.t_clear_s,
            proved=came and not (planned.kind in LOOP_FAULTS and went and not self._misled),
            proof=self._proof() if came else "",
            cleared=went,
            cleared_proof="modelled as gone" if went else "",
        )


def schedule(clockwork: Clockwork, faults: Sequence[ModelledFault]) -> None:
    """Set when faults come and go, in a model that has not begun."""
    for fault in faults:
        clockwork.at(fault.planned.clear_s, fault.clear)
    for fault in faults:
        clockwork.at(fault.planned.inject_s, fault.inject)
