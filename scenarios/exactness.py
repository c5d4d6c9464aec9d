"""Whether a scenario can be exact: real and modelled run equal attempt by attempt.

They can only be equal if nothing hangs on which of two things comes first by a hair. So fault edges keep
EXACT_MARGIN_S from every arrival and every answer, arrivals keep EXACT_SPACING_S from one another, nothing ends by a
time-out that could as well not have come, and no client draws random waits.
"""

import itertools
from collections.abc import Iterator

from scenarios.plan import Planned, first_connect_max_s, plan
from scenarios.problem import Problem
from scenarios.rules import during, enough, nominal_end_s
from scenarios.spec import EXACT_MARGIN_S, Fault, Pool, Scenario

EXACT_SPACING_S = 0.05
"""What keeps the order of two arrivals on a busy machine, and so the turn of every round-robin cursor."""

_ROUNDING_S = 1e-9
"""Decimal fractions of a second are not exact in binary: 1.3 - 1.1 is a hair less than 0.2."""


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield every reason why `exact = true` cannot hold; asks for a scenario without other problems.

    First what must be planned otherwise, load and faults; then what could be mended at other places too.
    """
    random = list(_random(scenario))
    if random:
        yield from random
        return
    planned = plan(scenario)
    faults = [(f"faults[{index}]", fault, _pool(scenario, fault)) for index, fault in enumerate(scenario.faults)]
    able = {pool.id: [o for o in planned if scenario.load[o.load].model == pool.model] for _, _, pool in faults}
    for key, fault, pool in faults:
        yield from _edges(key, fault, able[pool.id])
    yield from _resends(scenario)
    for key, fault, pool in faults:
        yield from _idle(scenario, key, fault, pool, able[pool.id])
        yield from _pending(scenario, key, fault, able[pool.id])
    yield from _order(scenario, planned)
    yield from _timeouts(scenario, planned)


def _pool(scenario: Scenario, fault: Fault) -> Pool:
    return next(pool for pool in scenario.pools if pool.id == fault.pool)


def _random(scenario: Scenario) -> Iterator[Problem]:
    for index, load in enumerate(scenario.load):
        if load.arrivals != "even":
            remedy = 'arrivals = "even", or exact = false'
            yield Problem(f"load[{index}].arrivals", f"{load.arrivals} arrivals cannot be exact", remedy)
    for index, pool in enumerate(scenario.pools):
        if pool.service.kind not in ("tokens", "deterministic"):
            what = f"{pool.service.kind} cannot be exact: how long an answer takes is not known beforehand"
            yield Problem(f"pools[{index}].service.kind", what, 'kind = "tokens", or exact = false')
        if pool.slots is not None:
            what = "cannot be exact: who waits, and who is rejected, turns on who came first"
            yield Problem(f"pools[{index}].slots", what, "leave it out, or exact = false")


def _resends(scenario: Scenario) -> Iterator[Problem]:
    for load in scenario.load:
        if load.client == "openai" and load.max_retries > 0 and scenario.expect.sdk_resends != 0:
            what = "is not 0, but the SDK draws its waits at random, so what it sends again cannot be exact"
            yield Problem("expect.sdk_resends", what, "sdk_resends = 0, or max_retries = 0, or exact = false")


def _edges(key: str, fault: Fault, able: list[Planned]) -> Iterator[Problem]:
    for edge, at_s in (("inject_s", fault.inject_s), ("clear_s", fault.clear_s)):
        near = min(able, key=lambda operation: abs(operation.t_s - at_s))
        if abs(near.t_s - at_s) < EXACT_MARGIN_S - _ROUNDING_S:
            what = f"{at_s:g} is within {EXACT_MARGIN_S:g} s of the arrival of {near.operation_id} at {near.t_s:g}"
            yield Problem(
                f"{key}.{edge}", what, "end one [[load]] before it and begin another after it, or exact = false"
            )


def _idle(scenario: Scenario, key: str, fault: Fault, pool: Pool, able: list[Planned]) -> Iterator[Problem]:
    """Ask that the pool is idle when the fault comes, and when a cut, which lets streams run, goes."""
    edges = [("inject_s", fault.inject_s)] + ([("clear_s", fault.clear_s)] if fault.kind == "cut" else [])
    for edge, at_s in edges:
        ends = [nominal_end_s(scenario, operation, pool=pool) for operation in able if operation.t_s < at_s]
        if ends and max(ends) + EXACT_MARGIN_S > at_s + _ROUNDING_S:
            what = f"{at_s:g} is not {EXACT_MARGIN_S:g} s after the last answer of {pool.id}, at {max(ends):.2f}"
            yield Problem(f"{key}.{edge}", what, "end the load before it earlier, or exact = false")


def _pending(scenario: Scenario, key: str, fault: Fault, able: list[Planned]) -> Iterator[Problem]:
    """Ask that no connect is pending when a black hole goes: the kernel might complete it, or not.

    Connects that hang are made again by the kernel 1, 2, 3 s after the first; what such a one meets is chance.
    """
    if fault.kind == "black_hole":
        last_s = max(operation.t_s for operation in during(scenario, able, fault))
        free_s = last_s + first_connect_max_s(scenario.router) + EXACT_MARGIN_S
        if free_s > fault.clear_s + _ROUNDING_S:
            what = f"{fault.clear_s:g} comes while a connect may be pending, until {free_s:.2f}"
            yield Problem(f"{key}.clear_s", what, "clear it later, or end the load before it earlier, or exact = false")


def _order(scenario: Scenario, planned: list[Planned]) -> Iterator[Problem]:
    """Ask that first choices, and second choices among themselves, cannot change places."""
    firsts = [(operation.t_s, operation) for operation in planned]
    seconds = [(t_s, operation) for operation in planned for t_s in _second_choices(scenario, operation)]
    for times in (sorted(firsts), sorted(seconds)):
        for (a_s, a), (b_s, b) in itertools.pairwise(times):
            if a != b and b_s - a_s < EXACT_SPACING_S - _ROUNDING_S:
                what = f"{a.operation_id} and {b.operation_id} choose a pool within {EXACT_SPACING_S:g} s, at {a_s:.3f}"
                yield Problem(f"load[{b.load}]", what, "lower rate_rps, or move start_s, or exact = false")
                return


def _second_choices(scenario: Scenario, operation: Planned) -> set[float]:
    """Return when an operation may choose its second pool: at once, or after a connect that hung."""
    waits = {"refused": 0.0, "black_hole": first_connect_max_s(scenario.router)}
    met = (fault.kind for fault in scenario.faults if during(scenario, [operation], fault))
    return {operation.t_s + waits[kind] for kind in met if kind in waits}


def _timeouts(scenario: Scenario, planned: list[Planned]) -> Iterator[Problem]:
    for operation in planned:
        takes_s = nominal_end_s(scenario, operation) - operation.t_s + EXACT_MARGIN_S
        limits = {
            f"load[{operation.load}].timeout_s": scenario.load[operation.load].timeout_s,
            "router.deadline_s": scenario.router.deadline_s,
        }
        for key, limit_s in limits.items():
            if limit_s < takes_s:
                what = f"{limit_s:g} could end {operation.operation_id}, which takes {takes_s:.2f} s with its margin"
                yield Problem(key, what, f"at least {enough(takes_s)}, or exact = false")
                return
    for index, pool in enumerate(scenario.pools):
        if pool.service.token_gap_s + EXACT_MARGIN_S > scenario.router.idle_timeout_s:
            what = f"{scenario.router.idle_timeout_s:g} is too near to the gap between tokens of pools[{index}]"
            yield Problem("router.idle_timeout_s", what, "raise it, or exact = false")
