"""The timeline of a chain of layers, one picture: what users waited, what was answered, what each layer sent, queues.

All panels share one axis of time. The run is drawn in colour, its control arm without the fault in grey, bounds that
theory gives as dotted lines; the fault is shaded, and so is nothing else.
"""

import contextlib
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.pictures import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILLION, WIDE_IN, label, png, style
from scenarios.measures.history import Bools, Floats
from scenarios.measures.measured import Measured, Undecided
from scenarios.measures.scalars import measure
from scenarios.measures.series import Series, bins, series_of
from scenarios.static.figures import figures_of
from scenarios.static.of_scenario import of_scenario
from scenarios.theory.queueing import queue_bound

MARKS_MAX = 4_000
"""Operations that are drawn one by one; of more, evenly many are left out."""
PANEL_IN, GAP_IN, TOP_IN, FOOT_IN, LEFT_IN, RIGHT_IN = 1.28, 0.42, 0.86, 0.5, 0.8, 2.1
CONTROL = "#c4c4c4"
ORPHANED_MIN = 0.01
"""Share of work for nobody below which it is not drawn."""
_LINES = ((BLUE, "-"), (VERMILLION, "--"), (PURPLE, "-."), (ORANGE, ":"), (GREEN, (0, (5, 1, 1, 1))))
"""Colour and dashes of layers and of pools, by number."""


class _Shown(NamedTuple):
    """What the panels draw: a run, its series, and those of its control arm (None: there is none)."""

    measured: Measured
    run: Series
    control: Series | None


def write_timeline(measured: Measured, path: Path) -> None:
    """Draw the timeline of a run into a PNG file. Raises OSError."""
    with style():
        path.write_bytes(png(timeline(measured)))


def timeline(measured: Measured) -> Figure:
    """Draw the timeline of a run."""
    end_s = _end_s(measured)
    run = series_of(measured.history, measured.good, bins(end_s))
    control = None
    if measured.control is not None:
        control = series_of(measured.control, measured.control_good, run.edges_s)
    panels = [_waits, _goodput, _sends, *([_queues] if _has_queues(measured) else [])]
    height_in = TOP_IN + len(panels) * (PANEL_IN + GAP_IN) + FOOT_IN - GAP_IN
    figure = Figure(figsize=(WIDE_IN, height_in))
    for place, draw in enumerate(panels):
        bottom_in = height_in - TOP_IN - (place + 1) * PANEL_IN - place * GAP_IN
        width = (WIDE_IN - LEFT_IN - RIGHT_IN) / WIDE_IN
        axes = figure.add_axes((LEFT_IN / WIDE_IN, bottom_in / height_in, width, PANEL_IN / height_in))
        _shade(axes, measured, named=place == 0)
        draw(axes, _Shown(measured, run, control))
        axes.set_xlim(0, end_s)
        if place < len(panels) - 1:
            axes.set_xticklabels([])
    axes.set_xlabel("seconds since the start of the run")
    _head(figure, measured, height_in)
    return figure


def _end_s(measured: Measured) -> float:
    """Return when the last operation had ended, or the run."""
    ends_s = measured.history.operations.end_s
    return float(max(measured.scenario.duration_s, np.nanmax(ends_s, initial=0.0)))


def _head(figure: Figure, measured: Measured, height_in: float) -> None:
    scenario = measured.scenario
    x = 0.12 / WIDE_IN
    figure.text(x, 1 - 0.1 / height_in, label(f"{scenario.name}: {scenario.title}", 105), fontsize=12,
                fontweight="bold", va="top")  # fmt: skip
    figure.text(x, 1 - 0.36 / height_in, label(_subtitle(measured), 140), fontsize=9.5, va="top", color=INK)


def _subtitle(measured: Measured) -> str:
    stack = of_scenario(measured.scenario)
    product = " x ".join(str(stage.attempts_max) for stage in stack.stages if stage.patience.retries) or "1"
    sends_max = figures_of(stack).sends_max
    plural = "" if sends_max == 1 else "s"
    capped = "" if stack.resends_max is None else f", capped at {stack.resends_max + 1}"
    names = " > ".join(stage.name for stage in stack.stages)
    told = [f"{names}: {sends_max} send{plural} at most ({product}{capped})"]
    with contextlib.suppress(Undecided):
        told.append(f"first request that met the fault: {measure(measured, 'first_request_s'):.1f} s")
    try:
        judged = measured.judged
    except Undecided:
        return "; ".join(told)
    words = (judged.run_class or "too early to tell").replace("_", " ")
    return "; ".join([*told, words + (f" ({measured.recovery})" if judged.run_class == "recovers" else "")])


