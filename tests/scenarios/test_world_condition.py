"""What a frontend can do while a fault of its pool is on."""

import pytest

from scenarios.spec import Fault, Pool
from scenarios.world.condition import Condition, healthy, under

POOL = Pool(id="a", slots=5, fail_share=0.1, fail_status=502)


def fault(kind: str, **knobs: float) -> Fault:
    return Fault(kind=kind, pool="a", inject_s=1.0, clear_s=2.0, **knobs)  # type: ignore[arg-type] # as in a file


@pytest.mark.parametrize(
    ("planned", "condition", "told"),
    [
        (fault("capacity_loss", slots=2), Condition(slots_lost=2, fail_share=0.1, fail_status=502), "2 slots lost, "),
        (fault("capacity_loss", slots=9), Condition(slots_lost=5, fail_share=0.1, fail_status=502), "5 slots lost, "),
        (fault("capacity_loss", share=0.5), Condition(slots_lost=3, fail_share=0.1, fail_status=502), "3 slots lost"),
        (fault("capacity_loss", share=0.6), Condition(slots_lost=3, fail_share=0.1, fail_status=502), "3 slots lost"),
        (fault("capacity_loss", share=1.0), Condition(slots_lost=5, fail_share=0.1, fail_status=502), "5 slots lost"),
        (fault("slow_down", factor=4.0), Condition(speed=0.25, fail_share=0.1, fail_status=502), "speed 0.25, 10%"),
        (fault("errors", share=0.5), Condition(fail_share=0.5, fail_status=500), "50% fail with 500"),
        (fault("errors", share=0.5, status=429), Condition(fail_share=0.5, fail_status=429), "50% fail with 429"),
        (fault("refused"), healthy(POOL), "10% fail with 502"),
    ],
)
def test_a_fault_takes_what_it_says(planned: Fault, condition: Condition, told: str) -> None:
    assert under(planned, POOL) == condition
    assert str(condition).startswith(told)


def test_a_pool_in_order_says_so() -> None:
    assert healthy(Pool(id="a")) == Condition()
    assert str(Condition()) == "in order"
