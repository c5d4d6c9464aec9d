"""One thing that is wrong with a stack.

error: a fault, or the load alone, makes it fail; warning: it costs more or waits longer than one would think; note:
something that cannot be told from what is given, or that another knob covers.
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `number` is what `what` is about, in `unit`; None: infinite, or there is none."""

    severity: Severity
    check: str
    at: str
    """Layer or pool; empty: the whole stack."""
    number: float | None
    unit: str
    what: str
    why: str
    turn: str
