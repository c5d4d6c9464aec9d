"""What `pooldrill simulate` prints of layers: the stack, what was measured beside what theory allows, the class."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.measures.measured import Measured, Undecided
from scenarios.measures.scalars import every_measure
from scenarios.record import Record
from scenarios.spec import Scenario
from scenarios.static.figures import Figures, figures_of
from scenarios.static.numbers import count, percent, seconds
from scenarios.static.of_scenario import of_scenario
from scenarios.static.stack import Stack, Stage
from scenarios.statistics import REPLICATIONS_MAX, Interval, by_class, mean_interval, paired_interval, wilson
from simulator.replications import COLLAPSED, UNCLASSED, Replication, is_enough

WIDTH: Final = 80
KNOWN_MAX: Final = 12
"""Lines of what routers came to know."""
_UNSENT_FAULTS: Final = ("refused", "black_hole")
"""Faults that let no connect stand."""
_GOOD: Final = {"unaffected": "green", "degraded": "green", "recovers": "yellow"}

SHOWN: Final = (
    ("send_amplification", "sends for each operation", count),
    ("queue_amplification", "queued for each operation", count),
    ("sends_max", "most sends of one operation", count),
    ("goodput", "answered in time", percent),
    ("goodput_before_fault", "  before the fault", percent),
    ("goodput_during_fault", "  during the fault", percent),
    ("goodput_after_fault", "  after the fault", percent),
    ("first_request_s", "first request in the fault", seconds),
    ("recovery_s", "recovered after", seconds),
    ("queue_max", "longest queue", count),
    ("orphaned_share", "work for nobody", percent),
    ("wasted_tokens", "tokens for nobody", count),
    ("total_p50_s", "median wait of the answered", seconds),
    ("total_p99_s", "99 % of them within", seconds),
)
"""Measure, its words, how its number is written."""


def console() -> Console:
    """Return a console of 80 columns that colours terminals only."""
    return Console(width=WIDTH, highlight=False, soft_wrap=False)


def say(out: Console, text: str = "") -> None:
    """Print lines that are laid out already, as they are."""
    out.print(text, markup=False, soft_wrap=True)


def filled(text: str) -> str:
    """Break one long line at 80 columns."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def stack_table(stack: Stack) -> Table:
    """Return the layers, outermost first."""
    table = _table("layer", "attempts", "sends again", "time-out", "deadline", "budget")
    for stage in stack.stages:
        table.add_row(*_layer(stage))
    return table


def _layer(stage: Stage) -> Iterator[str]:
    timeout_s, deadline_s = stage.patience.attempt_timeout_s, stage.patience.deadline_s
    connect = "" if stage.bounds_silence or timeout_s is None else " to connect"
    if stage.patience.connect_timeout_s is not None:
        connect += f"; connect {seconds(stage.patience.connect_timeout_s)}"
    yield stage.name
    yield str(stage.attempts_max)
    yield ("anything" if stage.repeats else "what was unsent") if stage.patience.retries else "nothing"
    yield ("-" if timeout_s is None else seconds(timeout_s)) + connect
    yield "-" if deadline_s is None else seconds(deadline_s)
    yield "-" if stage.budget == "none" else stage.budget


def attempts_line(stack: Stack, figures: Figures) -> str:
    """Say how many sends one operation can become."""
    product = " x ".join(str(stage.attempts_max) for stage in stack.stages if stage.patience.retries) or "1"
    capped = f", capped at {stack.resends_max} re-sends over the chain" if stack.resends_max is not None else ""
    queued = f"; {figures.entries_max} of them can be queued" if figures.entries_max < figures.sends_max else ""
    plural = "" if figures.sends_max == 1 else "s"
    return f"{figures.sends_max} send{plural} of one operation at most: {product}{capped}{queued}"


def measures_table(measured: Measured) -> Table:
    """Return what was measured, beside the control arm and what theory says at most."""
    stack = of_scenario(measured.scenario)
    run = every_measure(measured)
    control = {} if measured.control is None else every_measure(Measured(measured.scenario, measured.control))
    theory = _theory(measured, figures_of(stack))
    table = _table("", "this run", "without the fault" if control else "", "theory")
    table.add_row("operations", count(run["operations"]), count(control["operations"]) if control else "", "")
    for name, words, write in SHOWN:
        if name in run and not (name == "wasted_tokens" and not run[name]):
            found = _recovered(measured) if name == "recovery_s" else write(run[name])
            table.add_row(words, found, write(control[name]) if name in control else "", theory.get(name, ""))
        if name == "send_amplification":
            for layer in measured.history.attempts:
                key = f"attempts_{layer}"
                table.add_row(f"  attempts of {layer}", count(run[key]), count(control[key]) if control else "", "")
    return table


def warm_up_line(measured: Measured) -> str:
    """Say what is left out; empty: nothing."""
    left_out = int((~measured.history.counted).sum())
    if not left_out:
        return ""
    return f"The first {seconds(measured.history.warm_up_s)} with {left_out} operations are warm-up and left out."


def _recovered(measured: Measured) -> str:
    return str(measured.recovery)


