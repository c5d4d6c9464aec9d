"""Defects that must not survive: each is made in one function of the core, and a law or a playbook must object."""

import gc
import inspect
import random
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from router.core import (
    admission,
    affinity,
    cooldown,
    forwarding,
    in_flight,
    loops,
    policy,
    selection,
    trials,
    usable,
)
from router.core.config import Selection
from router.core.cooldown import Standing
from tests.router.core import (
    test_admission,
    test_affinity,
    test_cooldown,
    test_forwarding,
    test_full_price,
    test_primary,
    test_selection,
    test_trials,
)
from tests.router.core.playbook import ManualClock, policy_of
from tests.router.core.worlds import drawn_world


def mutate(monkeypatch: pytest.MonkeyPatch, where: ModuleType, function: str, old: str, new: str) -> None:
    """Replace `old` by `new` in the source of one function or method, e.g. "Policy.again"."""
    owner: object = where
    *outer, name = function.split(".")
    for part in outer:
        owner = getattr(owner, part)
    found = inspect.getattr_static(owner, name)
    source = textwrap.dedent(inspect.getsource(getattr(found, "fget", found)))
    assert source.count(old) == 1, f"{function} has changed: {old!r} is not in it exactly once"
    scope: dict[str, object] = {}
    exec(source.replace(old, new), vars(where), scope)
    monkeypatch.setattr(owner, name, scope[name])


def worlds() -> None:
    """Run random worlds until one of them breaks a law."""
    draws = random.Random(2)
    for _ in range(400):
        drawn_world(draws, 40)


def too_late() -> None:
    """A request whose deadline has passed when it comes."""
    test_forwarding.test_no_first_send_after_the_deadline(policy_of("a"))


def resonance() -> None:
    """Two pools, one of them dead."""
    test_selection.test_a_dead_pool_gets_its_fair_share_of_first_sends_and_no_more(("a", "b"), 600, "a")


def bound_sessions() -> None:
    """Requests with and without a pin in turn."""
    test_selection.test_requests_that_are_bound_to_a_pool_leave_the_others_shares_equal()


def magnet() -> None:
    """A pool that refuses at once, chosen among by load."""
    test_selection.test_a_refusing_pool_is_no_magnet_with_the_failure_penalty_alone(
        Selection.LEAST_IN_FLIGHT, ("a", "b")
    )


def connect_bounds() -> None:
    """The deadline's halves."""
    clock = ManualClock()
    test_forwarding.test_the_first_connect_leaves_half_of_the_deadline_to_the_second(
        policy_of("a", "b", clock=clock), clock
    )


def hole() -> None:
    """A minute of a black hole at 50 requests a second."""
    test_full_price.test_a_minute_of_a_black_hole_costs_at_most_two_connect_timeouts_in_all(
        ManualClock(), Selection.ROUND_ROBIN, 50, 5.0
    )


def followers() -> None:
    """Connects that wait behind another."""
    test_full_price.test_a_followers_expiry_blames_nobody(policy_of("a", "b"))


def hurry() -> None:
    """A client with little time."""
    clock = ManualClock()
    test_full_price.test_a_client_in_a_hurry_benches_nothing(
        policy_of("a", "b", clock=clock), clock, 0.4, 0.2, Standing.IN_USE, wary=False
    )


def overtakers() -> None:
    """Newcomers while others wait."""
    test_admission.test_with_fifo_nobody_overtakes_those_that_wait(ManualClock())


def early_trials() -> None:
    """Everything is benched and a request waits."""
    clock = ManualClock()
    test_trials.test_while_requests_wait_the_benched_are_tried_before_their_rest_is_over(
        policy_of("a", "b", "c", clock=clock, config=test_trials.KNOBS), clock
    )


def slow_start() -> None:
    """A frontend that has just returned."""
    clock = ManualClock()
    test_cooldown.test_the_share_of_a_returned_frontend_rises_evenly(
        policy_of("a", "b", clock=clock, config=test_cooldown.KNOBS), clock
    )


def departures() -> None:
    """Clients that leave."""
    test_cooldown.test_clients_that_leave_bench_nobody(policy_of("a", "b"))


def pins() -> None:
    """Requests of one session that arrive together."""
    test_affinity.test_requests_that_arrive_together_stay_together_the_failover_included(policy_of("a", "b", "c"))


def timeouts() -> None:
    """A client's own hurry with primary and backup."""
    test_primary.test_a_clients_own_hurry_does_not_move_it(ManualClock())


