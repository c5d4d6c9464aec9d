"""Sessions prefer one pool: hoped for from the choice, kept where they land, never waited for."""

import pytest

from router.core.affinity import SESSION_LENGTH_MAX
from router.core.config import RouterConfig, Selection
from router.core.delivery import Outcome
from router.core.effects import End
from router.core.policy import Policy
from router.core.topology import Catalog
from tests.router.core.playbook import (
    LOST,
    REFUSED,
    ManualClock,
    Playbook,
    answered,
    asked,
    bench,
    policy_of,
    pools,
    relay,
    replied,
    send,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def policy(clock: ManualClock) -> Policy:
    config = RouterConfig(session_idle_s=600.0, sessions_max=2, cooldown_failures=1000)
    return policy_of("a", "b", "c", clock=clock, config=config)


def session(policy: Policy, name: str = "s", *, model: str = "m") -> Playbook:
    """Begin a request of a session."""
    return asked(policy, session=name, model=model)


def lands(policy: Policy, frontend: str, name: str = "s", *, model: str = "m") -> None:
    """Let a request of a session be answered by this frontend."""
    playbook = session(policy, name, model=model) << send(frontend)
    assert playbook >> answered(200) << relay(200) >> End.COMPLETE << replied("answered", sends=1)


def test_a_session_stays_where_it_landed(policy: Policy) -> None:
    for _ in range(4):
        lands(policy, "a-0")
    lands(policy, "b-0", "t")
    lands(policy, "a-0")


def test_requests_that_arrive_together_stay_together_the_failover_included(policy: Policy) -> None:
    together = [session(policy) << send("a-0") for _ in range(5)]
    for playbook in together:
        assert playbook >> REFUSED << send("b-0")
    assert session(policy) << send("b-0")


def test_the_pin_moves_to_where_a_request_lands_and_does_not_move_back(policy: Policy) -> None:
    lands(policy, "a-0")
    assert session(policy) << send("a-0") >> REFUSED << send("b-0") >> answered(200) << relay(200)
    lands(policy, "b-0")
    assert {asked(policy).sent_to.pool for _ in range(3)} == {"a", "b", "c"}, "others are not bound by it"
    lands(policy, "b-0")


@pytest.mark.parametrize("second", [REFUSED, LOST])
def test_the_pin_stays_when_a_request_lands_nowhere(policy: Policy, second: Outcome) -> None:
    lands(policy, "a-0")
    assert session(policy) << send("a-0") >> REFUSED << send("b-0") >> second
    assert session(policy) << send("a-0")


def test_a_first_request_that_lands_nowhere_leaves_no_pin(policy: Policy) -> None:
    assert session(policy) << send("a-0") >> LOST
    assert session(policy) << send("b-0")


def test_a_benched_pool_holds_nobody(policy: Policy) -> None:
    lands(policy, "a-0")
    bench(policy, "a-0")
    lands(policy, "c-0")


def test_a_draining_pool_holds_nobody(policy: Policy) -> None:
    lands(policy, "a-0")
    policy.publish(Catalog(pools("a!", "b", "c")))
    lands(policy, "c-0")


def test_a_vanished_pool_holds_nobody(policy: Policy) -> None:
    lands(policy, "a-0")
    policy.publish(Catalog(pools("b", "c")))
    lands(policy, "c-0")
    policy.publish(Catalog(pools("a", "b", "c")))
    lands(policy, "c-0")


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_pool_that_says_not_now_holds_nobody(policy: Policy, status: int) -> None:
    lands(policy, "a-0")
    assert session(policy) << send("a-0") >> answered(status) << relay(status) >> End.COMPLETE
    assert session(policy) << send("b-0")


def test_a_failover_that_is_sent_away_leaves_the_pin_where_it_was(policy: Policy) -> None:
    lands(policy, "a-0")
    assert session(policy) << send("a-0") >> REFUSED << send("b-0") >> answered(429) << relay(429) >> End.COMPLETE
    assert session(policy) << send("a-0")


def test_an_idle_session_is_forgotten(policy: Policy, clock: ManualClock) -> None:
    lands(policy, "a-0")
    clock.now_s += 600
    lands(policy, "a-0")
    clock.now_s += 601
    lands(policy, "b-0")


def test_the_table_is_bounded_and_forgets_who_was_idle_longest(policy: Policy) -> None:
    lands(policy, "a-0", "s")
    lands(policy, "b-0", "t")
    lands(policy, "a-0", "s")
    lands(policy, "c-0", "u")
    assert len(policy._pins) == 2
    lands(policy, "a-0", "s")
    lands(policy, "a-0", "t")


def test_a_session_whose_name_is_too_long_is_not_remembered(policy: Policy) -> None:
    long = "s" * (SESSION_LENGTH_MAX + 1)
    lands(policy, "a-0", long)
    lands(policy, "b-0", long)
    lands(policy, "c-0", long[1:])
    lands(policy, "c-0", long[1:])


def test_a_session_has_a_pin_for_each_model(clock: ManualClock) -> None:
    policy = policy_of("a=m", "b=n", "c=m", "d=n", clock=clock)
    for _ in range(2):
        lands(policy, "a-0")
        lands(policy, "b-0", model="n")


def test_with_primary_and_backup_all_sessions_are_where_the_traffic_is(clock: ManualClock) -> None:
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(selection=Selection.PRIMARY_BACKUP))
    lands(policy, "a-0")
    assert policy.primary is not None
    policy.primary.operator_chose("b", clock.now_s)
    lands(policy, "b-0")
