"""One full-price connect: what a black hole costs in all, however many requests arrive meanwhile."""

import heapq
import itertools

import pytest

from router.core.config import RouterConfig, Selection
from router.core.cooldown import Standing
from router.core.delivery import Cause
from router.core.effects import Connect, End, Request, Send, Wait
from router.core.policy import Policy
from tests.router.core.playbook import (
    START_S,
    ManualClock,
    Playbook,
    after,
    answered,
    asked,
    policy_of,
    relay,
    replied,
    send,
    state_of,
    trials,
    unsent,
    wait,
)

HUNG = unsent(Cause.CONNECT_TIMEOUT)
KNOBS = RouterConfig(connect_timeout_s=5.0, deadline_s=60.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def policy(clock: ManualClock) -> Policy:
    return policy_of("a", "b", clock=clock, config=KNOBS)


def test_only_one_send_waits_the_whole_time_and_the_others_move_on(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    leader = asked(policy) << send("a-0", connect_until_s=5)
    follower = asked(policy) << send("a-0", connect_until_s=0.25)
    assert follower >> after(clock, 0.25, HUNG) << replied("no_other_pool", code="pool_unreachable", sends=1)
    clock.now_s += 0.01
    assert asked(policy) << wait(2.26)
    assert leader >> after(clock, 4.74, HUNG) << replied("no_other_pool", code="pool_unreachable", sends=1)
    assert state_of(policy, "a-0").cooldown.reason == "a connect hung for 5 s"


def test_a_frontend_whose_connect_is_pending_for_too_long_gets_no_more_sends(
    policy: Policy, clock: ManualClock
) -> None:
    leader = asked(policy) << send("a-0", connect_until_s=5)
    clock.now_s += 0.26
    assert all(asked(policy).sent_to.name == "b-0" for _ in range(10))
    assert leader >> answered(200) << relay(200)
    assert {asked(policy).sent_to.name for _ in range(2)} == {"a-0", "b-0"}


def test_a_connect_that_comes_through_at_last_wakes_who_waits(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    leader = asked(policy) << send("a-0")
    clock.now_s += 1
    late = asked(policy) << wait(3)
    assert leader >> answered(200) << relay(200)
    assert late.woken == 1
    assert late >> None << send("a-0", connect_until_s=6)


def test_a_followers_expiry_blames_nobody(policy: Policy) -> None:
    leaders = [asked(policy), asked(policy)]
    for _ in range(50):
        _ = asked(policy) >> HUNG >> HUNG
    assert [state_of(policy, name).cooldown.standing for name in ("a-0", "b-0")] == [Standing.IN_USE] * 2
    assert [state_of(policy, name).wary for name in ("a-0", "b-0")] == [False] * 2
    assert all(isinstance(leader.step, Send) for leader in leaders)


def test_a_leader_that_others_overtook_is_one_failure_and_no_more(policy: Policy, clock: ManualClock) -> None:
    policy.publish(policy_of("a").catalog)
    leader, follower = asked(policy) << send("a-0"), asked(policy) << send("a-0")
    assert follower >> answered(200) << relay(200)
    assert leader >> after(clock, 5, HUNG) << replied("no_other_pool", code="pool_unreachable", sends=1)
    assert state_of(policy, "a-0").cooldown.standing is Standing.IN_USE
    assert state_of(policy, "a-0").wary


@pytest.mark.parametrize(
    ("deadline_s", "bound_s", "standing", "wary"),
    [
        (20.0, 5.0, Standing.BENCHED, True),
        (10.0, 5.0, Standing.BENCHED, True),
        (8.0, 4.0, Standing.IN_USE, True),
        (0.4, 0.2, Standing.IN_USE, False),
    ],
)
def test_a_client_in_a_hurry_benches_nothing(
    policy: Policy, clock: ManualClock, deadline_s: float, bound_s: float, standing: Standing, *, wary: bool
) -> None:
    playbook = asked(policy, Request("m", START_S + deadline_s)) << send("a-0", connect_until_s=bound_s)
    assert playbook >> after(clock, bound_s, HUNG) << send("b-0")
    assert (state_of(policy, "a-0").cooldown.standing, state_of(policy, "a-0").wary) == (standing, wary)


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize(("rate", "connect_timeout_s"), [(50, 5.0), (50, 1.0)])
def test_a_minute_of_a_black_hole_costs_at_most_two_connect_timeouts_in_all(
    clock: ManualClock, selection: Selection, rate: int, connect_timeout_s: float
) -> None:
    config = RouterConfig(connect_timeout_s=connect_timeout_s, selection=selection)
    policy = policy_of("a", "b", clock=clock, config=config)
    hole = Hole(policy, clock)
    hole.run(arrivals=[START_S + n / rate for n in range(60 * rate)])
    assert hole.answered == 60 * rate
    assert hole.paid_s <= 2 * connect_timeout_s
    assert policy.in_flight() == {"a": 0, "b": 0}


class Hole:
    """A world of events in which connects to pool a hang and pool b answers after 0.1 s."""

    def __init__(self, policy: Policy, clock: ManualClock) -> None:
        self._policy = policy
        self._clock = clock
        self._events: list[tuple[float, int, Playbook, object]] = []
        self._order = itertools.count()
        self.paid_s = 0.0
        self.answered = 0

    def run(self, arrivals: list[float]) -> None:
        """Let requests arrive, and trials go on, until everything has ended."""
        loop = trials(self._policy)
        pending = iter(arrivals)
        arrival = next(pending, None)
        self._await(loop)
        while arrival is not None or self._policy.in_flight()["b"]:
            if arrival is not None and (not self._events or arrival <= self._events[0][0]):
                self._clock.now_s = arrival
                self._await(asked(self._policy))
                arrival = next(pending, None)
                continue
            self._clock.now_s, _, playbook, answer = heapq.heappop(self._events)
            if playbook is loop or isinstance(playbook.step, Send | Wait):
                self._await(playbook >> answer)
        loop.close()

    def _await(self, playbook: Playbook) -> None:
        now = self._clock.now_s
        match playbook.step:
            case Send(lease=lease, connect_until_s=until_s) if lease.frontend.pool == "a":
                self.paid_s += until_s - now
                self._at(until_s, playbook, HUNG)
            case Send(lease=lease):
                lease.handed_over()
                self._at(now + 0.1, playbook, answered(200))
            case Connect(until_s=until_s):
                self._at(until_s, playbook, Cause.CONNECT_TIMEOUT)
            case Wait() as effect:
                self._at(min(effect.until_s, now + 0.5), playbook, None)
            case _:
                assert (playbook >> End.COMPLETE).reply.code is None
                self.answered += 1

    def _at(self, at_s: float, playbook: Playbook, answer: object) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), playbook, answer))
