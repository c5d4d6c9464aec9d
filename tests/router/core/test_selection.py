"""Who takes a send: equal shares, no resonance between first and second choices, cursors that survive a change."""

from collections import Counter
from collections.abc import Container

import pytest

from router.core.config import RouterConfig
from router.core.policy import Policy
from router.core.topology import Catalog
from tests.router.core.playbook import answer_all, asked, policy_of, pools, send

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
