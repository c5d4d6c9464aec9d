"""The measures over time: by bins of equal length, from the start of the run to its end."""

from dataclasses import dataclass

import numpy as np

from scenarios.measures.history import Bools, Floats, History, Sends

BINS_MAX = 150
WIDTHS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All series of one run. `edges_s` has one value more than a series has bins; nan: nothing to divide by.

    `arrivals`, `sends`, `entries`, `attempts` (by layer): a second. `amplification`: by layer, attempts begun in a bin
    for each operation that arrived in it. `goodput`: of the cohort that arrived in the bin. `queue`: waiting at each
    edge, by pool. `orphaned`: share of the work of a bin that nobody waited for.
    """

    edges_s: Floats
    arrivals: Floats
    sends: Floats
    entries: Floats
    attempts: dict[str, Floats]
    amplification: dict[str, Floats]
    goodput: Floats
    queue: dict[str, Floats]
    orphaned: Floats


def bins(end_s: float) -> Floats:
    """Return the edges of bins of a round length, at most so many that a picture can show."""
    width_s = next((width for width in WIDTHS_S if end_s / width <= BINS_MAX), end_s / BINS_MAX)
    return np.arange(0.0, end_s + width_s, width_s)


def series_of(history: History, good: Bools, edges_s: Floats) -> Series:
    """Return all series of a run over these bins."""
    times = history.operations.t_s
    widths = np.diff(edges_s)
    arrived = _counts(times, edges_s)
    served = _counts(times[good], edges_s)
    sends = history.sends
    begun = {name: _counts(attempts.start_s, edges_s) for name, attempts in history.attempts.items()}
    return Series(
        edges_s=edges_s,
        arrivals=arrived / widths,
        sends=_counts(sends.start_s, edges_s) / widths,
        entries=_counts(sends.start_s[sends.entered], edges_s) / widths,
        attempts={name: count / widths for name, count in begun.items()},
        amplification={name: _ratio(count, arrived) for name, count in begun.items()},
        goodput=_ratio(served, arrived),
        queue={pool: queue_at(history, edges_s, pool=number) for number, pool in enumerate(history.pools)},
        orphaned=_orphaned(history, edges_s),
    )


def queue_at(history: History, moments_s: Floats, *, pool: int | None = None) -> Floats:
    """Return how many wait for a slot at each moment, at one pool or at all; nothing waits that never entered."""
    sends = history.sends
    chosen = sends.entered if pool is None else sends.entered & (sends.pool == pool)
    begun_s, gone_s = queue_spans(history, chosen)
    came = np.searchsorted(np.sort(begun_s), moments_s, side="right")
    went = np.searchsorted(np.sort(gone_s), moments_s, side="right")
    return (came - went).astype(np.float64)


def queue_spans(history: History, chosen: Bools) -> tuple[Floats, Floats]:
    """Return when each of the chosen sends came to a queue and when it left it: for a slot, given up, or at the end."""
    sends = history.sends
    gone_s = np.fmin(sends.work_s[chosen], sends.free_s[chosen])
    return sends.start_s[chosen], np.where(np.isnan(gone_s), np.inf, gone_s)


def worked_spans(history: History) -> tuple[Floats, Floats, Floats]:
    """Return begin and end of each send's work, and when it became work for nobody (its end if it never did)."""
    sends = history.sends
    worked = ~np.isnan(sends.work_s)
    begun_s = sends.work_s[worked]
    ended_s = np.where(np.isnan(sends.free_s), history.end_s, sends.free_s)[worked]
    orphaned_s = np.where(sends.ok, np.inf, np.where(np.isnan(sends.left_s), np.inf, sends.left_s))[worked]
    return begun_s, ended_s, np.clip(orphaned_s, begun_s, ended_s)


def tokens_for_nobody(sends: Sends) -> float:
    """Return the tokens that were made for attempts whose answer nobody took."""
    return float(sends.tokens[~sends.ok].sum())


def _orphaned(history: History, edges_s: Floats) -> Floats:
    begun_s, ended_s, orphaned_s = worked_spans(history)
    return _ratio(np.diff(_elapsed(orphaned_s, ended_s, edges_s)), np.diff(_elapsed(begun_s, ended_s, edges_s)))


def _elapsed(begun_s: Floats, ended_s: Floats, moments_s: Floats) -> Floats:
    """Return the seconds of all spans together that lie before each moment."""
    return _ramp(begun_s, moments_s) - _ramp(ended_s, moments_s)


def _ramp(starts_s: Floats, moments_s: Floats) -> Floats:
    starts = np.sort(starts_s)
    before = np.searchsorted(starts, moments_s, side="right")
    return np.asarray(before * moments_s - np.concatenate(([0.0], np.cumsum(starts)))[before])


def _counts(times_s: Floats, edges_s: Floats) -> Floats:
    return np.histogram(times_s[~np.isnan(times_s)], edges_s)[0].astype(np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))
