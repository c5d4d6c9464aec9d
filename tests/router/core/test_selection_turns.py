"""Turns of the selectors: each choice has a cursor of its own, and what failed lately gets its turn and no more."""

import random
from collections.abc import Callable

import pytest

from router.core.config import RouterConfig
from router.core.cooldown import Cooldown, Verdict
from router.core.in_flight import FrontendState, PoolState
from router.core.primary import Primary
from router.core.selection import (
    TURNS_MAX,
    Candidate,
    LeastInFlight,
    PowerOfTwoChoices,
    PrimaryBackup,
    RoundRobin,
    Selector,
    Turns,
)
from tests.router.core.playbook import START_S, pools

RULES = RouterConfig(cooldown=False)


def candidates(*shape: str, wary: str = "", load: dict[str, int] | None = None) -> list[Candidate]:
    """Build candidates; those whose frontends are named in `wary` failed lately, `load` is in flight by pool."""
    found = []
    for pool in pools(*shape):
        state = PoolState(pool.name)
        state.in_flight = (load or {}).get(pool.name, 0)
        frontends = [FrontendState(frontend, state, Cooldown(RULES)) for frontend in pool.frontends]
        for frontend in frontends:
            if wary == "all" or frontend.frontend.name in wary.split():
                frontend.cooldown.learn(Verdict.BAD, START_S, "lost")
        found.append(Candidate(state, frontends))
    return found


def by_load(kind: type[LeastInFlight] | type[PowerOfTwoChoices]) -> Callable[[], Selector]:
    """Build a selector that draws from a seeded source."""
    return lambda: kind(random.Random(7))


def backup() -> Selector:
    """Build a selector whose primary is a."""
    primary = Primary(RULES, START_S)
    primary.usable_changed(["a", "b"], START_S)
    return PrimaryBackup(primary)


BY_LOAD = {"least_in_flight": by_load(LeastInFlight), "power_of_two_choices": by_load(PowerOfTwoChoices)}
ALL = {"round_robin": RoundRobin, **BY_LOAD}


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_pools_take_turns_by_model_and_by_first_and_second_choice(make: Callable[[], Selector]) -> None:
    selector, places = make(), candidates("a", "b", "c", wary="all")

    def turn(model: str, *, second: bool) -> str:
        return selector.pool(model, places, second=second).pool.name

    assert [turn("m", second=False) for _ in range(2)] == ["a", "b"]
    assert [turn("m", second=True) for _ in range(2)] == ["a", "b"]
    assert [turn("n", second=False) for _ in range(2)] == ["a", "b"]
    assert [turn("m", second=False) for _ in range(2)] == ["c", "a"]


@pytest.mark.parametrize("make", [*ALL.values(), backup], ids=[*ALL, "primary_backup"])
def test_frontends_take_turns_by_pool_and_by_first_and_second_choice(make: Callable[[], Selector]) -> None:
    selector, (a, b) = make(), candidates("a:3", "b:3", wary="all")

    def turn(candidate: Candidate, *, second: bool) -> str:
        return selector.frontend(candidate, second=second).frontend.name

    assert [turn(a, second=False) for _ in range(2)] == ["a-0", "a-1"]
    assert [turn(a, second=True) for _ in range(2)] == ["a-0", "a-1"]
    assert [turn(b, second=False) for _ in range(2)] == ["b-0", "b-1"]
    assert [turn(a, second=False) for _ in range(2)] == ["a-2", "a-0"]


@pytest.mark.parametrize("make", BY_LOAD.values(), ids=BY_LOAD)
def test_who_failed_lately_gets_its_turn_and_load_decides_among_the_others(make: Callable[[], Selector]) -> None:
    selector = make()
    places = candidates("a", "b", "c", wary="a-0", load={"b": 5})
    assert [selector.pool("m", places, second=False).pool.name for _ in range(6)] == ["a", "c", "c"] * 2


def test_cursors_of_names_that_come_and_go_are_bounded() -> None:
    turns = Turns()
    for number in range(TURNS_MAX + 10):
        assert turns.next((f"pool-{number}", False), 3) == 0
    assert len(turns._turns) == TURNS_MAX
    assert turns.next((f"pool-{TURNS_MAX}", False), 3) == 1, "a late one is still there"
