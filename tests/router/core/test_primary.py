"""Primary and backup: when traffic moves, when it does not, and how it comes back."""

import pytest

from router.core.config import FailBack, RouterConfig, Selection
from router.core.delivery import Cause, Outcome
from router.core.effects import Request
from router.core.policy import Policy
from router.core.primary import Primary, Why
from router.core.topology import Catalog
from router.core.trials import NEVER
from tests.router.core.playbook import (
    LOST,
    REFUSED,
    START_S,
    ManualClock,
    after,
    answered,
    asked,
    bench,
    connect,
    policy_of,
    pools,
    probe,
    replied,
    send,
    trials,
    unknown,
    wait,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def policy_with(clock: ManualClock, *shape: str, **knobs: object) -> Policy:
    """Return a policy with primary and backups."""
    config = RouterConfig(**{"selection": Selection.PRIMARY_BACKUP, "slow_start_s": 0.0, **knobs})  # type: ignore[arg-type]  # any knob
    return policy_of(*(shape or ("a", "b", "c")), clock=clock, config=config)


def state(policy: Policy) -> tuple[str, str, Why, float]:
    """Return configured, active, why, and since when, counted from the start."""
    primary = policy.primary
    assert primary is not None
    return primary.configured, primary.active, primary.why, primary.since_s - START_S


def test_everything_goes_to_the_primary(clock: ManualClock) -> None:
    policy = policy_with(clock, "a:2", "b")
    assert [asked(policy).sent_to.name for _ in range(4)] == ["a-0", "a-1", "a-0", "a-1"]
    assert state(policy) == ("a", "a", Why.CONFIGURED, 0.0)


def test_the_primary_can_be_named(clock: ManualClock) -> None:
    policy = policy_with(clock, primary="b")
    assert asked(policy) << send("b-0")
    assert repr(policy.primary) == "<b (configured), configured b>"


def test_a_primary_that_does_not_exist_is_not_waited_for(clock: ManualClock) -> None:
    policy = policy_with(clock, primary="x")
    assert asked(policy) << send("a-0")
    assert state(policy) == ("x", "a", Why.AUTOMATIC, 0.0)


def test_single_failures_do_not_move_it_but_each_fails_over(clock: ManualClock) -> None:
    policy = policy_with(clock)
    for _ in range(2):
        assert asked(policy) << send("a-0") >> REFUSED << send("b-0")
    assert asked(policy) << send("a-0") >> LOST << replied("maybe_sent", code="maybe_running", sends=1)
    assert asked(policy) << send("b-0"), "three in a row bench it"


@pytest.mark.parametrize("outcome", [REFUSED, LOST, unknown(Cause.RESET), answered(500), answered(503)])
def test_no_other_single_failure_moves_it(clock: ManualClock, outcome: Outcome) -> None:
    policy = policy_with(clock)
    assert asked(policy) << send("a-0") >> outcome
    assert asked(policy) << send("a-0")


@pytest.mark.parametrize("cause", [Cause.FIRST_BYTE_TIMEOUT, Cause.UPLOAD_TIMEOUT, Cause.TOTAL_TIMEOUT, Cause.DEADLINE])
def test_one_timeout_moves_later_requests_at_once_and_is_not_sent_again(clock: ManualClock, cause: Cause) -> None:
    policy = policy_with(clock)
    clock.now_s += 1
    assert asked(policy) << send("a-0") >> unknown(cause) << replied("maybe_sent", code="pool_timeout", sends=1)
    assert asked(policy) << send("b-0")
    assert state(policy) == ("a", "b", Why.AUTOMATIC, 1.0)


def test_a_timeout_does_not_move_it_where_that_is_off(clock: ManualClock) -> None:
    policy = policy_with(clock, switch_on_timeout=False)
    assert asked(policy) << send("a-0") >> unknown(Cause.DEADLINE)
    assert asked(policy) << send("a-0")


def test_a_clients_own_hurry_does_not_move_it(clock: ManualClock) -> None:
    policy = policy_with(clock)
    hurried = Request("m", clock.now_s + 0.01, deadline_lowered=True)
    assert asked(policy, hurried) << send("a-0") >> unknown(Cause.DEADLINE)
    assert asked(policy) << send("a-0")
    patient = Request("m", clock.now_s + 100, deadline_lowered=True)
    assert asked(policy, patient) << send("a-0") >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert asked(policy) << send("b-0"), "a bound of the router's own is no hurry"


def test_a_timeout_of_another_pool_does_not_move_it(clock: ManualClock) -> None:
    policy = policy_with(clock)
    assert asked(policy) << send("a-0") >> REFUSED << send("b-0") >> unknown(Cause.DEADLINE)
    assert asked(policy) << send("a-0")


def test_a_timeout_with_nowhere_to_go_moves_nothing(clock: ManualClock) -> None:
    policy = policy_with(clock, "a", "b!")
    assert asked(policy) << send("a-0") >> unknown(Cause.DEADLINE)
    assert state(policy) == ("a", "a", Why.CONFIGURED, 0.0)


def test_it_moves_when_the_last_frontend_of_the_active_pool_is_benched(clock: ManualClock) -> None:
    policy = policy_with(clock, "a:2", "b")
    moves: list[str] = []
    assert policy.primary is not None
    policy.primary.on_move = lambda primary: moves.append(primary.active)
    bench(policy, "a-0")
    assert asked(policy) << send("a-1")
    bench(policy, "a-1")
    assert asked(policy) << send("b-0")
    assert moves == ["b"]


@pytest.mark.parametrize("shape", [("a!", "b", "c"), ("b", "c"), ("a:0", "b", "c")])
def test_it_moves_when_the_active_pool_drains_or_is_gone(clock: ManualClock, shape: tuple[str, ...]) -> None:
    policy = policy_with(clock)
    policy.publish(Catalog(pools(*shape)))
    assert asked(policy) << send("b-0")
    assert state(policy) == ("a", "b", Why.AUTOMATIC, 0.0)


def test_it_moves_when_no_frontend_of_the_active_pool_is_ready(clock: ManualClock) -> None:
    ready = {"a", "b", "c"}
    policy = policy_with(clock)
    policy.roster._ready = lambda frontend, _: frontend.pool in ready
    ready.remove("a")
    policy.ready_changed()
    assert asked(policy) << send("b-0")
    ready.add("a")
    policy.ready_changed()
    assert asked(policy) << send("b-0")


def test_a_full_or_suspect_pool_stays_active_while_another_helps_out(clock: ManualClock) -> None:
    policy = policy_with(clock, in_flight_max=1)
    first = asked(policy) << send("a-0")
    assert asked(policy) << send("b-0")
    first.close()
    assert asked(policy) << send("a-0")
    assert state(policy) == ("a", "a", Why.CONFIGURED, 0.0)


def test_a_model_that_the_active_pool_does_not_serve_goes_elsewhere(clock: ManualClock) -> None:
    policy = policy_with(clock, "a=m", "b=n", "c=n")
    assert asked(policy, model="n") << send("b-0")
    assert state(policy) == ("a", "a", Why.CONFIGURED, 0.0)


def test_nothing_usable_moves_nothing_until_something_is(clock: ManualClock) -> None:
    policy = policy_with(clock, "a", "b")
    bench(policy, "a-0", "b-0")
    assert state(policy)[1] == "b"
    assert asked(policy) << wait(2)
    loop = trials(policy) << connect("a-0", 0.25) >> None << probe("a-0", 5)
    assert loop >> "ok"
    assert state(policy)[1] == "a"


def back_after_bench(policy: Policy, clock: ManualClock) -> None:
    """Bench pool a, so that traffic moves to b, and let a trial bring it back at 5 s."""
    bench(policy, "a-0")
    assert asked(policy) << send("b-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)


def test_the_way_back_is_the_operators_by_default(clock: ManualClock) -> None:
    policy = policy_with(clock)
    back_after_bench(policy, clock)
    clock.now_s += 10_000
    assert asked(policy) << send("b-0")
    assert policy.primary is not None
    policy.primary.operator_chose("a", clock.now_s)
    assert asked(policy) << send("a-0")


def test_an_automatic_return_waits_its_hold(clock: ManualClock) -> None:
    policy = policy_with(clock, fail_back=FailBack.AUTOMATIC, fail_back_hold_s=60.0)
    back_after_bench(policy, clock)
    clock.now_s += 59.9
    assert asked(policy) << send("b-0")
    clock.now_s += 0.1
    assert asked(policy) << send("a-0")
    assert state(policy) == ("a", "a", Why.AUTOMATIC, 65.0)


def test_after_a_timeout_the_hold_begins_anew(clock: ManualClock) -> None:
    policy = policy_with(clock, fail_back=FailBack.AUTOMATIC, fail_back_hold_s=60.0)
    clock.now_s += 100
    assert asked(policy) << send("a-0") >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    clock.now_s += 59
    assert asked(policy) << send("b-0")
    clock.now_s += 1
    assert asked(policy) << send("a-0")


@pytest.mark.parametrize("primary", ["a", "b", "c"])
def test_timeouts_one_after_the_other_give_every_pool_its_turn(clock: ManualClock, primary: str) -> None:
    policy = policy_with(clock, primary=primary)
    tried = []
    for _ in range(6):
        playbook = asked(policy)
        tried.append(playbook.sent_to.pool)
        assert playbook >> after(clock, 1, unknown(Cause.DEADLINE))
    assert tried == sorted("abc" * 2, key=lambda pool: (ord(pool) - ord(primary)) % 3)[::2] * 2


def test_a_timeout_of_the_only_backup_goes_back_to_the_primary(clock: ManualClock) -> None:
    policy = policy_with(clock, "a", "b")
    assert asked(policy) << send("a-0") >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert asked(policy) << send("b-0") >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert asked(policy) << send("a-0")


def test_a_timeout_of_a_send_from_before_the_return_does_not_undo_it(clock: ManualClock) -> None:
    policy = policy_with(clock, fail_back=FailBack.AUTOMATIC, fail_back_hold_s=60.0)
    early, late = asked(policy) << send("a-0"), asked(policy) << send("a-0")
    assert early >> unknown(Cause.DEADLINE)
    clock.now_s += 60
    assert asked(policy) << send("a-0")
    assert late >> unknown(Cause.DEADLINE)
    assert asked(policy) << send("a-0")
    assert asked(policy) >> unknown(Cause.DEADLINE)
    assert asked(policy) << send("b-0")


def test_an_operators_choice_wins_while_it_is_usable(clock: ManualClock) -> None:
    policy = policy_with(clock, fail_back=FailBack.AUTOMATIC, fail_back_hold_s=1.0)
    primary = policy.primary
    assert primary is not None
    primary.operator_chose("c", clock.now_s)
    assert asked(policy) << send("c-0") >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    clock.now_s += 100
    assert asked(policy) << send("c-0")
    assert state(policy) == ("a", "c", Why.OPERATOR, 0.0)
    bench(policy, "c-0")
    assert asked(policy) << send("a-0")
    assert state(policy) == ("a", "a", Why.AUTOMATIC, 100.0)


def test_an_operator_cannot_choose_what_cannot_be_used(clock: ManualClock) -> None:
    policy = policy_with(clock, "a", "b", "c!")
    assert policy.primary is not None
    for pool in ("c", "x"):
        with pytest.raises(ValueError, match=f"pool '{pool}' cannot be used now; usable: a, b"):
            policy.primary.operator_chose(pool, clock.now_s)
    with pytest.raises(ValueError, match="usable: none"):
        Primary(RouterConfig(), 0.0).operator_chose("a", 0.0)
