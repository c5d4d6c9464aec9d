"""From what happened in the model to the record of the run.

Rows stand kind by kind and in the order of a real run's: operations and requests in the order of arrival, counters by
name, all others in the order in which they happened. Times are rounded to the nanosecond: finer digits are only binary
dust.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from platform import python_version
from typing import Final

import msgspec

from router.core.policy import Policy
from router.core.tally import Tally
from scenarios.plan import Planned
from scenarios.record import Fault, Meta, Metric, Record, Row, Sample
from scenarios.spec import Scenario
from simulator.journal import Journal

_DIGITS: Final = 9


def collect(
    scenario: Scenario, planned: Sequence[Planned], journal: Journal, faults: Iterable[Fault], policy: Policy
) -> Record:
    """Return the record of a run that has ended: nothing moves any more."""
    turn = {operation.operation_id: place for place, operation in enumerate(planned)}
    operations = sorted(journal.operations, key=lambda row: turn[row.operation_id])
    requests = sorted(journal.requests, key=lambda row: (turn[row.operation_id], row.attempt))
    sends = sorted(journal.sends, key=lambda row: (row.t_start, row.request_id, row.attempt))
    end_s = max([scenario.duration_s, *(row.t_end for row in operations)])
    samples = (Sample(kind="in_flight", source=pool, value=float(n), t=end_s) for pool, n in policy.in_flight().items())
    metrics = metrics_of([policy.tally])
    rows: list[Row] = [*operations, *requests, *sends, *journal.pool_events, *faults, *samples]
    return Record(meta_of(scenario), [*map(_rounded, rows), *metrics])


def meta_of(scenario: Scenario) -> Meta:
    """Return the first row of a modelled run's record."""
    return Meta(
        scenario=scenario,
        seed=scenario.seed,
        mode="simulated",
        router="reference",
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"python": python_version(), "simpy": metadata.version("simpy"), "pooldrill": _own_version()},
    )


def _own_version() -> str:
    try:
        return metadata.version("pooldrill")
    except metadata.PackageNotFoundError:
        return "not installed"  # run from a bare checkout


def _rounded(row: Row) -> Row:
    times = {name: getattr(row, name) for name in row.__struct_fields__}
    rounded = {name: round(value, _DIGITS) for name, value in times.items() if isinstance(value, float)}
    return msgspec.structs.replace(row, **rounded)


def metrics_of(tallies: Iterable[Tally]) -> list[Metric]:
    """Return the counters of all routers together, under the names and labels of their metrics, by name."""
    sums: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for tally in tallies:
        for name, labels, count in _counts(tally):
            sums[name, labels] += count
    return [
        Metric(name=name, labels=dict(labels), value=float(count)) for (name, labels), count in sorted(sums.items())
    ]


def _counts(tally: Tally) -> Iterator[tuple[str, tuple[tuple[str, str], ...], int]]:
    for (pool, outcome), count in tally.sends.items():
        yield "requests_total", (("outcome", outcome), ("pool", pool)), count
    for (code, sends), count in tally.client_requests.items():
        yield "client_requests_total", (("code", code), ("sends", str(sends))), count
    for (first, second), count in tally.failovers.items():
        yield "failovers_total", (("from", first), ("to", second)), count
    for reason, count in tally.failovers_refused.items():
        yield "failovers_refused_total", (("reason", str(reason)),), count
