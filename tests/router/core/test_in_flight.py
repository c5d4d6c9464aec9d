"""Leases: taken once, given back once, and the one connect per frontend that may wait its whole time."""

import pytest

from router.core.config import RouterConfig
from router.core.cooldown import Cooldown
from router.core.in_flight import FrontendState, Ledger, PoolState
from router.core.topology import Frontend
from tests.router.core.playbook import ManualClock

SLOW_S = 0.25


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def state() -> FrontendState:
    return FrontendState(Frontend("a", "a-0", "http://a"), PoolState("a"), Cooldown(RouterConfig()))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def ledger(clock: ManualClock, told: list[str]) -> Ledger:
    return Ledger(clock, lambda: told.append("changed"), in_flight_max=2, slow_s=SLOW_S)


def test_a_lease_counts_until_it_is_released_and_only_once(
    ledger: Ledger, state: FrontendState, told: list[str], clock: ManualClock
) -> None:
    lease = ledger.take(state, clock.now_s)
    assert [repr(state), repr(state.pool), repr(lease)] == [
        "<a-0 in_flight=1 in_use>",
        "<a in_flight=1>",
        "<Lease a-0 open>",
    ]
    lease.release()
    lease.release()
    assert [repr(state), repr(state.pool), repr(lease)] == [
        "<a-0 in_flight=0 in_use>",
        "<a in_flight=0>",
        "<Lease a-0 released>",
    ]
    assert told == ["changed"]


def test_a_pool_is_full_at_its_bound_and_has_room_below(
    ledger: Ledger, state: FrontendState, clock: ManualClock
) -> None:
    leases = [ledger.take(state, clock.now_s) for _ in range(2)]
    assert not ledger.has_room(state.pool)
    assert not ledger.all_free(clock.now_s)
    leases[0].release()
    assert ledger.has_room(state.pool)
    assert ledger.all_free(clock.now_s)


def test_one_connect_leads_and_the_others_follow(ledger: Ledger, state: FrontendState, clock: ManualClock) -> None:
    leader, follower = ledger.take(state, clock.now_s), ledger.take(state, clock.now_s)
    assert (leader.leads, follower.leads) == (True, False)
    assert ledger.leaders == {state: leader}
    leader.release()
    assert ledger.leaders == {}
    assert ledger.take(state, clock.now_s).leads


def test_a_frontend_is_suspect_while_its_leader_is_pending_for_too_long(
    ledger: Ledger, state: FrontendState, clock: ManualClock
) -> None:
    leader = ledger.take(state, clock.now_s)
    clock.now_s += SLOW_S
    assert (ledger.is_suspect(state, clock.now_s), ledger.all_free(clock.now_s)) == (False, True)
    clock.now_s += 0.01
    assert (ledger.is_suspect(state, clock.now_s), ledger.all_free(clock.now_s)) == (True, False)
    leader.handed_over()
    assert (ledger.is_suspect(state, clock.now_s), ledger.all_free(clock.now_s)) == (False, True)


def test_a_follower_that_comes_through_clears_the_suspicion_and_the_leader_still_leads(
    ledger: Ledger, state: FrontendState, clock: ManualClock
) -> None:
    leader, follower = ledger.take(state, clock.now_s), ledger.take(state, clock.now_s)
    clock.now_s += 1
    follower.handed_over()
    assert not ledger.is_suspect(state, clock.now_s)
    assert (ledger.leaders, leader.overtaken) == ({state: leader}, True)


def test_a_hand_over_is_told_once_and_not_after_the_release(
    ledger: Ledger, state: FrontendState, told: list[str], clock: ManualClock
) -> None:
    first, second = ledger.take(state, clock.now_s), ledger.take(state, clock.now_s)
    assert first.frontend.url == "http://a"
    first.handed_over()
    first.handed_over()
    second.handed_over()  # nothing was pending any more, so nothing has changed
    assert (first.slot_taken, second.slot_taken, told) == (True, True, ["changed"])
    third = ledger.take(state, clock.now_s)
    third.release()
    third.handed_over()
    assert not third.slot_taken
