"""Each measure as one number. The warm-up is left out of all of them.

send_amplification = sends / operations; queue_amplification = entries (what took a place in a queue or a slot) /
operations; goodput by arrival; latencies from the intended start, of operations that were answered; orphaned_share =
seconds of slots that were worked for nobody / all seconds worked.
"""

import math
from collections.abc import Callable

import numpy as np

from scenarios.measures.history import Bools, Floats
from scenarios.measures.measured import NO_FAULT, Measured, Undecided
from scenarios.measures.names import ATTEMPTS, PLAIN, WINDOW
from scenarios.measures.series import queue_spans, tokens_for_nobody, worked_spans

NOTHING = "nothing to measure"


def measure(measured: Measured, name: str) -> float:
    """Return one measure; infinite: censored. Raises Undecided with the reason, KeyError if no measure is called so."""
    if found := WINDOW.fullmatch(name):
        end_s = measured.fault_span_s[1]
        return _known(measured.share(end_s + int(found[1]), end_s + int(found[2])))
    if found := ATTEMPTS.fullmatch(name):
        return _attempts(measured, found[1])
    return _known(_MEASURES[name](measured))


def every_measure(measured: Measured) -> dict[str, float]:
    """Return all measures that can be told of a run."""
    told = {}
    for name in (*PLAIN, *(f"attempts_{layer}" for layer in measured.history.attempts)):
        try:
            told[name] = measure(measured, name)
        except Undecided:
            continue
    return told


def _known(value: float) -> float:
    if math.isnan(value):
        raise Undecided(NOTHING)
    return value


def _need(measured: Measured, what: str) -> None:
    if what in measured.history.lacks:
        raise Undecided(measured.history.lacks[what])


def _operations(measured: Measured) -> float:
    return float(measured.history.counted.sum())


def _send_amplification(measured: Measured) -> float:
    _need(measured, "sends")
    return _per_operation(measured, measured.history.sends_counted)


def _queue_amplification(measured: Measured) -> float:
    _need(measured, "entries")
    return _per_operation(measured, measured.history.sends_counted & measured.history.sends.entered)


def _per_operation(measured: Measured, chosen: Bools) -> float:
    count = _operations(measured)
    return float(chosen.sum()) / count if count else math.nan


def _attempts(measured: Measured, layer: str) -> float:
    if layer not in measured.history.attempts:
        raise Undecided(f"the run has no layer {layer}; it has {', '.join(measured.history.attempts)}")
    counted = measured.history.counted[measured.history.attempts[layer].operation]
    return _known(_per_operation(measured, counted))


def _sends_max(measured: Measured) -> float:
    _need(measured, "sends")
    return _most(measured, measured.history.sends_counted)


def _entries_max(measured: Measured) -> float:
    _need(measured, "entries")
    return _most(measured, measured.history.sends_counted & measured.history.sends.entered)


def _most(measured: Measured, chosen: Bools) -> float:
    operations = measured.history.sends.operation[chosen]
    return float(np.bincount(operations).max()) if len(operations) else 0.0


def _goodput(measured: Measured) -> float:
    return measured.share(-math.inf, math.inf)


def _before(measured: Measured) -> float:
    return measured.share(-math.inf, measured.fault_span_s[0])


def _during(measured: Measured) -> float:
    return measured.share(*measured.fault_span_s)


def _after(measured: Measured) -> float:
    return measured.share(measured.fault_span_s[1], math.inf)


def _control(measured: Measured) -> float:
    counted = measured.history.counted
    return float(np.mean(measured.control_good[counted])) if counted.any() else math.nan


def _first_request(measured: Measured) -> float:
    """Return how long the first operation took that arrived while a fault was on and met it, to its end, good or bad.

    What was under way when the fault came is not asked: the fault may have cut it.
    """
    history = measured.history
    if not history.faults:
        raise Undecided(NO_FAULT)
    _need(measured, "sends")
    sends, arrived_s = history.sends, history.operations.t_s[history.sends.operation]
    met = np.zeros(len(sends), dtype=bool)
    for fault in history.faults:
        on = (arrived_s >= fault.start_s) & (sends.start_s < fault.end_s)
        met |= on & (sends.pool == fault.pool)
    hit = sends.operation[met & history.sends_counted]
    if not len(hit):
        raise Undecided("no operation met a fault")
    first = hit.min()  # operations are in the order of arrival
    return float(history.operations.end_s[first] - history.operations.t_s[first])


def _recovery(measured: Measured) -> float:
    recovery = measured.recovery
    if recovery is None:
        raise Undecided("the run ends too early after the fault")
    return math.inf if recovery.censored else recovery.seconds


def _queue_max(measured: Measured) -> float:
    came_s, gone_s = _queue(measured)
    moments = np.concatenate((came_s, gone_s[np.isfinite(gone_s)]))
    steps = np.concatenate((np.ones(len(came_s)), -np.ones(int(np.isfinite(gone_s).sum()))))
    order = np.lexsort((steps, moments))  # who leaves at a moment has left before anybody comes
    return float(np.cumsum(steps[order]).max(initial=0.0))


def _queue_mean(measured: Measured) -> float:
    came_s, gone_s = _queue(measured)
    end_s, from_s = measured.history.end_s, measured.history.warm_up_s
    waited = np.minimum(gone_s, end_s) - np.maximum(came_s, from_s)
    return float(waited[waited > 0].sum()) / (end_s - from_s) if end_s > from_s else math.nan


def _queue(measured: Measured) -> tuple[Floats, Floats]:
    _need(measured, "work")
    return queue_spans(measured.history, measured.history.sends.entered)


def _orphaned_share(measured: Measured) -> float:
    _need(measured, "work")
    begun_s, ended_s, orphaned_s = worked_spans(measured.history)
    counted = begun_s >= measured.history.warm_up_s
    worked = float((ended_s - begun_s)[counted].sum())
    return float((ended_s - orphaned_s)[counted].sum()) / worked if worked else math.nan


def _wasted_tokens(measured: Measured) -> float:
    _need(measured, "work")
    return tokens_for_nobody(measured.history.sends)


def _latency(quantile: float | None, *, first: bool) -> Callable[[Measured], float]:
    def latency(measured: Measured) -> float:
        operations = measured.history.operations
        until_s = operations.first_s if first else operations.end_s
        taken_s = (until_s - operations.t_s)[measured.history.counted & operations.ok]
        if not len(taken_s):
            return math.nan
        return float(taken_s.mean() if quantile is None else np.quantile(taken_s, quantile))

    return latency


_MEASURES: dict[str, Callable[[Measured], float]] = {
    "operations": _operations,
    "send_amplification": _send_amplification,
    "queue_amplification": _queue_amplification,
    "sends_max": _sends_max,
    "entries_max": _entries_max,
    "goodput": _goodput,
    "goodput_before_fault": _before,
    "goodput_during_fault": _during,
    "goodput_after_fault": _after,
    "control_goodput": _control,
    "first_request_s": _first_request,
    "recovery_s": _recovery,
    "queue_max": _queue_max,
    "queue_mean": _queue_mean,
    "orphaned_share": _orphaned_share,
    "wasted_tokens": _wasted_tokens,
    "total_mean_s": _latency(None, first=False),
    "total_p50_s": _latency(0.5, first=False),
    "total_p99_s": _latency(0.99, first=False),
    "ttft_p50_s": _latency(0.5, first=True),
    "ttft_p99_s": _latency(0.99, first=True),
}