def _shade(axes: Axes, measured: Measured, *, named: bool) -> None:
    for fault, planned in zip(measured.history.faults, measured.scenario.faults, strict=False):
        axes.axvspan(fault.start_s, fault.end_s, facecolor="#f0d9d9", edgecolor="none", zorder=0)
        if named and planned is measured.scenario.faults[0]:
            middle_s = (fault.start_s + fault.end_s) / 2
            text = label(f"{planned.kind} at {planned.pool}", 28)
            axes.annotate(text, (middle_s, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
                          textcoords="offset points", ha="center", va="bottom", fontsize=8.5)  # fmt: skip


def _waits(axes: Axes, shown: _Shown) -> None:
    """Draw how long each operation took, good and bad."""
    measured = shown.measured
    operations, good = measured.history.operations, measured.good
    ended = ~np.isnan(operations.end_s)
    taken_s = operations.end_s - operations.t_s
    for chosen, marker, colour, words in (
        (good, "o", BLUE, "answered in time"),
        (operations.ok & ~good, "D", ORANGE, "answered too late"),
        (~operations.ok, "x", VERMILLION, "failed"),
    ):
        drawn = _thinned(chosen & ended)
        if not drawn.any():
            continue
        axes.plot(operations.t_s[drawn], taken_s[drawn], ls="none", marker=marker, ms=3.2, color=colour,
                  label=f"{words}: {int(chosen.sum()):,}", alpha=0.8)  # fmt: skip
    if measured.scenario.slo.total_s is not None:
        _bound(axes, measured.scenario.slo.total_s, f"SLO {measured.scenario.slo.total_s:g} s")
    axes.set_ylim(bottom=0)
    _finish(axes, "a user waits (s)")


def _thinned(chosen: Bools) -> Bools:
    """Leave out evenly what is too much to draw."""
    places = np.flatnonzero(chosen)
    drawn = np.zeros(len(chosen), dtype=bool)
    drawn[places[:: max(1, math.ceil(len(places) / MARKS_MAX))]] = True
    return drawn


def _goodput(axes: Axes, shown: _Shown) -> None:
    """Draw the share of arrivals that were answered in time."""
    if shown.control is not None:
        _step(axes, shown.control, shown.control.goodput * 100, color=CONTROL, lw=4, label="without the fault")
    _step(axes, shown.run, shown.run.goodput * 100, color=BLUE, lw=1.6, label="this run")
    axes.set_ylim(-3, 106)
    axes.set_yticks([0, 50, 100])
    _recovered(axes, shown.measured)
    _finish(axes, "in time (%)")


def _recovered(axes: Axes, measured: Measured) -> None:
    try:
        recovery = measured.recovery
    except Undecided:
        return
    if recovery is not None and not recovery.censored and recovery.seconds >= 1:
        at_s = measured.fault_span_s[1] + recovery.seconds
        axes.axvline(at_s, color=GREEN, lw=1.4, label=f"recovered after {recovery.seconds:.1f} s")


def _sends(axes: Axes, shown: _Shown) -> None:
    """Draw what a second brings: operations, and what each layer makes of them."""
    run, measured = shown.run, shown.measured
    _step(axes, run, run.arrivals, color=CONTROL, lw=4, label="operations")
    for (name, attempts), (colour, dashes) in zip(run.attempts.items(), _LINES, strict=False):
        each = measure(measured, f"attempts_{name}")
        _step(axes, run, attempts, color=colour, ls=dashes, lw=1.6, label=f"{label(name, 14)}: x {each:.3g}")
    stack = of_scenario(measured.scenario)
    if stack.capacity_rps is not None:
        _bound(axes, stack.capacity_rps, f"capacity {stack.capacity_rps:.3g}/s")
    axes.set_ylim(bottom=0)
    _finish(axes, "sends a second")


def _queues(axes: Axes, shown: _Shown) -> None:
    """Draw who waits for a slot, by pool, and the bound above which they wait for nothing."""
    run, highest = shown.run, 1.0
    for (pool, waiting), (colour, dashes) in zip(run.queue.items(), _LINES, strict=False):
        highest = max(highest, float(waiting.max(initial=0.0)))
        axes.plot(run.edges_s, waiting, color=colour, ls=dashes, lw=1.6, label=f"pool {label(pool, 12)}")
    _queue_bound(axes, shown.measured, highest)
    orphaned = float(np.nanmax(run.orphaned, initial=0.0)) >= ORPHANED_MIN
    if orphaned:
        _orphaned(axes, run)
    axes.set_ylim(0, highest * 1.15)
    _finish(axes, "waiting", legend_x=1.09 if orphaned else 1.01)


def _queue_bound(axes: Axes, measured: Measured, highest: float) -> None:
    """Draw the lowest bound of any pool, if it is not far above all that happens."""
    stack = of_scenario(measured.scenario)
    known = [station.capacity_rps for station in stack.used if station.capacity_rps is not None]
    bound = queue_bound(min(known), stack.patience_s) if known else math.inf
    if bound <= 3 * highest:
        _bound(axes, bound, f"mu x T = {bound:.0f}")


def _orphaned(axes: Axes, run: Series) -> None:
    right = axes.twinx()
    share = np.nan_to_num(run.orphaned) * 100
    right.fill_between(run.edges_s[:-1], 0, share, step="post", color=VERMILLION, alpha=0.18, lw=0)
    right.set_ylim(0, 106)
    right.set_yticks([0, 50, 100])
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    right.set_ylabel("work for nobody (%)", fontsize=8)
    axes.plot([], [], color=VERMILLION, alpha=0.3, lw=6, label="work for nobody")


def _has_queues(measured: Measured) -> bool:
    return any(pool.slots is not None for pool in measured.scenario.pools)


def _step(axes: Axes, series: Series, values: Floats, **how: object) -> None:
    axes.plot(series.edges_s[:-1], values, drawstyle="steps-post", **how)  # type: ignore[arg-type]  # as plot takes them


def _bound(axes: Axes, at: float, words: str) -> None:
    axes.axhline(at, color=INK, lw=1.0, ls=":", label=words)


def _finish(axes: Axes, words: str, *, legend_x: float = 1.01) -> None:
    axes.set_ylabel(words)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(legend_x, 1.04), borderaxespad=0.0, handlelength=1.8)
