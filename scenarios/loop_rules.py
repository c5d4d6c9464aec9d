"""What must hold of a router's loops, and of the pools and faults that only they see."""

import itertools
from collections.abc import Iterator

from router.core.config import ConfigError, Selection
from scenarios.keys import nearest
from scenarios.loops import Discovery, ListTrouble, SwitchOrder
from scenarios.problem import Problem
from scenarios.spec import LOOP_FAULTS, Fault, Pool, Scenario

_LEAVES_OUT = ("incomplete", "lacks")
"""Troubles of the list that are about one pool."""


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield every broken rule."""
    router = scenario.router
    try:
        router.config()
    except ConfigError as wrong:
        yield Problem("router", str(wrong), "give another value")
    driven = bool(scenario.layers) and scenario.layers[-1].kind == "pooldrill"
    if not driven:
        for name in router.loops:
            what = "is modelled only for a layer of kind pooldrill"
            yield Problem(f"router.{name}", what, 'add [[layers]] with kind = "pooldrill", or leave it out')
    if router.discovery is not None:
        yield from _discovery(scenario, router.discovery)
    if router.switch is not None:
        yield from _switch(scenario, router.switch)
    for index, pool in enumerate(scenario.pools):
        yield from _pool(f"pools[{index}]", pool, scenario)
    for index, fault in enumerate(scenario.faults):
        yield from _fault(f"faults[{index}]", fault, scenario, driven=driven)


def why_not_real(scenario: Scenario) -> str:
    """Say what of a scenario no real router is put to yet; empty: nothing."""
    named = [f"router.{name}" for name in scenario.router.loops]
    named += [fault.kind for fault in scenario.faults if fault.kind in LOOP_FAULTS]
    return f"{named[0]} is modelled only" if named else ""


def _discovery(scenario: Scenario, discovery: Discovery) -> Iterator[Problem]:
    if all(pool.join_s > 0 for pool in scenario.pools):
        yield Problem("pools[0].join_s", "leaves no pool for the list at the start", "let one pool join at 0")
    for index, trouble in enumerate(discovery.troubles):
        yield from _trouble(f"router.discovery.troubles[{index}]", trouble, scenario)
    for (first, a), (second, b) in itertools.combinations(enumerate(discovery.troubles), 2):
        if a.inject_s < b.clear_s and b.inject_s < a.clear_s:
            what = f"overlaps troubles[{first}] ({a.inject_s:g} to {a.clear_s:g})"
            yield Problem(f"router.discovery.troubles[{second}]", what, "let one end before the next begins")


def _trouble(key: str, trouble: ListTrouble, scenario: Scenario) -> Iterator[Problem]:
    yield from _within(key, trouble.inject_s, trouble.clear_s, scenario)
    if trouble.kind not in _LEAVES_OUT:
        if trouble.pool is not None:
            yield Problem(f"{key}.pool", f"means nothing for {trouble.kind}", 'leave it out, or kind = "incomplete"')
    elif trouble.pool is None:
        yield Problem(f"{key}.pool", "is missing", "the pool that is left out of the list")
    else:
        yield from _known(f"{key}.pool", trouble.pool, scenario)


def _within(key: str, inject_s: float, clear_s: float, scenario: Scenario) -> Iterator[Problem]:
    if clear_s <= inject_s:
        yield Problem(f"{key}.clear_s", f"{clear_s:g} is not after inject_s {inject_s:g}", "clear it later")
    if clear_s > scenario.duration_s:
        what = f"{clear_s:g} is after the run's end at {scenario.duration_s:g}"
        yield Problem(f"{key}.clear_s", what, "clear it earlier, or raise duration_s")


def _known(key: str, pool: str, scenario: Scenario) -> Iterator[Problem]:
    known = [each.id for each in scenario.pools]
    if pool not in known:
        meant = nearest(pool, known)
        remedy = f"did you mean {meant}?" if meant else f"one of {', '.join(known)}"
        yield Problem(key, f"no pool is called {pool!r}", remedy)


def _switch(scenario: Scenario, order: SwitchOrder) -> Iterator[Problem]:
    yield from _known("router.switch.to", order.to, scenario)
    if scenario.router.selection is not Selection.PRIMARY_BACKUP:
        what = f"means nothing for selection {scenario.router.selection}: no pool has all the traffic"
        yield Problem("router.switch", what, 'selection = "primary_backup"')
    if order.at_s > scenario.duration_s:
        what = f"{order.at_s:g} is after the run's end at {scenario.duration_s:g}"
        yield Problem("router.switch.at_s", what, "order it earlier, or raise duration_s")


def _pool(key: str, pool: Pool, scenario: Scenario) -> Iterator[Problem]:
    leave_s = pool.leave_s
    for knob, value in (("join_s", pool.join_s or None), ("leave_s", leave_s)):
        if value is not None and scenario.router.discovery is None:
            yield Problem(
                f"{key}.{knob}", "means nothing for a router that is given its pools", "add [router.discovery]"
            )
    if leave_s is not None and leave_s <= pool.join_s:
        yield Problem(f"{key}.leave_s", f"{leave_s:g} is not after join_s {pool.join_s:g}", "let it leave later")


def _fault(key: str, fault: Fault, scenario: Scenario, *, driven: bool) -> Iterator[Problem]:
    if fault.kind in LOOP_FAULTS and not driven:
        what = f"{fault.kind} means nothing without a router whose loops see it"
        yield Problem(f"{key}.kind", what, 'add [[layers]] with kind = "pooldrill"')
    if fault.kind != "clock_offset":
        return
    if not fault.offset_s:
        yield Problem(f"{key}.offset_s", "is missing or 0", "how far the pool's clock is ahead, such as 40.0")
    if scenario.router.drift is None:
        yield Problem(f"{key}.kind", "clock_offset is seen by nothing", "add [router.drift]")
