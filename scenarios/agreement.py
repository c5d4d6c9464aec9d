"""Whether model and reality agree about one scenario.

Exact scenarios must be equal attempt by attempt. In the others whatever is in flight when a fault comes or goes may
fall to either side, so counts may differ by SLACK_PER_EDGE for each edge of a fault; and whoever finds a queue full by
a hair in one run may find it free in the other, so they may differ by a share of the operations where a queue is
bounded. A few answers of one kind may so be there in one run only, if the scenario allows that kind. Latencies are not
judged.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from scenarios.fitness import unfit
from scenarios.record import Record
from scenarios.rules import bounds
from scenarios.spec import Scenario
from scenarios.verdict import Verdict, failed, named, undecided, verdict_of

SLACK_PER_EDGE = 2
"""By how much a count may differ for each time that a fault comes or goes."""

SLACK_OF_QUEUES = 0.02
"""By how much a count may differ where a queue is bounded, as a share of the operations; at least by one."""

Agreement = Callable[[Record, Record], Verdict]
"""(real, simulated) -> Verdict."""


def same_operations(real: Record, simulated: Record) -> Verdict:
    """Both runs are of one scenario with one seed, and made the same operations."""
    if (real.meta.scenario, real.meta.seed) != (simulated.meta.scenario, simulated.meta.seed):
        return failed("the two records are of different scenarios or seeds")
    both = [{operation.operation_id for operation in record.operations} for record in (real, simulated)]
    if not all(both):
        return undecided("a record has no operations")
    wrong = [f"only in the real run: {named(sorted(both[0] - both[1]))}"] if both[0] - both[1] else []
    wrong += [f"only in the model: {named(sorted(both[1] - both[0]))}"] if both[1] - both[0] else []
    return verdict_of(wrong, f"{len(both[0])} operations in both runs")


def same_attempts(real: Record, simulated: Record) -> Verdict:
    """As many sends per pool, attempt, delivery, cause and status."""
    if not real.sends or not simulated.sends:
        return undecided("a record has no sends")
    counts = [
        Counter((send.pool, f"attempt {send.attempt}", *map(_shown, send.outcome)) for send in record.sends)
        for record in (real, simulated)
    ]
    return verdict_of(_apart(*counts, slack=0), f"{counts[0].total()} sends of {len(counts[0])} kinds")


def same_requests(real: Record, simulated: Record) -> Verdict:
    """Each single request went the same way: attempt, pool, delivery, cause and status of each of its sends."""
    if not real.sends or not simulated.sends:
        return undecided("a record has no sends")
    ways = [_ways(record) for record in (real, simulated)]
    return verdict_of(_different(*ways), f"{len(ways[0])} requests went the same way")


def same_answers(real: Record, simulated: Record) -> Verdict:
    """Each single request got the same answer."""
    if not real.requests or not simulated.requests:
        return undecided("a record has no requests")
    answers = [{r.request_id: r.answer for r in record.requests} for record in (real, simulated)]
    return verdict_of(_different(*answers), f"{len(answers[0])} requests got the same answer")


def same_outcomes(real: Record, simulated: Record) -> Verdict:
    """What clients saw in one run they saw in the other too, but for what a fault edge made of a few requests."""
    if not real.requests or not simulated.requests:
        return undecided("a record has no requests")
    seen = [Counter(request.answer for request in record.requests) for record in (real, simulated)]
    wrong = [
        f"{a}: {seen[0][a]} in the real run, {seen[1][a]} in the model"
        for a in sorted(seen[0].keys() ^ seen[1].keys())
        if max(seen[0][a], seen[1][a]) > _slack(real.scenario) or not _allowed(real.scenario, a)
    ]
    return verdict_of(wrong, named(sorted(seen[0].keys() | seen[1].keys())))


def counts_close(real: Record, simulated: Record) -> Verdict:
    """Answers, and sends per pool and outcome, are as many in both runs, but for what is in flight at fault edges."""
    if not real.requests or not simulated.requests or not real.sends or not simulated.sends:
        return undecided("a record has no requests or no sends")
    slack = _slack(real.scenario)
    answers = [Counter((request.answer,) for request in record.requests) for record in (real, simulated)]
    sends = [Counter((send.pool, *map(_shown, send.outcome)) for send in record.sends) for record in (real, simulated)]
    wrong = [*_apart(*answers, slack=slack), *_apart(*sends, slack=slack)]
    return verdict_of(wrong, f"{len(answers[0])} kinds of answers, {len(sends[0])} of sends, within {slack}")


def _slack(scenario: Scenario) -> int:
    bounded = any(pool.queue_max is not None for pool in scenario.pools)
    operations = sum(load.rate_rps * (load.end_s - load.start_s) for load in scenario.load)
    return SLACK_PER_EDGE * 2 * len(scenario.faults) + (max(1, round(SLACK_OF_QUEUES * operations)) if bounded else 0)


def _allowed(scenario: Scenario, answer: str) -> bool:
    return bounds(scenario.expect.answers.get(answer))[1] > 0


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _apart(real: Counter[Any], simulated: Counter[Any], *, slack: int) -> Iterator[str]:
    for kind in sorted(real.keys() | simulated.keys()):
        if abs(real[kind] - simulated[kind]) > slack:
            yield f"{' '.join(filter(None, kind))}: {real[kind]} in the real run, {simulated[kind]} in the model"


def _ways(record: Record) -> dict[str, tuple[str, ...]]:
    ways: dict[str, list[str]] = defaultdict(list)
    for send in sorted(record.sends, key=lambda send: send.attempt):
        ways[send.request_id].append(" ".join(filter(None, map(_shown, (send.attempt, send.pool, *send.outcome)))))
    return {request_id: tuple(way) for request_id, way in ways.items()}


def _different(real: Mapping[str, Hashable], simulated: Mapping[str, Hashable]) -> Iterator[str]:
    for request_id in sorted(real.keys() | simulated.keys()):
        if real.get(request_id) != simulated.get(request_id):
            told = (_told(way.get(request_id)) for way in (real, simulated))
            yield f"{request_id}: {' in the real run, '.join(told)} in the model"


def _told(way: Hashable) -> str:
    if way is None:
        return "nothing"
    return ", then ".join(way) if isinstance(way, tuple) else str(way)


AGREEMENT: dict[str, Agreement] = {
    check.__name__: check
    for check in (same_operations, same_attempts, same_requests, same_answers, same_outcomes, counts_close)
}
"""Every check of two records, by name."""

_EXACT = ("same_operations", "same_attempts", "same_requests", "same_answers")
_LOOSE = ("same_operations", "same_outcomes", "counts_close")


def agreement_for(scenario: Scenario) -> dict[str, Agreement]:
    """Return the checks of agreement that a scenario asks for."""
    return {name: AGREEMENT[name] for name in (_EXACT if scenario.exact else _LOOSE)}


def agree(real: Record, simulated: Record) -> dict[str, Verdict]:
    """Run every check of agreement that the scenario asks for. With an unfit run nothing is judged."""
    checks = agreement_for(real.scenario)
    for record in (real, simulated):
        if why := unfit(record):
            return dict.fromkeys(checks, undecided(f"the {record.meta.mode} run is invalid: {why}"))
    if (real.meta.mode, simulated.meta.mode) != ("real", "simulated"):
        return dict.fromkeys(checks, undecided(f"given were a {real.meta.mode} and a {simulated.meta.mode} run"))
    return {name: check(real, simulated) for name, check in checks.items()}
