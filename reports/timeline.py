"""The timeline of one or two runs: requests as marks above, sends per pool below, on one axis of time.

All runs share the axes of time, latency and count. Latency and counts start at 0.
"""

import math
from collections import Counter
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.measures import Answer, Run, span
from reports.pictures import BLUE, GREEN, INK, NARROW_IN, ORANGE, PURPLE, VERMILLION, fill, label
from reports.scale import Scale, scale_of
from scenarios.record import Fault

LARGE_MARKS_MAX = 1_000
"""Above this many requests the marks are drawn at half their size and without rims, which would hide each other."""
FAULT_LABELS_MAX = 4

MARK_STYLE: dict[Answer, tuple[str, str, float]] = {
    Answer.FIRST: ("o", BLUE, 4.5),
    Answer.FAILED_OVER: ("D", ORANGE, 5.0),
    Answer.MAYBE_RUNNING: ("^", VERMILLION, 6.5),
    Answer.ERROR: ("s", PURPLE, 5.5),
    Answer.BREAK: ("X", INK, 7.0),
    Answer.NONE: ("v", GREEN, 6.5),
}
"""Class of answer -> marker, colour, size in points."""

_TITLE_IN, _LATENCY_IN, _STRIP_IN, _GAP_IN, _TICKS_IN, _FOOT_IN = 0.32, 1.75, 0.45, 0.12, 0.36, 0.2
_LEGEND_LINE_IN = 0.185
_LEGEND_COLUMNS = 4


def timeline(runs: Sequence[Run], *, width_in: float) -> Figure:
    """Draw the runs one below the other, the faults shaded where they really were."""
    scale = scale_of(runs)
    columns = 1 if width_in <= NARROW_IN else _LEGEND_COLUMNS
    sheet = _Sheet(width_in, _FOOT_IN + len(runs) * _run_in(scale, columns), columns=columns)
    lowest = [_draw_run(sheet, run, scale) for run in runs][-1]
    hidden = f"  ({scale.hidden_pools} more pools: see the table)" if scale.hidden_pools else ""
    lowest.set_xlabel("seconds since the start of the run" + hidden)
    return sheet.figure


def _run_in(scale: Scale, columns: int) -> float:
    """Return the height that one run takes."""
    legends_in = _legend_in(len(scale.answers), columns) + _LEGEND_LINE_IN + _legend_in(len(scale.deliveries), columns)
    strips_in = len(scale.pools) * (_STRIP_IN + _GAP_IN)
    return _TITLE_IN + legends_in + _LATENCY_IN + _GAP_IN + strips_in + _TICKS_IN


def _legend_in(entries: int, columns: int) -> float:
    return _LEGEND_LINE_IN * math.ceil(entries / columns)


class _Sheet:
    """Places axes from top to bottom in inches: quicker than a layout engine, and it cannot surprise."""

    def __init__(self, width_in: float, height_in: float, *, columns: int) -> None:
        self.figure = Figure(figsize=(width_in, height_in))
        self.columns = columns
        self._width_in, self._height_in = width_in, height_in
        self._left_in = 0.85 if columns == 1 else 1.0
        self._from_top_in = 0.0

    def skip(self, height_in: float) -> None:
        """Leave room."""
        self._from_top_in += height_in

    def axes(self, height_in: float) -> Axes:
        """Add axes below what is there."""
        self.skip(height_in)
        bottom = 1 - self._from_top_in / self._height_in
        width = (self._width_in - self._left_in - 0.15) / self._width_in
        return self.figure.add_axes((self._left_in / self._width_in, bottom, width, height_in / self._height_in))

    def title(self, text: str) -> None:
        """Write a line at the left edge, below what is there."""
        self.skip(_TITLE_IN)
        y = 1 - (self._from_top_in - 0.05) / self._height_in
        shown = label(text, round(self._width_in * 10))
        self.figure.text(0.05 / self._width_in, y, shown, fontsize=11, fontweight="bold", va="bottom")


def _draw_run(sheet: _Sheet, run: Run, scale: Scale) -> Axes:
    """Draw one run below what is there and return its lowest axes."""
    sheet.title(run.title)
    sheet.skip(_legend_in(len(scale.answers), sheet.columns))
    latency = sheet.axes(_LATENCY_IN)
    _draw_latency(latency, run, scale)
    _legend(latency, _answer_legend(run, scale), sheet.columns)
    sheet.skip(_LEGEND_LINE_IN + _legend_in(len(scale.deliveries), sheet.columns) + _GAP_IN)
    strips = [_draw_strip(sheet, run, pool, scale) for pool in scale.pools]
    _legend(strips[0], _delivery_legend(scale), sheet.columns, title=f"sends per {scale.bins.width_s:g} s")
    for axes in (latency, *strips):
        axes.set_xlim(0, scale.end_s)
        if axes is not strips[-1]:
            axes.set_xticks([])
    sheet.skip(_TICKS_IN)
    return strips[-1]


