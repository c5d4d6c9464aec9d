"""Who takes a send: equal shares, no resonance between first and second choices, cursors that survive a change."""

from collections import Counter, deque
from collections.abc import Container

import pytest

from router.core.config import RouterConfig, Selection
from router.core.cooldown import Cooldown
from router.core.effects import End
from router.core.in_flight import FrontendState, PoolState
from router.core.policy import Policy
from router.core.selection import Candidate, PowerOfTwoChoices
from router.core.topology import Catalog, Frontend
from tests.router.core.playbook import (
    REFUSED,
    ManualClock,
    Playbook,
    answer_all,
    answered,
    asked,
    policy_of,
    pools,
    relay,
    send,
)

NO_COOLDOWN = RouterConfig(cooldown=False)


def first_choices(policy: Policy, count: int, *, dead: Container[str] = ()) -> Counter[str]:
    """Forward requests one after the other; dead frontends refuse. Return how many first sends each pool got."""
    chosen: Counter[str] = Counter()
    for frontend, sends in answer_all(policy, count, dead=dead).items():
        chosen[frontend.rpartition("-")[0]] += sends
    return chosen


@pytest.mark.parametrize(("shape", "share"), [(("a", "b"), 600), (("a", "b", "c"), 400), (("a:3", "b"), 600)])
@pytest.mark.parametrize("dead", ["a", "b"])
def test_a_dead_pool_gets_its_fair_share_of_first_sends_and_no_more(
    shape: tuple[str, ...], share: float, dead: str
) -> None:
    assert first_choices(policy_of(*shape, config=NO_COOLDOWN), 1200, dead=[f"{dead}-{n}" for n in range(3)])[
        dead
    ] == pytest.approx(share, abs=1)


@pytest.mark.parametrize("third", ["0", "ab", "z"])
def test_a_third_pool_joins_wherever_its_name_sorts(third: str) -> None:
    policy = policy_of("a", "b")
    assert first_choices(policy, 4) == {"a": 2, "b": 2}
    policy.publish(Catalog(pools("a", "b", third)))
    assert first_choices(policy, 3) == {"a": 1, "b": 1, third: 1}


def test_the_cursor_survives_an_unchanged_list() -> None:
    policy = policy_of("a", "b")
    for turn in range(4):
        policy.publish(Catalog(pools("b", "a")))
        assert first_choices(policy, 1) == {"ab"[turn % 2]: 1}


def test_pools_share_equally_whatever_their_number_of_frontends() -> None:
    policy = policy_of("a:3", "b")
    counts: Counter[str] = Counter()
    for _ in range(12):
        playbook = asked(policy)
        counts[playbook.sent_to.name] += 1
        playbook.close()
    assert counts == {"a-0": 2, "a-1": 2, "a-2": 2, "b-0": 6}


def test_each_model_turns_its_own_cursor() -> None:
    policy = policy_of("a=m", "b=m", "c")
    assert asked(policy) << send("a-0")
    assert asked(policy, model="other") << send("c-0")
    assert asked(policy) << send("b-0")


def test_requests_that_are_bound_to_a_pool_leave_the_others_shares_equal() -> None:
    policy = policy_of("a", "b")
    assert asked(policy, session="s") << send("a-0") >> answered(200) << relay(200) >> End.COMPLETE
    counts: Counter[str] = Counter()
    for _ in range(100):
        assert asked(policy, session="s") << send("a-0") >> answered(200)
        counts[asked(policy).sent_to.pool] += 1
    assert counts == {"a": 50, "b": 50}


def test_models_that_no_pool_lists_share_one_cursor_so_that_clients_cannot_grow_memory() -> None:
    policy = policy_of("a", "b")
    assert asked(policy, model="x1") << send("a-0")
    assert asked(policy, model="x2") << send("b-0")


def test_a_draining_pool_takes_nothing_new() -> None:
    policy = policy_of("a!", "b")
    assert first_choices(policy, 3) == {"b": 3}


def test_what_is_in_flight_survives_a_change_of_the_list() -> None:
    policy = policy_of("a", "b")
    first, second = asked(policy) << send("a-0"), asked(policy) << send("b-0")
    policy.publish(Catalog(pools("b", "c")))
    assert policy.in_flight() == {"a": 1, "b": 1, "c": 0}
    policy.publish(Catalog(pools("a", "b")))
    assert policy.in_flight() == {"a": 1, "b": 1}
    policy.publish(Catalog(pools("b")))
    first.close()
    second.close()
    assert policy.in_flight() == {"b": 0}


class Served:
    """A healthy service: requests end some time after they were sent, so that load is seen."""

    def __init__(self, policy: Policy, clock: ManualClock, service_s: float) -> None:
        self._policy = policy
        self._clock = clock
        self._service_s = service_s
        self._running: deque[tuple[float, Playbook]] = deque()
        self.firsts: Counter[str] = Counter()

    def arrive(self, dead: Container[str]) -> None:
        """Let one request arrive; dead pools refuse it at once."""
        while self._running and self._running[0][0] <= self._clock.now_s:
            assert self._running.popleft()[1] >> answered(200) >> End.COMPLETE
        playbook = asked(self._policy)
        self.firsts[playbook.sent_to.pool] += 1
        if playbook.sent_to.pool in dead:
            playbook >>= REFUSED
        self._running.append((self._clock.now_s + self._service_s, playbook))


