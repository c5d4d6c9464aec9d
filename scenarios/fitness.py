"""Whether a run is fit to be judged: on a machine that is too busy, nothing exact can be shown."""

from scenarios.record import Record
from scenarios.spec import EXACT_MARGIN_S

LAG_MAX_S = EXACT_MARGIN_S / 2
"""Lateness of an event loop above which the run of an exact scenario proves nothing."""

_ORDINALS = {2: "second", 3: "third"}


def unfit(record: Record) -> str:
    """Say why a run must not be judged, by its runner's word or by its own samples; empty if it may be."""
    return record.meta.invalid or too_busy(record)


def too_busy(record: Record) -> str:
    """Say why the machine was too busy for this run; empty if it was not. Only exact scenarios have such a bound."""
    if not record.scenario.exact:
        return ""
    return _late_loop(record) or _late_edge(record)


def _late_loop(record: Record) -> str:
    late = [s for s in record.samples if s.kind == "loop_lag_s" and s.t > 0 and s.value > LAG_MAX_S]
    if not late:
        return ""
    worst = max(late, key=lambda sample: sample.value)
    return f"machine too busy: {worst.source} was {worst.value:.3f} s late at {worst.t:.1f} s, at most {LAG_MAX_S:g} s"


def _late_edge(record: Record) -> str:
    """Say which fault came or went so late that requests may have met it which should not, or the other way round.

    Only in a real run, where Toxiproxy and the kernel take their time; the model has no excuse.
    """
    if record.meta.mode != "real":
        return ""
    for fault in record.faults:
        for edge, at_s, planned_s in (
            ("came", fault.t_inject, fault.planned_inject),
            ("went", fault.t_clear, fault.planned_clear),
        ):
            if at_s is not None and at_s - planned_s > EXACT_MARGIN_S:
                late = f"{fault.name} at {fault.target} {edge} {at_s - planned_s:.3f} s late"
                return f"machine too busy: {late}, at most {EXACT_MARGIN_S:g} s"
    return ""


def tries_told(record: Record) -> str:
    """Say that a run is not the first try; empty if it is."""
    tries = record.meta.tries
    return "" if tries == 1 else f"{_ORDINALS.get(tries, f'{tries}th')} try: the machine was busy"
