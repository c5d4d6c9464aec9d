"""Routers that are wrong on purpose: the worlds find each, by the law that is meant for it.

What the worlds do not catch here they would not catch in a real fault either.
"""

from collections.abc import Callable

import pytest
from aiohttp import web

from router.body import BodySlot
from router.core.bounds import NEVER, Bounds, Phase
from router.core.delivery import Cause
from router.core.effects import Send
from router.core.policy import Policy
from router.core.roster import Roster
from router.core.topology import Catalog
from tests.mutants import second_choice_same_pool, slot_always_full
from tests.virtual.draw import world_of
from tests.virtual.shorten import breaches_of, report, shortest

WORLDS_MAX = 1_000
Patch = pytest.MonkeyPatch


def slot_is_always_full(patch: Patch) -> None:
    """Whatever failed was never sent; and the body is still there to be sent again."""

    def take(slot: BodySlot) -> bytes:
        assert slot._body is not None
        return slot._body

    patch.setattr(slot_always_full.TARGET, slot_always_full.mutated)
    patch.setattr(BodySlot, "take", take)


def second_choice_may_be_the_same_pool(patch: Patch) -> None:
    patch.setattr(second_choice_same_pool.TARGET, second_choice_same_pool.mutated)


def a_departure_keeps_its_lease(patch: Patch) -> None:
    release = Policy.release

    def only_what_has_an_outcome(policy: Policy, send: Send) -> None:
        if send.outcome is not None:
            release(policy, send)

    patch.setattr(Policy, "release", only_what_has_an_outcome)


def a_broken_answer_ends_cleanly(patch: Patch) -> None:
    def as_if_it_were_whole(request: web.BaseRequest, _: web.StreamResponse) -> None:
        assert request.transport is not None
        request.transport.write(b"0\r\n\r\n")

    patch.setattr("router.chat.break_off", as_if_it_were_whole)


def a_new_list_of_pools_forgets_what_is_under_way(patch: Patch) -> None:
    publish = Roster.publish

    def as_if_nobody_was_known(roster: Roster, catalog: Catalog) -> None:
        roster.states, roster._leaving, roster._pools = {}, [], {}
        publish(roster, catalog)

    patch.setattr(Roster, "publish", as_if_nobody_was_known)


def a_silent_pool_is_waited_for_without_bound(patch: Patch) -> None:
    after = Bounds.next

    def next_but_the_head(bounds: Bounds, phase: Phase, since_s: float) -> tuple[float, Cause]:
        return (NEVER, Cause.DEADLINE) if phase is Phase.HEAD else after(bounds, phase, since_s)

    patch.setattr(Bounds, "next", next_but_the_head)


MUTANTS: list[tuple[Callable[[Patch], None], str]] = [
    (slot_is_always_full, "never_twice"),
    (second_choice_may_be_the_same_pool, "sends_are_lawful"),
    (a_departure_keeps_its_lease, "no_leases"),
    (a_broken_answer_ends_cleanly, "answers_are_exact"),
    (a_new_list_of_pools_forgets_what_is_under_way, "counts_are_true"),
    (a_silent_pool_is_waited_for_without_bound, "every_request_ends"),
]


@pytest.mark.parametrize(("mutate", "law"), MUTANTS, ids=[mutate.__name__ for mutate, _ in MUTANTS])
def test_the_worlds_find_it(mutate: Callable[[Patch], None], law: str, monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    for seed in range(WORLDS_MAX):
        if any(breach.startswith(f"{law}:") for breach in breaches_of(world_of(seed))):
            return
    pytest.fail(f"{WORLDS_MAX} worlds, and none of them breaks {law}")


def test_what_is_found_is_shown_by_few_events_that_break_the_same_law(monkeypatch: Patch) -> None:
    """The twice-sent body needs one request and one thing that befalls it; all else of its world is left out."""
    slot_is_always_full(monkeypatch)
    for seed in range(WORLDS_MAX):
        breaches = [breach for breach in breaches_of(world_of(seed)) if breach.startswith("never_twice:")]
        if breaches:
            break
    world, numbers = shortest(world_of(seed), breaches)
    assert 1 <= len(numbers) <= 4 < len(world_of(seed).events)
    assert any(breach.startswith("never_twice:") for breach in breaches_of(world))
    assert f"rerun {seed} --keep {','.join(map(str, numbers))}" in report(seed, world, numbers, breaches)