def shares(config: RouterConfig, *, dead: Container[str], pools_: tuple[str, ...] = ("a", "b")) -> dict[str, float]:
    """Return the shares of first sends over 1,000 requests at 50/s with a service time of 0.1 s."""
    clock = ManualClock()
    served = Served(policy_of(*pools_, clock=clock, config=config), clock, 0.1)
    for _ in range(1000):
        served.arrive(dead)
        clock.now_s += 0.02
    return {pool: served.firsts[pool] / 1000 for pool in pools_}


BY_LOAD = [Selection.LEAST_IN_FLIGHT, Selection.POWER_OF_TWO_CHOICES]


@pytest.mark.parametrize("selection", BY_LOAD)
@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c"), ("a:2", "b", "c", "d")])
def test_a_refusing_pool_is_no_magnet_with_the_failure_penalty_alone(
    selection: Selection, names: tuple[str, ...]
) -> None:
    config = RouterConfig(cooldown=False, selection=selection)
    assert shares(config, dead=["a"], pools_=names)["a:2" if "a:2" in names else "a"] <= 1 / len(names) + 0.01


@pytest.mark.parametrize("selection", BY_LOAD)
def test_a_refusing_pools_share_falls_to_nothing_with_cooldown(selection: Selection) -> None:
    assert shares(RouterConfig(selection=selection), dead=["a"])["a"] <= 0.01


@pytest.mark.parametrize("selection", BY_LOAD)
def test_a_pool_that_fails_half_of_the_time_is_no_magnet(selection: Selection) -> None:
    class EveryOther:
        def __init__(self) -> None:
            self._turn = 0

        def __contains__(self, pool: object) -> bool:
            self._turn += pool == "a"
            return pool == "a" and self._turn % 2 == 0

    config = RouterConfig(cooldown=False, selection=selection)
    assert shares(config, dead=EveryOther())["a"] <= 0.52


@pytest.mark.parametrize("selection", BY_LOAD)
def test_healthy_pools_share_by_load(selection: Selection) -> None:
    found = shares(RouterConfig(selection=selection), dead=[], pools_=("a", "b"))
    assert found["a"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("selection", BY_LOAD)
def test_the_less_loaded_pool_is_taken_then_its_less_loaded_frontend(selection: Selection) -> None:
    policy = policy_of("a:2", "b:2", config=RouterConfig(selection=selection))
    held = [asked(policy) for _ in range(16)]
    counts = Counter(playbook.sent_to.name for playbook in held)
    if selection is Selection.LEAST_IN_FLIGHT:
        assert counts == {"a-0": 4, "a-1": 4, "b-0": 4, "b-1": 4}
    assert policy.in_flight() == {"a": 8, "b": 8}


def test_ties_are_broken_at_random() -> None:
    policy = policy_of("a", "b", "c", config=RouterConfig(selection=Selection.LEAST_IN_FLIGHT))
    counts: Counter[str] = Counter()
    for _ in range(3000):
        playbook = asked(policy)
        counts[playbook.sent_to.pool] += 1
        playbook.close()
    assert all(count == pytest.approx(1000, abs=100) for count in counts.values())


class Loaded:
    """Draws that were loaded beforehand: each is one place of so many."""

    def __init__(self, *draws: tuple[int, int]) -> None:
        self._draws = list(draws)

    def random(self) -> float:
        place, places = self._draws.pop(0)
        return place / places


@pytest.mark.parametrize(
    ("draws", "in_flight", "chosen"),
    [
        ((0, 0), (0, 0, 0), "a"),  # a and b, a tie: the first drawn
        ((1, 0), (0, 0, 0), "b"),  # b and a, a tie: the first drawn
        ((1, 1), (0, 1, 0), "c"),  # b and c: c has less
        ((2, 1), (0, 1, 1), "c"),  # c and b, a tie
        ((2, 0), (0, 1, 1), "a"),  # c and a: a has less
        ((0, 1), (9, 0, 5), "c"),  # a and c: b was not drawn
    ],
)
def test_power_of_two_choices_draws_two_different_ones_and_the_first_wins_a_tie(
    draws: tuple[int, int], in_flight: tuple[int, ...], chosen: str
) -> None:
    candidates = []
    for name, count in zip("abc", in_flight, strict=True):
        pool = PoolState(name)
        pool.in_flight = count
        state = FrontendState(Frontend(name, f"{name}-0", "http://x"), pool, Cooldown(RouterConfig()))
        candidates.append(Candidate(pool, [state]))
    found = PowerOfTwoChoices(Loaded((draws[0], 3), (draws[1], 2))).pool("m", candidates, second=False)
    assert found.pool.name == chosen


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("failing", range(4))
def test_four_pools_and_one_failing_send_is_no_error_for_the_client(selection: Selection, failing: int) -> None:
    policy = policy_of("a", "b", "c", "d", config=RouterConfig(selection=selection))
    for turn in range(8):
        playbook = asked(policy)
        if turn == failing:
            playbook >>= REFUSED
        assert playbook >> answered(200) << relay(200) >> End.COMPLETE
        assert playbook.reply.code is None


@pytest.mark.parametrize("selection", Selection)
def test_the_same_seed_chooses_the_same(selection: Selection) -> None:
    config = RouterConfig(selection=selection)
    runs = [answer_all(policy_of("a:2", "b", "c", config=config), 200, dead=["b-0"]) for _ in range(2)]
    assert runs[0] == runs[1]
