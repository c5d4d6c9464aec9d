"""What all runs of one timeline share: axes, bins of time, strips, kinds of marks. So what looks equal is equal."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reports.measures import Answer, Run

STRIPS_MAX = 6
"""Pools that get a strip of their own; the table has them all."""
BINS_MAX = 30

_BIN_WIDTHS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0)


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal intervals of time, `width_s` long. One edge is at `from_s`, where the first fault was planned."""

    width_s: float
    from_s: float

    def place(self, at_s: float) -> int:
        """Return the number of the bin that a moment falls in; those before `from_s` are negative."""
        return math.floor((at_s - self.from_s) / self.width_s + 1e-9)

    def start_s(self, place: int) -> float:
        """Return where a bin starts."""
        return self.from_s + place * self.width_s

    def sends(self, run: Run, pool: str) -> Counter[tuple[str, int]]:
        """Count a pool's sends: (delivery, bin) -> sends."""
        return Counter((send.delivery, self.place(send.t_start)) for send in run.record.sends if send.pool == pool)


@dataclass(frozen=True, slots=True)
class Scale:
    """Ends of the axes, and what is drawn."""

    end_s: float
    latency_max_s: float
    bins: Bins
    sends_max: int
    pools: tuple[str, ...]
    hidden_pools: int
    answers: tuple[Answer, ...]
    deliveries: tuple[str, ...]


def scale_of(runs: Sequence[Run]) -> Scale:
    """Choose a scale that fits all runs."""
    end_s = max(_end(run) for run in runs)
    width_s = next((width for width in _BIN_WIDTHS_S if end_s / width <= BINS_MAX), end_s / BINS_MAX)
    bins = Bins(width_s, min((fault.planned_inject for run in runs for fault in run.record.faults), default=0.0))
    pools, hidden = _pools(runs)
    return Scale(
        end_s=end_s,
        latency_max_s=max((mark.latency_s for run in runs for mark in run.marks), default=0.0) or 1.0,
        bins=bins,
        sends_max=max((_highest(bins.sends(run, pool)) for run in runs for pool in pools), default=0) or 1,
        pools=pools,
        hidden_pools=hidden,
        answers=tuple(answer for answer in Answer if any(run.classes[answer] for run in runs)),
        deliveries=tuple(sorted({delivery for run in runs for _, delivery in run.deliveries})),
    )


def _end(run: Run) -> float:
    return max([run.record.scenario.duration_s, *(request.t_end for request in run.record.requests)])


def _highest(sends: Counter[tuple[str, int]]) -> int:
    by_bin: Counter[int] = Counter()
    for (_, place), count in sends.items():
        by_bin[place] += count
    return max(by_bin.values(), default=0)


def _pools(runs: Sequence[Run]) -> tuple[tuple[str, ...], int]:
    """Choose the pools that get a strip: those with a fault first, then the busiest; drawn by name."""
    targets = {fault.target for run in runs for fault in run.record.faults}
    sends = Counter(send.pool for run in runs for send in run.record.sends)
    names = {pool.id for run in runs for pool in run.record.scenario.pools} | set(sends)
    ranked = sorted(names, key=lambda name: (name not in targets, -sends[name], name))
    return tuple(sorted(ranked[:STRIPS_MAX])), max(len(ranked) - STRIPS_MAX, 0)