def _theory(measured: Measured, figures: Figures) -> dict[str, str]:
    found = {
        "send_amplification": f"at most {count(figures.sends_mean_max)}",
        "queue_amplification": f"at most {count(figures.entries_mean_max)}",
        "sends_max": f"at most {figures.sends_max}",
    }
    if math.isfinite(longest_s := _longest(measured.scenario, figures)):
        found["first_request_s"] = f"at most {seconds(longest_s)}"
    try:
        closed_s = measured.closed_form_s
    except Undecided:
        return found
    # What hangs in connects waits in no queue: of that the closed form knows nothing.
    if closed_s is not None and (closed_s or not _all_unsent(measured.scenario)):
        found["recovery_s"] = (
            "never" if math.isinf(closed_s) else f"about {seconds(closed_s)}" if closed_s else "at once"
        )
    return found


def _longest(scenario: Scenario, figures: Figures) -> float:
    """Return the longest first request that these faults can make; after others a pool may accept and say nothing."""
    return figures.wait_hang_s if _all_unsent(scenario) else max(figures.wait_hang_s, figures.wait_silent_s)


def _all_unsent(scenario: Scenario) -> bool:
    return all(fault.kind in _UNSENT_FAULTS for fault in scenario.faults)


def class_line(measured: Measured) -> Text:
    """Say what is to be said of the run in one word, and why."""
    try:
        judged = measured.judged
    except Undecided as why:
        return Text(f"class: none, since {why}")
    if judged.run_class is None:
        return Text(f"class: too early to tell, {judged.why}", style="yellow")
    words = judged.run_class.replace("_", " ")
    return Text(
        f"class: {words}" + (f", {judged.why}" if judged.why else ""),
        style=f"bold {_GOOD.get(judged.run_class, 'red')}",
    )


def known_lines(record: Record) -> Iterator[str]:
    """Say what routers came to know and did by themselves, in the order of time; cooldowns are left to the record."""
    told = [(row.t, f"{row.kind} of {row.target}: {row.value}") for row in record.states if row.kind != "cooldown"]
    told += [(row.since, f"alarm {row.kind}: {row.detail}") for row in record.alarms]
    for at_s, text in sorted(told)[:KNOWN_MAX]:
        yield f"at {seconds(at_s)} {text}"
    if len(told) > KNOWN_MAX:
        yield f"and {len(told) - KNOWN_MAX} more in the record"


# ---- replications


def replications_table(found: Sequence[Replication]) -> Table:
    """Return means and their intervals; runs of different classes are never averaged together."""
    classes = [each.run_class for each in found]
    kinds = list(by_class(classes, [0.0] * len(classes)))
    table = _table("mean and 95 % interval", *(f"{kind.replace('_', ' ')} ({classes.count(kind)})" for kind in kinds))
    for name, words, write in SHOWN:
        values = [[each.measures.get(name) for each in found if each.run_class == kind] for kind in kinds]
        cells = [_cell(of_kind, write) for of_kind in values]
        if any(cells) and not (name == "wasted_tokens" and not any(map(any, values))):
            table.add_row(words, *cells)
    return table


def replications_lines(found: Sequence[Replication]) -> Iterator[str]:
    """Say how many runs collapsed, whether means may be taken over all, and what the fault costs."""
    classes = [each.run_class for each in found]
    told = [run_class for run_class in classes if run_class != UNCLASSED]
    if len(found) >= REPLICATIONS_MAX and not is_enough(found):
        yield f"The intervals are still wider than 5 % after {len(found)} runs."
    if told:
        hits = sum(run_class in COLLAPSED for run_class in told)
        low, high = wilson(hits, len(told))
        yield f"P(collapse): {hits} of {len(told)} runs, {percent(low)} to {percent(high)} (Wilson, 95 %)"
    if 0 < len(told) < len(classes):
        early = len(classes) - len(told)
        yield f"{early} ended too early to be told apart, and not counted: a longer run would tell."
    if len(set(classes)) > 1:
        yield "The runs are of different classes, so there is no mean over all of them."
        return
    pairs = [each.measures for each in found if {"goodput", "control_goodput"} <= set(each.measures)]
    if len(pairs) > 1:
        cost = paired_interval([m["control_goodput"] for m in pairs], [m["goodput"] for m in pairs])
        yield f"The fault costs {percent(cost.mean)} of the answers in time, +- {percent(cost.half_width)} (paired)."


def _cell(values: Sequence[float | None], write: object) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    assert callable(write)
    censored = sum(map(math.isinf, known))
    if censored:
        return f"not yet in {censored} of {len(known)}"
    return _interval(mean_interval(known), write)


def _interval(interval: Interval, write: object) -> str:
    assert callable(write)
    if math.isinf(interval.half_width):
        return f"{write(interval.mean)} (one run)"
    # Runs that agree but for the rounding of floats have no spread.
    half_width = interval.half_width if interval.half_width > 1e-9 * max(1.0, abs(interval.mean)) else 0.0
    return f"{write(interval.mean)} +- {write(half_width)}"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right", overflow="fold")
    return table
