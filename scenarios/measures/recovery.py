"""When a run is well again after its last fault, and what is to be said of it in one word.

Laws
1. Recovery time: from the end of the fault to the first arrival after which the next max(30 s, 200 arrivals) reach 95 %
   of what the same arrivals reach in the control arm; without one, 95 % of the goodput before the fault.
2. It is censored ("not within t") where no arrival up to t is such a one and the run ends; not given where the run
   ends less than 30 s after the fault.
3. Class: overloaded anyway (the control arm fails too), metastable (not recovered by twice the closed-form time, or
   that is infinite), recovers, degraded (worse during the fault alone), unaffected.
"""

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from scenarios.measures.history import Bools, Floats, Ints
from scenarios.spec import RunClass

CLASSES: tuple[RunClass, ...] = get_args(RunClass)

WINDOW_S = 30.0
WINDOW_ARRIVALS = 200
REACHED = 0.95
"""Share of the control arm's goodput that counts as well again."""
CONTROL_FAILS = 0.5
"""A control arm whose last window is worse than this fails by itself: collapse is all or nothing."""
AT_ONCE_S = 1.0
"""A recovery that is quicker is none: the fault alone did the harm."""
BOUND_MIN_S = WINDOW_S
"""Below a window nothing is told apart: no run is metastable that recovers within one."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from the fault's end; censored: not yet then."""

    seconds: float
    censored: bool = False

    def __str__(self) -> str:
        return f"not within {self.seconds:.1f} s" if self.censored else f"{self.seconds:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Goodput by arrival: intended starts in ascending order, and whether each was answered well.

    `expected`: the same of the control arm, one value an arrival (0 or 1), or the share before the fault for each.
    `load_end_s`: when arrivals end.
    """

    t_s: Floats
    good: Bools
    expected: Floats
    load_end_s: float


def recovery_of(arrivals: Arrivals, fault_end_s: float) -> Recovery | None:
    """Return the recovery time (laws 1 and 2); None: not given."""
    if arrivals.load_end_s - fault_end_s < WINDOW_S:
        return None
    starts, ends = _windows(arrivals, fault_end_s)
    if not len(starts):
        return None
    reached = _sums(arrivals.good, starts, ends) >= REACHED * _sums(arrivals.expected, starts, ends)
    some = _sums(arrivals.expected, starts, ends) > 0
    well = np.flatnonzero(reached & some)
    if len(well):
        return Recovery(max(0.0, float(arrivals.t_s[starts[well[0]]]) - fault_end_s))
    return Recovery(max(0.0, float(arrivals.t_s[starts[-1]]) - fault_end_s), censored=True)


def _windows(arrivals: Arrivals, from_s: float) -> tuple[Ints, Ints]:
    """Return the first and one past the last arrival of every whole window that begins at an arrival from then on."""
    times = arrivals.t_s
    starts = np.arange(np.searchsorted(times, from_s, side="left"), len(times))
    ends = np.maximum(np.searchsorted(times, times[starts] + WINDOW_S, side="left"), starts + WINDOW_ARRIVALS)
    whole = (ends <= len(times)) & (times[starts] + WINDOW_S <= arrivals.load_end_s)
    return starts[whole], ends[whole]


def _sums(values: Floats | Bools, starts: Ints, ends: Ints) -> Floats:
    total = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    return np.asarray(total[ends] - total[starts])


def control_fails(arrivals: Arrivals) -> bool:
    """Tell whether the control arm itself ends badly: over its last window."""
    last = arrivals.t_s >= arrivals.load_end_s - WINDOW_S
    last[-WINDOW_ARRIVALS:] = True
    return bool(len(last)) and float(np.mean(arrivals.expected[last])) < CONTROL_FAILS


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The class of a run, or None with the reason why it cannot be told."""

    run_class: RunClass | None
    why: str = ""


def class_of(
    arrivals: Arrivals,
    *,
    fault_start_s: float,
    fault_end_s: float,
    closed_form_s: float | None,
    horizon_s: float | None,
) -> Judged:
    """Return the class (law 3). `closed_form_s` None: not known; then not recovered by `horizon_s` is metastable.

    `horizon_s` is a time of the run. Both None: a run that has not recovered cannot be told from one that will.
    """
    if control_fails(arrivals):
        return Judged(run_class="overloaded_anyway")
    recovery = recovery_of(arrivals, fault_end_s)
    if recovery is None:
        return Judged(run_class="degraded" if _harmed(arrivals, fault_start_s, math.inf) else "unaffected")
    bound_s = None if closed_form_s is None else max(2 * closed_form_s, BOUND_MIN_S)
    if recovery.censored:
        return _unrecovered(recovery, bound_s, fault_end_s, horizon_s, load_end_s=arrivals.load_end_s)
    if bound_s is not None and recovery.seconds > bound_s:
        return Judged(run_class="metastable", why=f"recovered after {recovery}, later than {bound_s:.1f} s")
    if recovery.seconds > AT_ONCE_S:
        return Judged(run_class="recovers", why=f"after {recovery}")
    return Judged(run_class="degraded" if _harmed(arrivals, fault_start_s, fault_end_s) else "unaffected")


def _unrecovered(
    recovery: Recovery, bound_s: float | None, fault_end_s: float, horizon_s: float | None, *, load_end_s: float
) -> Judged:
    seen = f"not recovered within the {recovery.seconds:.1f} s that can be judged (load ends at {load_end_s:g} s)"
    if bound_s is not None and math.isinf(bound_s):
        return Judged(run_class="metastable", why=f"{seen}; in closed form it never is")
    if bound_s is not None and recovery.seconds >= bound_s:
        return Judged(run_class="metastable", why=f"{seen}, longer than its bound of {bound_s:.1f} s")
    if bound_s is None and horizon_s is not None:
        return Judged(run_class="metastable", why=f"not recovered by its horizon, {horizon_s - fault_end_s:.0f} s on")
    needed = "give horizon_s" if bound_s is None else f"run on until {fault_end_s + bound_s + WINDOW_S:.0f} s"
    return Judged(run_class=None, why=f"{seen}; too early to tell: {needed}")


def _harmed(arrivals: Arrivals, from_s: float, until_s: float) -> bool:
    during = (arrivals.t_s >= from_s) & (arrivals.t_s < until_s)
    return bool(arrivals.good[during].sum() < REACHED * arrivals.expected[during].sum())
