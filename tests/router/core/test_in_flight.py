"""Leases: taken once, given back once, and every return is told to whoever waits."""

from router.core.in_flight import FrontendState, Lease
from router.core.topology import Frontend


def test_a_lease_counts_until_it_is_released_and_only_once() -> None:
    told: list[int] = []
    state = FrontendState(Frontend("a", "a-0", "http://a"))
    lease = Lease(state, lambda: told.append(state.in_flight))
    assert repr(state) == "<a-0 in_flight=1>"
    assert repr(lease) == "<Lease a-0 open>"
    lease.release()
    lease.release()
    assert repr(state) == "<a-0 in_flight=0>"
    assert repr(lease) == "<Lease a-0 released>"
    assert told == [0]


def test_the_driver_tells_a_lease_that_the_slot_was_taken() -> None:
    lease = Lease(FrontendState(Frontend("a", "a-0", "http://a")), lambda: None)
    assert not lease.slot_taken
    lease.handed_over()
    assert lease.slot_taken
    assert lease.frontend.url == "http://a"
