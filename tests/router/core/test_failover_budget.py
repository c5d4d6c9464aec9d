"""Extra budgets on the router's own failovers: asked where there is somewhere to go, told of every send."""

import random
from typing import Any

import pytest

from router.core.budgets.envoy import Envoy, EnvoyKnobs
from router.core.budgets.retry_budget import Call, Ending
from router.core.config import RouterConfig
from router.core.delivery import Cause
from router.core.effects import End, Relay, Request, Send
from router.core.failover_budget import FailoverBudget
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
    relay,
    replied,
    send,
    trials,
    unsent,
    wait,
)
from tests.router.core.worlds import CONFIGS, SHAPES, World, drawn_steps


class Notes:
    """A budget that says what it is told to say, and writes down what it hears."""

    def __init__(self, *answers: bool) -> None:
        self.heard: list[str] = []
        self._answers = list(answers)
        self._calls: list[Call] = []

    def deposit(self, call: Call, _now: float) -> None:
        self._calls.append(call)
        self.heard.append(f"deposit {len(self._calls) - 1}")

    def try_withdraw(self, call: Call, _now: float) -> bool:
        self.heard.append(f"withdraw {self._calls.index(call)}")
        return self._answers.pop(0)

    def ended(self, call: Call, ending: Ending, _now: float) -> None:
        self.heard.append(f"{ending.value} {self._calls.index(call)}")

    def balance(self, _now: float) -> float:
        return len(self._answers)


def with_budget(notes: Notes, *shape: str, **knobs: Any) -> Policy:
    policy = policy_of(*shape, config=RouterConfig(**knobs))
    policy.budget = FailoverBudget(notes)
    return policy


def test_without_a_budget_there_is_none() -> None:
    assert policy_of("a").budget is None


def test_a_failover_that_the_budget_allows() -> None:
    notes = Notes(True)
    playbook = asked(with_budget(notes, "a", "b")) << send("a-0") >> REFUSED << send("b-0") >> answered() << relay(200)
    assert notes.heard == ["deposit 0", "failure 0", "withdraw 0"]
    assert playbook >> End.COMPLETE << replied("answered", sends=2)
    assert notes.heard == ["deposit 0", "failure 0", "withdraw 0", "success 0"]


def test_a_failover_that_the_budget_forbids_is_an_answer_of_its_own() -> None:
    policy = with_budget(Notes(False), "a", "b")
    assert asked(policy) << send("a-0") >> REFUSED << replied("budget", code="budget_spent", sends=1)
    assert policy.tally.failovers_refused == {"budget": 1}
    assert policy.in_flight() == {"a": 0, "b": 0}


@pytest.mark.parametrize("outcome", [LOST, unsent(Cause.REFUSED)])
def test_a_failover_that_is_impossible_anyway_costs_nothing(outcome: Any) -> None:
    notes = Notes()
    assert (
        asked(with_budget(notes, "a"))
        << send("a-0")
        >> outcome
        << replied(
            "maybe_sent" if outcome is LOST else "no_other_pool",
            code="maybe_running" if outcome is LOST else "pool_unreachable",
            sends=1,
        )
    )
    assert notes.heard == ["deposit 0", "failure 0"]


def test_a_second_send_that_fails_asks_no_more() -> None:
    notes = Notes(True)
    assert (
        asked(with_budget(notes, "a", "b"))
        << send("a-0")
        >> REFUSED
        << send("b-0")
        >> unsent(Cause.CONNECT_TIMEOUT)
        << replied("two_sends", code="pool_unreachable", sends=2)
    )
    assert notes.heard == ["deposit 0", "failure 0", "withdraw 0", "timeout 0"]


def test_requests_are_calls_of_their_own() -> None:
    notes = Notes(True, True)
    policy = with_budget(notes, "a", "b")
    first, second = asked(policy) << send("a-0"), asked(policy) << send("b-0")
    second >>= REFUSED
    first >>= REFUSED
    assert notes.heard == ["deposit 0", "deposit 1", "failure 1", "withdraw 1", "failure 0", "withdraw 0"]


