"""What a frontend can do just now: the faults of a pool itself, as opposed to those of the way to it."""

from math import ceil
from sys import maxsize
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from scenarios.parts import Count, Share, Status
from scenarios.spec import Fault, Pool


class Condition(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Slots that a frontend has lost, how fast it works (1: normally), and how much it fails of what it gets."""

    slots_lost: Count = 0
    speed: Annotated[float, Meta(ge=0, le=1000)] = 1.0
    fail_share: Share = 0.0
    fail_status: Status = 500

    def __str__(self) -> str:
        """Say what is not as it should be."""
        troubles = [
            f"{self.slots_lost} slots lost" if self.slots_lost else "",
            f"speed {self.speed:g}" if self.speed != 1.0 else "",
            f"{self.fail_share:.0%} fail with {self.fail_status}" if self.fail_share else "",
        ]
        return ", ".join(filter(None, troubles)) or "in order"


def slots_of(pool: Pool) -> int:
    """Return what each of a pool's frontends works on at one time; without slots it is anything."""
    return maxsize if pool.slots is None else pool.slots


def healthy(pool: Pool) -> Condition:
    """Return the condition of a pool's frontends while no fault is on."""
    return Condition(fail_share=pool.fail_share, fail_status=pool.fail_status)


def under(fault: Fault, pool: Pool) -> Condition:
    """Return their condition while one of the pool's own faults is on: capacity_loss, slow_down or errors."""
    condition = healthy(pool)
    match fault.kind:
        case "capacity_loss":
            return replace(condition, slots_lost=_lost(fault, pool))
        case "slow_down":
            assert fault.factor is not None, "the loader asks for it"
            return replace(condition, speed=1.0 / fault.factor)
        case "errors":
            assert fault.share is not None, "the loader asks for it"
            return Condition(fail_share=fault.share, fail_status=500 if fault.status is None else fault.status)
        case _:
            return condition


def _lost(fault: Fault, pool: Pool) -> int:
    """Return how many slots each frontend loses: a share is rounded up, since less than a slot is none."""
    slots = slots_of(pool)
    if fault.slots is not None:
        return min(slots, fault.slots)
    assert fault.share is not None, "the loader asks for one of them"
    return min(slots, ceil(slots * fault.share - 1e-9))