Mutant = tuple[ModuleType, str, str, str, Callable[[], None]]
MUTANTS: dict[str, Mutant] = {
    # the rule
    "the slot counts as always full": (
        policy, "Policy._why_final", "outcome.delivery is not Delivery.UNSENT", "False", worlds,
    ),
    "the second choice may be the same pool": (policy, "Policy._without", "if c.pool.name != pool", "", worlds),
    "a third send": (policy, "Policy._why_final", "send.attempt > 1", "send.attempt > 2", worlds),
    "the budget is not asked": (policy, "Policy._why_final", "send.request.retries_left < 1", "False", worlds),
    "the deadline is not asked before the second send": (
        policy, "Policy._why_final", "now >= send.request.until_s", "False", worlds,
    ),
    "the deadline is not asked before the first send": (
        policy, "Policy.decide", "now >= request.until_s", "False", too_late,
    ),
    "the deadline is not asked after a wait": (
        policy, "Policy.woke", "now >= waiting.request.until_s", "False", worlds,
    ),
    "the wait is not bounded by the deadline": (
        policy, "Policy.decide", "min(request.until_s, now + self.config.patience_s)",
        "now + self.config.patience_s", worlds,
    ),
    "the first connect may use the whole deadline": (policy, "Policy._send", "left_s /= 2", "pass", connect_bounds),
    # leases
    "the lease is lost when the client leaves": (
        forwarding, "_attempt", "finally:\n        policy.release(send)",
        "finally:\n        _ = send.outcome and policy.release(send)", worlds,
    ),
    "the lease ends with the headers": (
        forwarding, "_attempt", "    end = yield", "    policy.release(send)\n        end = yield", worlds,
    ),
    "a lease is given back twice": (
        in_flight, "Lease.release", "self._ledger.give_back(self)",
        "self._ledger.give_back(self); self._ledger.give_back(self)", worlds,
    ),
    "the pool keeps what the frontend gave back": (
        in_flight, "Ledger.give_back", "pool.in_flight -= 1", "pass", worlds,
    ),
    "a send without an outcome is not counted": (policy, "Policy.release", "if send.outcome is None:", "if 0:", worlds),
    "a departure is not counted": (forwarding, "forward", "finally:", "except ZeroDivisionError:", worlds),
    # who waits
    "a place in the queue is lost when the client leaves": (
        forwarding, "_first", "policy.withdraw(waiting)", "pass", worlds,
    ),
    "whoever takes a send tells nobody": (admission, "WaitQueue.leave", "self._wake(line)", "pass", worlds),
    "nobody is told of a change": (policy, "Policy._changed", "self.queue.wake()", "pass", worlds),
    "newcomers overtake": (
        admission, "WaitQueue.must_join", "not self._lifo and model in self._lines", "False", overtakers,
    ),
    "the queue has no bound": (admission, "WaitQueue._fits", "self.count < self._count_max and", "", worlds),
    "bodies that wait have no bound": (
        admission, "WaitQueue._fits", "and self.body_bytes + waiting.request.body_bytes <= self._bytes_max", "", worlds,
    ),
    "a full pool takes sends": (in_flight, "Ledger.has_room", "<", "<=", worlds),
    # selection
    "first and second choices share a cursor": (
        selection, "RoundRobin.pool", "(model, second)", "(model, False)", resonance,
    ),
    "a session's requests turn the cursor": (
        policy, "Policy._choose", "pinned or self._selector.pool(group.model, candidates, second=second)",
        "[self._selector.pool(group.model, candidates, second=second), pinned][pinned is not None]", bound_sessions,
    ),
    "a failure improves the score": (selection, "_ByLoad._with_turns", "if not place.wary", "", magnet),
    # cooldown
    "a frontend on trial takes sends": (
        cooldown, "Cooldown.takes_sends", "Standing.SLOW_START)", "Standing.SLOW_START, Standing.ON_TRIAL)", worlds,
    ),
    "a permit is lost when the loop stops": (loops, "_try", "trial.give_up()", "pass", worlds),
    "everything is tried at the same time": (trials, "Trials._due", "and state not in held_up", "", worlds),
    "nobody is told that a trial has ended": (
        policy, "Policy._pools_changed", "self.trials.wake()", "pass", worlds,
    ),
    "nobody is told that a request waits": (policy, "Policy.decide", "self.trials.wake()", "pass", worlds),
    "the benched wait for the end of their rest": (trials, "Trials._due_s", "if any(", "if 0 and any(", early_trials),
    "an early trial that fails doubles the rest": (
        cooldown, "Cooldown.trial_was_bad", "if now >= self.until_s:", "if True:", early_trials,
    ),
    "a returned frontend takes all at once": (
        usable, "Usable._has_its_share", "self._rng.random() < share", "True", slow_start,
    ),
    "a departure counts as a failure": (
        policy, "Policy.release", "if send.outcome is None:",
        'if send.outcome is None:\n        self._learn(send.lease.state, Verdict.BAD, "left")', departures,
    ),
    # one full-price connect
    "every connect may wait its whole time": (
        in_flight, "Ledger.take", "if state not in self._connecting:", "if True:", worlds,
    ),
    "a pending connect is no reason to go elsewhere": (
        usable, "Usable._takes_sends", "and not self._ledger.is_suspect(state, now)", "", hole,
    ),
    "a connect that hung counts as one failure": (
        cooldown, "Cooldown._reason_to_bench", "verdict is Verdict.HANGS", "False", hole,
    ),
    "a follower's expiry counts": (
        policy, "Policy._send", "left_s), Verdict.NEUTRAL)", "left_s), Verdict.BAD)", followers,
    ),
    "a client's hurry counts": (policy, "Policy._send", "if left_s > config.slow_s", "if True", hurry),
    # affinity and primary
    "a pin is set only where a request lands": (affinity, "Pins.chosen", "else pool", "else None", pins),
    "a client's own deadline moves the primary": (
        policy, "_says_of_pool", "or not send.request.deadline_lowered", "or True", timeouts,
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> Iterator[None]:
    """Let collections below look at nothing but what these tests made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(
    "suite", dict.fromkeys(suite for *_, suite in MUTANTS.values()), ids=lambda suite: suite.__name__
)
def test_what_catches_mutants_is_green_without_them(suite: Callable[[], None]) -> None:
    suite()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, function, old, new, suite = MUTANTS[mutant]
    mutate(monkeypatch, where, function, old, new)
    with pytest.raises(AssertionError):
        suite()
    gc.collect()  # the ruins of a broken world fall here, not in the next test