@pytest.mark.parametrize(
    ("status", "end", "ending"),
    [
        (200, End.COMPLETE, "success"),
        (200, End.BROKEN, "failure"),
        (200, End.IDLE, "failure"),
        (500, End.COMPLETE, "failure"),
        (503, End.COMPLETE, "throttled"),
    ],
)
def test_an_answer_is_told_when_its_stream_ends(status: int, end: End, ending: str) -> None:
    notes = Notes()
    playbook = asked(with_budget(notes, "a")) << send("a-0") >> answered(status) << relay(status)
    assert notes.heard == ["deposit 0"]
    playbook >>= end
    assert notes.heard == ["deposit 0", f"{ending} 0"]


def test_a_client_that_leaves_is_told_too() -> None:
    notes = Notes()
    policy = with_budget(notes, "a")
    (asked(policy) << send("a-0")).close()
    assert notes.heard == ["deposit 0", "left 0"]
    (asked(policy) << send("a-0") >> answered() << relay(200)).close()
    assert notes.heard[2:] == ["deposit 1", "success 1"]


def test_who_only_waits_is_no_call() -> None:
    notes, clock = Notes(), ManualClock()
    policy = policy_of("a", clock=clock)
    policy.budget = FailoverBudget(notes)
    bench(policy, "a-0")
    assert asked(policy) << wait(2) >> after(clock, 2) << replied("no_pool", code="no_pool", sends=0)
    assert notes.heard == []


def test_the_budget_of_the_configuration_is_used() -> None:
    policy = policy_of("a", "b", config=RouterConfig(failover_budget="token_bucket:ratio=0.25", cooldown=False))
    assert policy.budget is not None
    seconds = 0
    for _ in range(100):
        playbook = asked(policy) >> REFUSED
        if isinstance(playbook.step, Send):
            seconds += 1
            playbook >>= REFUSED
    assert seconds == 25
    assert policy.budget.balance(START_S) == 0


def test_the_chains_limit_comes_first() -> None:
    notes = Notes()
    request = Request("m", START_S + 30, retries_left=0)
    policy = with_budget(notes, "a", "b")
    assert asked(policy, request) >> REFUSED << replied("budget", code="budget_spent", sends=1)
    assert notes.heard == ["deposit 0", "failure 0"]


@pytest.mark.parametrize("elapsed_s", [0.0, 1.0, 5.0, 9.0])
def test_a_failover_while_the_other_pool_starts_slowly_is_made_and_paid_for(elapsed_s: float) -> None:
    """What a returned pool gets by chance is drawn once, and not at all where nothing else is left."""
    clock = ManualClock()
    policy = policy_of("a", "b", clock=clock, config=RouterConfig(failover_budget="envoy"))
    assert policy.budget is not None
    bench(policy, "b-0")
    clock.now_s += 5
    _ = trials(policy) >> None >> "ok"
    clock.now_s += elapsed_s
    failovers = 0
    for _ in range(200):
        playbook = asked(policy)
        if playbook.sent_to.name == "a-0":
            failovers += 1
            assert playbook >> unsent(Cause.STALE) << send("b-0")
        playbook.close()
        assert policy.budget.balance(clock.now_s) == 3, "no retry is under way"
    assert failovers > 50


def test_whatever_happens_what_is_active_are_the_open_sends() -> None:
    draws = random.Random(11)
    refused = 0
    for _ in range(150):
        world = World(draws.choice(SHAPES), draws.choice(CONFIGS))
        envoy = Envoy(EnvoyKnobs(min_retry_concurrency=1))
        world.policy.budget = FailoverBudget(envoy)
        for step in drawn_steps(draws, 50):
            world._do(step)
            world._check()
            open_sends = [live for live in world.live if isinstance(live.effect, Send | Relay)]
            assert envoy.active == len(open_sends)
            assert envoy.retries == sum(live.sends[-1].attempt == 2 for live in open_sends)
        world.run(())
        refused += world.policy.tally.failovers_refused["budget"]
        assert (envoy.active, envoy.retries) == (0, 0)
    assert refused > 20


def test_a_playbook_of_one_retry_at_a_time() -> None:
    policy = policy_of("a", "b", config=RouterConfig(failover_budget="envoy:budget_percent=0,min_retry_concurrency=1"))
    first: Playbook = asked(policy) << send("a-0") >> REFUSED << send("b-0")
    assert asked(policy) << send("b-0") >> REFUSED << replied("budget", code="budget_spent", sends=1)
    assert first >> answered() << relay(200) >> End.COMPLETE << replied("answered", sends=2)
    assert asked(policy) << send("a-0") >> REFUSED << send("b-0")
