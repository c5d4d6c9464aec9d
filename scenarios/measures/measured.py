"""One run with all that is worked out of it, each thing once: its own goodput, its control arm's, recovery, class."""

import math
from functools import cached_property

import numpy as np

from scenarios.measures.history import Bools, Floats, History
from scenarios.measures.recovery import Arrivals, Judged, Recovery, class_of, recovery_of
from scenarios.measures.series import queue_at
from scenarios.spec import Scenario
from scenarios.static.figures import figures_of
from scenarios.static.of_scenario import of_scenario
from scenarios.theory.queueing import recovery_s

NO_CONTROL = "there is no control arm"
NO_FAULT = "the run has no fault"
OTHER_ARRIVALS = "the control arm has other arrivals"


class Undecided(Exception):
    """What was asked for cannot be told of this run; the text says why."""


class Measured:
    """A run and its control arm without faults (None: there is none; the run's level before the fault stands in)."""

    def __init__(self, scenario: Scenario, history: History, control: History | None = None) -> None:
        self.scenario = scenario
        self.history = history
        self.control = control

    @cached_property
    def good(self) -> Bools:
        """Which operations were answered completely and within the SLO, from their intended start."""
        return good_of(self.scenario, self.history)

    @cached_property
    def fault_span_s(self) -> tuple[float, float]:
        """Return when the first fault came and when the last one went. Raises Undecided if there was none."""
        faults = self.history.faults
        if not faults:
            raise Undecided(NO_FAULT)
        return min(fault.start_s for fault in faults), max(fault.end_s for fault in faults)

    @cached_property
    def control_good(self) -> Bools:
        """Return the same of the control arm. Raises Undecided if there is none, or one of other arrivals."""
        if self.control is None:
            raise Undecided(NO_CONTROL)
        own, others = self.history.operations.t_s, self.control.operations.t_s
        # A record keeps nanoseconds, columns keep more.
        if len(own) != len(others) or not np.allclose(own, others, rtol=0.0, atol=1e-8):
            raise Undecided(OTHER_ARRIVALS)
        return good_of(self.scenario, self.control)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Return goodput by arrival beside what it should be, the warm-up left out. Raises Undecided."""
        counted = self.history.counted
        return Arrivals(
            t_s=self.history.operations.t_s[counted],
            good=self.good[counted],
            expected=self._expected[counted],
            load_end_s=max(load.end_s for load in self.scenario.load),
        )

    @property
    def _expected(self) -> Floats:
        if self.control is not None:
            return self.control_good.astype(np.float64)
        before = self.share(-math.inf, self.fault_span_s[0])
        if math.isnan(before):
            raise Undecided(f"{NO_CONTROL}, and nothing arrived before the fault")
        return np.full(len(self.good), before)

    def share(self, from_s: float, until_s: float) -> float:
        """Return the goodput of what arrives in a span, the warm-up left out; nan: nothing did."""
        times = self.history.operations.t_s
        span = self.history.counted & (times >= from_s) & (times < until_s)
        return float(np.mean(self.good[span])) if span.any() else math.nan

    @cached_property
    def recovery(self) -> Recovery | None:
        """Return the recovery time; None: not given. Raises Undecided."""
        return recovery_of(self.arrivals, self.fault_span_s[1])

    @cached_property
    def closed_form_s(self) -> float | None:
        """Return the recovery time that theory gives; None: it cannot be computed."""
        stack = of_scenario(self.scenario)
        if stack.capacity_rps is None or stack.rate_rps is None or not math.isfinite(stack.patience_s):
            return None
        if "entries" in self.history.lacks:
            return None
        _, end_s = self.fault_span_s
        return recovery_s(
            waiting=float(queue_at(self.history, np.asarray([end_s]))[0]),
            capacity_rps=stack.capacity_rps,
            timeout_s=stack.patience_s,
            rate_rps=stack.rate_rps,
            amplification=figures_of(stack).entries_mean_max,
        )

    @cached_property
    def judged(self) -> Judged:
        """Return the class of the run. Raises Undecided if there is no control arm, and nothing before the fault.

        Without a control arm, as in a real run, the level before the fault is what is expected after it; then what is
        overloaded anyway shows only if it was so before.
        """
        start_s, end_s = self.fault_span_s
        return class_of(
            self.arrivals,
            fault_start_s=start_s,
            fault_end_s=end_s,
            closed_form_s=self.closed_form_s,
            horizon_s=self.scenario.horizon_s,
        )


def good_of(scenario: Scenario, history: History) -> Bools:
    """Return which operations were answered completely and within the SLO."""
    operations = history.operations
    good = operations.ok.copy()
    with np.errstate(invalid="ignore"):
        if scenario.slo.total_s is not None:
            good &= operations.end_s - operations.t_s <= scenario.slo.total_s
        if scenario.slo.ttft_s is not None:
            good &= operations.first_s - operations.t_s <= scenario.slo.ttft_s
    return good
