"""Defects that must not survive: each is made in one function of the core, and a law or a playbook must object."""

import inspect
import random
import textwrap
from collections.abc import Callable
from types import ModuleType

import pytest

from router.core import forwarding, in_flight, policy, selection
from tests.router.core import test_forwarding, test_in_flight, test_selection
from tests.router.core.playbook import ManualClock, policy_of
from tests.router.core.worlds import drawn_world


def mutate(monkeypatch: pytest.MonkeyPatch, where: ModuleType, function: str, old: str, new: str) -> None:
    """Replace `old` by `new` in the source of one function or method, e.g. "Policy.again"."""
    owner: object = where
    *outer, name = function.split(".")
    for part in outer:
        owner = getattr(owner, part)
    source = textwrap.dedent(inspect.getsource(inspect.getattr_static(owner, name)))
    assert source.count(old) == 1, f"{function} has changed: {old!r} is not in it exactly once"
    scope: dict[str, object] = {}
    exec(source.replace(old, new), vars(where), scope)
    monkeypatch.setattr(owner, name, scope[name])


def worlds() -> None:
    """Run random worlds until one of them breaks a law."""
    draws = random.Random(2)
    for _ in range(300):
        drawn_world(draws, 40)


def resonance() -> None:
    test_selection.test_a_dead_pool_gets_its_fair_share_of_first_sends_and_no_more(("a", "b"), 500, "a")


def connect_bounds() -> None:
    clock = ManualClock()
    test_forwarding.test_the_first_connect_leaves_half_of_the_deadline_to_the_second(
        policy_of("a", "b", clock=clock), clock
    )


MUTANTS: dict[str, tuple[ModuleType, str, str, str, Callable[[], None]]] = {
    "the slot counts as always full": (
        policy, "Policy.again", "outcome.delivery is not Delivery.UNSENT", "False", worlds,
    ),
    "the second choice may be the same pool": (
        policy, "Policy.decide", "tried is not None:", "False:", worlds,
    ),
    "a third send": (policy, "Policy.again", "send.attempt > 1", "send.attempt > 2", worlds),
    "the budget is not asked": (policy, "Policy.again", "request.retries_left < 1", "False", worlds),
    "the deadline is not asked before the second send": (
        policy, "Policy.again", "self.clock.monotonic() >= request.until_s", "False", worlds,
    ),
    "the deadline is not asked before the first send": (
        forwarding, "_first", "now >= request.until_s", "False", worlds,
    ),
    "the wait is not bounded by the deadline": (
        forwarding, "_first", "min(patient_until_s, request.until_s)", "patient_until_s", worlds,
    ),
    "the patience starts anew with every wake-up": (
        forwarding, "_first", "now = policy.clock.monotonic()",
        "now = policy.clock.monotonic(); patient_until_s = now + policy.config.patience_s", worlds,
    ),
    "the lease is lost when the client leaves": (
        forwarding, "_attempt", "finally:\n        send.lease.release()",
        "finally:\n        _ = outcome and send.lease.release()", worlds,
    ),
    "the lease ends with the headers": (
        forwarding, "_attempt", "    end = yield", "    send.lease.release()\n        end = yield", worlds,
    ),
    "a lease is given back twice": (
        in_flight, "Lease.release", "self.open = False", "pass",
        test_in_flight.test_a_lease_counts_until_it_is_released_and_only_once,
    ),
    "nobody is told of a change": (policy, "Policy.publish", "self._changed()", "pass", worlds),
    "waiting is not taken back": (forwarding, "_first", "policy.waiting -= 1", "pass", worlds),
    "the first connect may use the whole deadline": (
        policy, "Policy._connect_until_s", "left / 2", "left", connect_bounds,
    ),
    "first and second choices share a cursor": (
        selection, "RoundRobin.choose", "turn = self._pool_turns.get((model, second), 0)",
        "second = False; turn = self._pool_turns.get((model, second), 0)", resonance,
    ),
    "a send without an outcome is not counted": (
        forwarding, "_attempt", "if outcome is None:", "if False:", worlds,
    ),
    "a departure is not counted": (forwarding, "forward", "finally:", "except ZeroDivisionError:", worlds),
}  # fmt: skip


@pytest.mark.parametrize(
    "suite", dict.fromkeys(suite for *_, suite in MUTANTS.values()), ids=lambda suite: suite.__name__
)
def test_what_catches_mutants_is_green_without_them(suite: Callable[[], None]) -> None:
    suite()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, function, old, new, suite = MUTANTS[mutant]
    mutate(monkeypatch, where, function, old, new)
    with pytest.raises(AssertionError):
        suite()