def _draw_latency(axes: Axes, run: Run, scale: Scale) -> None:
    factor, unit = (1.0, "s") if scale.latency_max_s >= 2 else (1000.0, "ms")
    rims = len(run.marks) <= LARGE_MARKS_MAX
    for answer in scale.answers:
        marks = [mark for mark in run.marks if mark.answer is answer]
        marker, colour, size = MARK_STYLE[answer]
        axes.plot(
            [mark.due_s for mark in marks],
            [mark.latency_s * factor for mark in marks],
            linestyle="none",
            marker=marker,
            markersize=size if rims else size / 2,
            markerfacecolor=colour,
            markeredgecolor="white",
            markeredgewidth=0.4 if rims else 0,
            clip_on=False,
            zorder=3,  # above the axis, where a quick answer lies on it
        )
    _name_faults(axes, run.record.faults)
    named = min(len(run.record.faults), FAULT_LABELS_MAX)
    axes.set_ylim(0, scale.latency_max_s * factor * (1.08 + 0.14 * named))
    axes.set_ylabel(f"latency ({unit})")
    if not run.marks:
        axes.text(0.5, 0.4, "no requests", ha="center", va="center", transform=axes.transAxes)


def _name_faults(axes: Axes, faults: Sequence[Fault]) -> None:
    """Shade the faults and name the first few, each in a row of its own."""
    for row, fault in enumerate(faults):
        _shade(axes, fault)
        if row >= FAULT_LABELS_MAX:
            continue
        made = "" if fault.t_inject is not None else " (not made)"
        axes.annotate(
            label(f"{fault.name}: {fault.target}{made}", 28),
            (sum(span(fault)) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -3 - 12 * row),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8.5,
        )


def _shade(axes: Axes, fault: Fault) -> None:
    start_s, end_s = span(fault)
    if fault.t_inject is None:
        axes.axvspan(start_s, end_s, facecolor="none", edgecolor="#888888", linestyle="--", linewidth=0.8, zorder=0)
    else:
        axes.axvspan(start_s, end_s, facecolor="#f0d9d9", edgecolor="none", zorder=0)


def _draw_strip(sheet: _Sheet, run: Run, pool: str, scale: Scale) -> Axes:
    sheet.skip(_GAP_IN)
    axes = sheet.axes(_STRIP_IN)
    sends = scale.bins.sends(run, pool)
    below: Counter[int] = Counter()
    for delivery in scale.deliveries:
        counts = {place: count for (kind, place), count in sends.items() if kind == delivery}
        axes.bar(
            [scale.bins.start_s(place) for place in counts],
            list(counts.values()),
            width=scale.bins.width_s * 0.94,
            bottom=[below[place] for place in counts],
            align="edge",
            **fill(delivery),
        )
        below.update(counts)
    for fault in run.record.faults:
        if fault.target == pool:
            _shade(axes, fault)
    axes.set_ylim(0, scale.sends_max * 1.3)
    axes.set_yticks([0, scale.sends_max])
    axes.set_ylabel(f"pool\n{label(pool, 9)}", rotation=0, ha="right", va="center", labelpad=8)
    return axes


def _answer_legend(run: Run, scale: Scale) -> list[Artist]:
    styles = [(answer, *MARK_STYLE[answer]) for answer in scale.answers]
    return [
        Line2D([], [], ls="none", marker=marker, color=colour, ms=size, label=f"{answer.value}: {run.classes[answer]}")
        for answer, marker, colour, size in styles
    ]


def _delivery_legend(scale: Scale) -> list[Artist]:
    return [Patch(label=label(delivery, 16), **fill(delivery)) for delivery in scale.deliveries]


def _legend(axes: Axes, handles: list[Artist], columns: int, title: str | None = None) -> None:
    axes.legend(
        handles=handles,
        title=title,
        title_fontsize=9,
        alignment="left",
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        borderaxespad=0.15,
        borderpad=0,
        labelspacing=0.25,
        handletextpad=0.4,
        columnspacing=1.4,
    )
