"""What happens when: operations at their intended times, faults at theirs.

Open loop: nothing waits for an answer, so a run that is slow somewhere still asks on time. Faults of one pool follow
each other in order, and each edge is proved before the next one; faults of different pools do not wait for each other.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, ClassVar

from chaos.faults.black_hole import BlackHole
from chaos.faults.cut import Cut
from chaos.faults.fault import Fault, Proof, Target
from chaos.faults.read_drop import ReadDrop
from chaos.faults.refused import Refused
from chaos.faults.weakened import Weakened
from chaos.frontend.remote import ControlError
from chaos.frontend.wire import wire_bytes
from chaos.toxiproxy import ToxiproxyError
from scenarios import record, spec
from scenarios.plan import Planned
from scenarios.world import condition

GIVE_UP_CLEAR_S = 2.0
"""How long a run that is being given up may take to end a fault."""


class FaultError(RuntimeError):
    """A fault could not be made or ended: the environment's doing, not the router's."""

    exit_code: ClassVar[int] = 3


class Course:
    """One fault of the scenario, done to every frontend of its pool, and what became of it.

    `parts` are the fault and its target for each frontend. `settle` is told what the probes of an edge saw at a target,
    by the target's name.
    """

    def __init__(
        self, planned: spec.Fault, parts: Sequence[tuple[Fault, Target]], settle: Callable[[str, str], None]
    ) -> None:
        self.planned = planned
        self._parts = tuple(parts)
        self._settle = settle
        self._on: tuple[Proof, ...] = ()
        self._off: tuple[Proof, ...] = ()

    async def inject(self) -> None:
        """Make it everywhere. Raises FaultError."""
        self._on = await self._everywhere("inject", lambda fault, target: fault.inject(target))

    async def clear(self) -> None:
        """End it everywhere. Raises FaultError."""
        self._off = await self._everywhere("clear", lambda fault, target: fault.clear(target))

    async def give_up(self) -> None:
        """End it as well as can be, if it was begun: a hole's socket must not outlive its run."""
        if not self._off:
            with contextlib.suppress(FaultError, TimeoutError):
                async with asyncio.timeout(GIVE_UP_CLEAR_S):
                    await self.clear()

    def row(self) -> record.Fault:
        """Return what happened, times on the loop's clock. It was on everywhere from `t_inject` to `t_clear`."""
        return record.Fault(
            name=self.planned.kind,
            target=self.planned.pool,
            planned_inject=self.planned.inject_s,
            planned_clear=self.planned.clear_s,
            t_inject=max((proof.effect_s for proof in self._on), default=None),
            t_clear=min((proof.begin_s for proof in self._off), default=None),
            proved=bool(self._on) and all(proof.proved for proof in self._on),
            proof=self._told(self._on),
            cleared=bool(self._off) and all(proof.proved for proof in self._off),
            cleared_proof=self._told(self._off),
        )

    async def _everywhere(self, edge: str, act: Callable[[Fault, Target], Awaitable[Proof]]) -> tuple[Proof, ...]:
        async def at(fault: Fault, target: Target) -> Proof:
            try:
                proof = await act(fault, target)
            except (ToxiproxyError, ControlError, OSError) as error:
                raise FaultError(f"{edge} {self.planned.kind} at {target.name}: {error}") from error
            self._settle(target.name, proof.detail)
            return proof

        return tuple(await asyncio.gather(*(at(fault, target) for fault, target in self._parts)))

    def _told(self, proofs: Sequence[Proof]) -> str:
        targets = (target.name for _, target in self._parts)
        return "; ".join(f"{name} {proof.detail}" for name, proof in zip(targets, proofs, strict=False))


def fault_of(planned: spec.Fault, pool: spec.Pool) -> Fault:
    """Build a planned fault for one frontend of its pool."""
    match planned.kind:
        case "refused":
            return Refused()
        case "black_hole":
            return BlackHole()
        case "read_drop":
            return ReadDrop()
        case "cut":
            assert planned.after_events is not None, "the loader asks for it"
            return Cut(wire_bytes(planned.after_events, model=pool.model))
        case "capacity_loss" | "slow_down" | "errors":
            return Weakened(on=condition.under(planned, pool), off=condition.healthy(pool))
        case "not_ready" | "clock_offset":
            raise AssertionError(f"{planned.kind} is modelled only, and the loader keeps it out of real runs")


async def play(courses: Sequence[Course], start_s: float) -> None:
    """Make and end every fault at its time; `start_s` is the run's start on the loop's clock.

    Raises FaultError, in a group.
    """
    by_pool = sorted(courses, key=lambda course: (course.planned.pool, course.planned.inject_s))
    async with asyncio.TaskGroup() as group:
        for _, of_pool in itertools.groupby(by_pool, key=lambda course: course.planned.pool):
            group.create_task(_in_order(tuple(of_pool), start_s))


async def _in_order(courses: Sequence[Course], start_s: float) -> None:
    for course in courses:
        await sleep_until(start_s + course.planned.inject_s)
        try:
            await course.inject()
            await sleep_until(start_s + course.planned.clear_s)
            await course.clear()
        finally:
            await course.give_up()


async def arrive(
    planned: Iterable[Planned], start_s: float, operate: Callable[[Planned, float], Coroutine[Any, Any, None]]
) -> None:
    """Begin every operation at its intended time, and wait until all have ended.

    `operate` gets the operation and its intended start on the loop's clock.
    """
    async with asyncio.TaskGroup() as group:
        for operation in planned:
            at_s = start_s + operation.t_s
            await sleep_until(at_s)
            group.create_task(operate(operation, at_s))


async def sleep_until(at_s: float) -> None:
    """Sleep until a time of the loop's clock; not at all if it has passed."""
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
