"""Who waits, how many, in which order, and who is turned away."""

import pytest

from router.core.config import QueueOrder, RouterConfig
from router.core.delivery import Outcome
from router.core.effects import End, Request, Waiting
from router.core.policy import Policy
from tests.router.core.playbook import (
    LOST,
    REFUSED,
    START_S,
    ManualClock,
    Playbook,
    after,
    answered,
    asked,
    bench,
    policy_of,
    replied,
    send,
    wait,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def full(clock: ManualClock, *shape: str, **knobs: object) -> tuple[Policy, Playbook]:
    """Return a policy whose first pool is full, and the request that fills it."""
    config = RouterConfig(**{"in_flight_max": 1, "cooldown": False, **knobs})  # type: ignore[arg-type]  # any knob
    policy = policy_of(*(shape or ("a",)), clock=clock, config=config)
    return policy, asked(policy) << send("a-0")


def test_a_full_pool_makes_requests_wait_and_whoever_leaves_it_lets_the_next_in(clock: ManualClock) -> None:
    policy, first = full(clock)
    second = asked(policy) << wait(2)
    first.close()
    assert second.woken == 1
    assert second >> None << send("a-0")
    assert policy.in_flight() == {"a": 1}


def test_a_running_stream_counts(clock: ManualClock) -> None:
    policy, first = full(clock)
    _ = first >> answered(200)
    second = asked(policy) << wait(2)
    _ = first >> End.COMPLETE
    assert second >> None << send("a-0")


def test_a_full_pool_leaves_its_share_to_the_others(clock: ManualClock) -> None:
    policy, _first = full(clock, "a", "b")
    _second = asked(policy) << send("b-0")
    assert asked(policy) << wait(2)


def test_a_full_pool_takes_no_failover_either(clock: ManualClock) -> None:
    policy, _first = full(clock, "a", "b")
    second = asked(policy) << send("b-0")
    assert second >> REFUSED << replied("no_other_pool", code="pool_unreachable", sends=1)


def test_a_wait_for_a_full_pool_ends_as_overload(clock: ManualClock) -> None:
    policy, _first = full(clock)
    second = asked(policy) << wait(2)
    assert second >> after(clock, 2) << replied("overloaded", code="router_overloaded", sends=0)
    assert second.reply.retry_after_s is not None
    assert 1.0 <= second.reply.retry_after_s < 6.0


def test_a_wait_for_a_benched_pool_ends_as_no_pool(clock: ManualClock) -> None:
    policy = policy_of("a", "b!", clock=clock)
    bench(policy, "a-0")
    assert asked(policy) << wait(2) >> after(clock, 2) << replied("no_pool", code="no_pool", sends=0)


def test_a_full_queue_turns_away_at_once(clock: ManualClock) -> None:
    policy, _first = full(clock, queue_max=1)
    second = asked(policy) << wait(2)
    assert asked(policy) << replied("overloaded", code="router_overloaded", sends=0)
    second.close()
    assert asked(policy) << wait(2)


def test_bodies_that_wait_are_bounded_in_bytes(clock: ManualClock) -> None:
    policy, _first = full(clock, queue_bytes_max=100)

    def of(body_bytes: int) -> Playbook:
        return asked(policy, Request("m", START_S + 60, body_bytes=body_bytes))

    waiting = of(60) << wait(2)
    assert of(41) << replied("overloaded", code="router_overloaded", sends=0)
    fits = of(40) << wait(2)
    assert policy.queue.body_bytes == 100
    waiting.close()
    fits.close()
    assert (policy.queue.count, policy.queue.body_bytes) == (0, 0)


def test_without_a_queue_nobody_waits(clock: ManualClock) -> None:
    for order in QueueOrder:
        policy, _first = full(clock, queue_max=0, queue_order=order)
        assert asked(policy) << replied("overloaded", code="router_overloaded", sends=0)


def served(policy: Policy, clock: ManualClock, first: Playbook, count: int) -> list[int]:
    """Let `count` requests wait, then serve them one after the other; return the order in which they were."""
    waiting = {n: asked(policy, Request("m", clock.now_s + 60)) << wait(2) for n in range(count)}
    order, running = [], first
    while waiting:
        running.close()
        (woken,) = [n for n, playbook in waiting.items() if playbook.woken]
        order.append(woken)
        running = waiting.pop(woken) >> None << send("a-0")
    return order


@pytest.mark.parametrize(("order", "expected"), [(QueueOrder.FIFO, [0, 1, 2]), (QueueOrder.LIFO, [2, 1, 0])])
def test_the_order_is_kept_and_only_the_next_is_woken(
    clock: ManualClock, order: QueueOrder, expected: list[int]
) -> None:
    policy, first = full(clock, queue_order=order)
    assert served(policy, clock, first, 3) == expected


def test_with_fifo_nobody_overtakes_those_that_wait(clock: ManualClock) -> None:
    policy, first = full(clock)
    second = asked(policy) << wait(2)
    first.close()
    third = asked(policy) << wait(2)
    assert third >> None << wait(2), "woken without cause: it is not its turn"
    assert second >> None << send("a-0")
    assert third.woken == 1, "whoever takes a send passes the wake-up on"
    assert third >> None << wait(2)


def test_with_lifo_the_first_come_gives_way(clock: ManualClock) -> None:
    policy, first = full(clock, queue_order=QueueOrder.LIFO, queue_max=2)
    oldest = asked(policy) << wait(2)
    clock.now_s += 0.5
    older, newest = asked(policy) << wait(2.5), asked(policy) << wait(2.5)
    assert oldest.woken == 1
    assert oldest >> None << replied("overloaded", code="router_overloaded", sends=0)
    first.close()
    assert (older.woken, newest.woken) == (0, 1)


def test_with_lifo_the_first_come_of_all_models_gives_way_and_not_who_has_least_time(clock: ManualClock) -> None:
    knobs = {"queue_order": QueueOrder.LIFO, "queue_max": 2}
    policy, _first = full(clock, "a=m", "b=n", **knobs)
    held = asked(policy, model="n") << send("b-0")
    oldest = asked(policy) << wait(2)
    hurried = asked(policy, Request("n", START_S + 0.5)) << wait(0.5)
    newest = asked(policy, model="n") << wait(2)
    assert (oldest.woken, hurried.woken) == (1, 0)
    assert oldest >> None << replied("overloaded", code="router_overloaded", sends=0)
    held.close()
    assert newest >> None << send("b-0")


def test_with_lifo_a_body_that_can_never_fit_puts_nobody_out(clock: ManualClock) -> None:
    policy, _first = full(clock, queue_order=QueueOrder.LIFO, queue_bytes_max=100)
    waiting = asked(policy) << wait(2)
    huge = asked(policy, Request("m", START_S + 60, body_bytes=101))
    assert huge << replied("overloaded", code="router_overloaded", sends=0)
    assert waiting.woken == 0


def test_with_lifo_a_newcomer_is_next(clock: ManualClock) -> None:
    policy, first = full(clock, queue_order=QueueOrder.LIFO)
    _waiting = asked(policy) << wait(2)
    first.close()
    assert asked(policy) << send("a-0")


def test_who_leaves_the_queue_passes_the_wake_up_on(clock: ManualClock) -> None:
    policy, first = full(clock)
    second, third = asked(policy) << wait(2), asked(policy) << wait(2)
    first.close()
    second.close()
    assert third.woken == 1
    assert third >> None << send("a-0")


def test_each_model_has_its_own_line(clock: ManualClock) -> None:
    policy, first = full(clock, "a=m", "b=n", "c=n")
    held = [asked(policy, model="n") << send("b-0"), asked(policy, model="n") << send("c-0")]
    of_m, of_n = asked(policy) << wait(2), asked(policy, model="n") << wait(2)
    held[0].close()
    assert of_n >> None << send("b-0")
    first.close()
    assert of_m >> None << send("a-0")


@pytest.mark.parametrize("outcome", [REFUSED, LOST, answered(503)])
def test_room_comes_back_however_a_send_ends(clock: ManualClock, outcome: Outcome) -> None:
    policy, first = full(clock)
    second = asked(policy) << wait(2)
    _ = first >> outcome
    if outcome.status is not None:
        _ = first >> End.COMPLETE
    assert second >> None << send("a-0")


def test_a_driver_that_sets_no_wake_up_is_not_called(clock: ManualClock) -> None:
    policy, first = full(clock)
    second = asked(policy) << wait(2)
    assert isinstance(second.step, Waiting)
    second.step.on_wake = None
    first.close()
    assert second >> None << send("a-0")
