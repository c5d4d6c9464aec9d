"""What must hold in a scenario beyond the types of its keys: rules that name two things, or a thing and the clock."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator

from router.core.refusal import STATUS, Code
from scenarios import chain_rules
from scenarios.keys import nearest
from scenarios.plan import Planned, first_connect_max_s, plan
from scenarios.problem import Problem
from scenarios.spec import Fault, Load, Pool, Scenario

OPERATIONS_MAX = 20_000
"""Operations of one scenario; a real run of more would be a load test."""
MODELLED_OPERATIONS_MAX = 500_000
"""Operations of a scenario that is only modelled; a record of more would not fit into memory."""

WORDS = ("break", "reset", "error_frame", "eof_no_done", "client_left", "refused", "timeout")
"""Answers that are not a status: how a client's request can end otherwise (record.Request.answer)."""


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield every broken rule. The later rules make sense only while the earlier ones hold."""
    simple = [*_texts(scenario), *_pools(scenario), *_load(scenario), *_faults(scenario), *_answers(scenario)]
    simple += chain_rules.problems(scenario)
    if simple:
        yield from simple
        return
    planned = plan(scenario)
    yield from _arrivals(scenario, planned)
    yield from _met(scenario, planned)
    if not scenario.layers:  # what waits in queues, or is sent again by any layer, no sum of its own times can tell
        yield from _room(scenario, planned)
        yield from _total(scenario, planned)


def serves(scenario: Scenario, load: Load) -> list[Pool]:
    """Return the pools that an operation of this load can be sent to."""
    return [pool for pool in scenario.pools if pool.model == load.model]


def _texts(scenario: Scenario) -> Iterator[Problem]:
    texts = {"name": scenario.name, "title": scenario.title}
    texts |= {f"pools[{index}].id": pool.id for index, pool in enumerate(scenario.pools)}
    texts |= {f"pools[{index}].model": pool.model for index, pool in enumerate(scenario.pools)}
    for key, text in texts.items():
        if not text.isprintable():
            yield Problem(
                key, f"is {text!r}, which is more than one line of text", "one line without control characters"
            )


def _pools(scenario: Scenario) -> Iterator[Problem]:
    counts = Counter(pool.id for pool in scenario.pools)
    for index, pool in enumerate(scenario.pools):
        if counts[pool.id] > 1:
            yield Problem(
                f"pools[{index}].id", f"{pool.id!r} is used {counts[pool.id]} times", "give each pool its own id"
            )


def _load(scenario: Scenario) -> Iterator[Problem]:
    for index, load in enumerate(scenario.load):
        key = f"load[{index}]"
        if load.end_s <= load.start_s:
            yield Problem(f"{key}.end_s", f"{load.end_s:g} is not after start_s {load.start_s:g}", "end it later")
        if load.end_s > scenario.duration_s:
            what = f"{load.end_s:g} is after the run's end at {scenario.duration_s:g}"
            yield Problem(f"{key}.end_s", what, "end it earlier, or raise duration_s")
        if not serves(scenario, load):
            models = ", ".join(sorted({pool.model for pool in scenario.pools}))
            yield Problem(f"{key}.model", f"no pool serves {load.model!r}", f"one of {models}")
    operations = sum(load.rate_rps * max(0.0, load.end_s - load.start_s) for load in scenario.load)
    most = MODELLED_OPERATIONS_MAX if scenario.model_only else OPERATIONS_MAX
    if operations > most:
        yield Problem("load", f"makes about {operations:.0f} operations, more than {most}", "lower rate_rps")


def _faults(scenario: Scenario) -> Iterator[Problem]:
    for index, fault in enumerate(scenario.faults):
        key = f"faults[{index}]"
        pool = next((pool for pool in scenario.pools if pool.id == fault.pool), None)
        if pool is None:
            known = [pool.id for pool in scenario.pools]
            meant = nearest(fault.pool, known)
            remedy = f"did you mean {meant}?" if meant else f"one of {', '.join(known)}"
            yield Problem(f"{key}.pool", f"no pool is called {fault.pool!r}", remedy)
            continue
        if fault.clear_s <= fault.inject_s:
            what = f"{fault.clear_s:g} is not after inject_s {fault.inject_s:g}"
            yield Problem(f"{key}.clear_s", what, "clear it later")
        if fault.clear_s > scenario.duration_s:
            what = f"{fault.clear_s:g} is after the run's end at {scenario.duration_s:g}"
            yield Problem(f"{key}.clear_s", what, "clear it earlier, or raise duration_s")
        yield from _after_events(key, fault, pool)
    yield from _overlaps(scenario)


def _after_events(key: str, fault: Fault, pool: Pool) -> Iterator[Problem]:
    key = f"{key}.after_events"
    if fault.kind != "cut":
        if fault.after_events is not None:
            yield Problem(key, f"means nothing for {fault.kind}", 'leave it out, or kind = "cut"')
    elif fault.after_events is None:
        yield Problem(key, "is missing", f"after how many events to cut, 1 to {pool.service.tokens - 1}")
    elif fault.after_events >= pool.service.tokens:
        what = f"{fault.after_events} would cut nothing: an answer of {pool.id} has {pool.service.tokens} tokens"
        yield Problem(key, what, f"less than {pool.service.tokens}, or raise service.tokens")


def _overlaps(scenario: Scenario) -> Iterator[Problem]:
    for (first, a), (second, b) in itertools.combinations(enumerate(scenario.faults), 2):
        clocks = (a.kind == "clock_offset", b.kind == "clock_offset")  # stand beside whatever else a pool has
        if a.pool == b.pool and clocks[0] == clocks[1] and a.inject_s <= b.clear_s and b.inject_s <= a.clear_s:
            what = f"overlaps faults[{first}] on {a.pool} ({a.inject_s:g} to {a.clear_s:g})"
            yield Problem(f"faults[{second}]", what, "let one end before the next begins, or take another pool")


def _answers(scenario: Scenario) -> Iterator[Problem]:
    ranges = {f"expect.answers.{name}": count for name, count in scenario.expect.answers.items()}
    for name in scenario.expect.answers:
        yield from _answer(name)
    if not (scenario.expect.answers or scenario.layers):
        yield Problem("expect.answers", "is empty", 'say what must come out, such as "200" = 10')
    named = {"expect.failovers": scenario.expect.failovers, "expect.sdk_resends": scenario.expect.sdk_resends}
    for key, count in {**ranges, **named}.items():
        low, high = bounds(count)
        if count is not None and (low < 0 or high < low):
            yield Problem(
                key, f"{count if isinstance(count, int) else list(count)} is no count", "[low, high], 0 <= low <= high"
            )


def _answer(name: str) -> Iterator[Problem]:
    key = f"expect.answers.{name}"
    found = re.fullmatch(r"([1-5]\d\d)(?: ([a-z][a-z0-9_]*))?", name)
    if found is None:
        if name not in WORDS:
            meant = nearest(name, [*WORDS, *(f"{status} {code}" for code, status in STATUS.items())])
            remedy = f"did you mean {meant}?" if meant else f'"200", "503 maybe_running", or one of {", ".join(WORDS)}'
            yield Problem(key, "no answer looks like this", remedy)
    elif found[2] in tuple(Code) and STATUS[Code(found[2])] != int(found[1]):
        yield Problem(key, f"{found[2]} never has status {found[1]}", f"{STATUS[Code(found[2])]} {found[2]}")


def bounds(count: int | tuple[int, int] | None) -> tuple[int, int]:
    """Return lowest and highest count that an expectation allows; none given: nothing may happen."""
    if count is None:
        return (0, 0)
    return (count, count) if isinstance(count, int) else count


def _arrivals(scenario: Scenario, planned: list[Planned]) -> Iterator[Problem]:
    made = {operation.load for operation in planned}
    for index, load in enumerate(scenario.load):
        if index not in made:
            what = f"no operation arrives between {load.start_s:g} and {load.end_s:g} s"
            yield Problem(f"load[{index}].rate_rps", what, "raise it, or end_s")


def _met(scenario: Scenario, planned: list[Planned]) -> Iterator[Problem]:
    """Ask that something meets each fault, and that a cut, which counts events, meets streams only."""
    for index, fault in enumerate(scenario.faults):
        meeting = [scenario.load[operation.load] for operation in during(scenario, planned, fault)]
        what = f"no operation for {fault.pool} arrives while the fault is on"
        if not meeting:
            yield Problem(f"faults[{index}]", what, "move a load into it, or the fault")
        elif fault.kind == "cut" and not all(load.stream for load in meeting):
            what = "cuts after events, but a load that meets it is not streamed"
            yield Problem(f"faults[{index}]", what, "stream = true in every [[load]] that meets it")


def during(scenario: Scenario, planned: list[Planned], fault: Fault) -> list[Planned]:
    """Return the operations that arrive while a fault is on and that its pool could get."""
    model = next(pool.model for pool in scenario.pools if pool.id == fault.pool)
    return [
        operation
        for operation in planned
        if fault.inject_s <= operation.t_s <= fault.clear_s and scenario.load[operation.load].model == model
    ]


def nominal_end_s(scenario: Scenario, operation: Planned, *, pool: Pool | None = None) -> float:
    """Return when an operation's first request is over at the latest, at one pool or wherever it may go.

    Counts one whole connect time-out if a black hole could have held it first. No retries of a client.
    """
    load = scenario.load[operation.load]
    pools = serves(scenario, load) if pool is None else [pool]
    held = any(
        fault.kind == "black_hole"
        and fault.pool != (pool.id if pool else None)
        and operation in during(scenario, [operation], fault)
        for fault in scenario.faults
    )
    wait_s = first_connect_max_s(scenario.router) if held else 0.0
    return operation.t_s + wait_s + max(p.service.total_s for p in pools)


def _room(scenario: Scenario, planned: list[Planned]) -> Iterator[Problem]:
    last_s = max(nominal_end_s(scenario, operation) for operation in planned)
    if round(last_s, 6) > scenario.duration_s:
        what = f"{scenario.duration_s:g} ends the run before its last operation, which takes until {last_s:.2f}"
        yield Problem("duration_s", what, f"at least {enough(last_s)}, or end the load earlier")


def enough(bound_s: float) -> str:
    """Write a lower bound in hundredths of a second, rounded up so that taking it is enough."""
    return f"{math.ceil(bound_s * 100 - 1e-6) / 100:g}"


def _total(scenario: Scenario, planned: list[Planned]) -> Iterator[Problem]:
    """Compare what is expected in all with what is sent: the operations, and what clients send again."""
    spans = [bounds(count) for count in scenario.expect.answers.values()]
    low, high = sum(span[0] for span in spans), sum(span[1] for span in spans)
    extra = _resends(scenario, planned)
    if len(planned) + extra[1] < low or len(planned) + extra[0] > high:
        counted = f"{low}" if low == high else f"{low} to {high}"
        sent = f"{len(planned)} operations" + (
            f" with {extra[0]} to {extra[1]} requests sent again" if extra[1] else ""
        )
        yield Problem("expect.answers", f"adds up to {counted} answers, but the load makes {sent}", "make them add up")


def _resends(scenario: Scenario, planned: list[Planned]) -> tuple[int, int]:
    if scenario.expect.sdk_resends is not None:
        return bounds(scenario.expect.sdk_resends)
    loads = (scenario.load[operation.load] for operation in planned)
    return (0, sum(load.max_retries for load in loads if load.client == "openai"))
