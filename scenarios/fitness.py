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
    late = [s for s in record.samples if s.kind == "loop_lag_s" and s.t > 0 and s.value > LAG_MAX_S]
    if not late:
        return ""
    worst = max(late, key=lambda sample: sample.value)
    return f"machine too busy: {worst.source} was {worst.value:.3f} s late at {worst.t:.1f} s, at most {LAG_MAX_S:g} s"


def tries_told(record: Record) -> str:
    """Say that a run is not the first try; empty if it is."""
    tries = record.meta.tries
    return "" if tries == 1 else f"{_ORDINALS.get(tries, f'{tries}th')} try: the machine was busy"
