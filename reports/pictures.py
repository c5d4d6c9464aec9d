"""How pictures look and become bytes: one style, no state of pyplot, and the same bytes for the same records.

matplotlib takes a second or two to import, so only `reports.page` imports this, when a report is really written.
Colours are those of Okabe and Ito, which stay apart in all common kinds of colour blindness; every colour has a shape
or a hatch beside it.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from reports.measures import Run

WIDE_IN, NARROW_IN = 10.4, 3.9
"""Widths of the two editions of the timeline, in inches of 96 CSS pixels: a desk and a telephone."""
BARS_IN = 4.8
"""Width of the bars: they stand beside their table, or fill a telephone."""

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#999999"
INK = "#1a1a1a"

DELIVERY_STYLE = {"answered": (BLUE, ""), "unsent": (ORANGE, "////"), "unknown": (VERMILLION, "xxxx")}
"""Delivery -> colour and hatch."""

LABEL_MAX = 40
_PNG_DPI = 192
_STYLE: dict[str, object] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same glyphs on every machine
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "text.parse_math": False,  # a `$` in a name is a dollar sign
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw with the project's style alone, whatever the user's own matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]  # keys are a Literal that a dict cannot carry
        yield


def png(figure: Figure) -> bytes:
    """Return a picture as PNG of two pixels for each CSS pixel, without date or maker's name."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    return out.getvalue()


def label(text: str, longest: int = LABEL_MAX) -> str:
    """Make a name from a record fit for a picture: one short line of characters that the font has."""
    plain = "".join(char if char.isprintable() and ord(char) < 0x250 else "?" for char in text)
    return plain if len(plain) <= longest else plain[: longest - 1] + "\u2026"


def fill(delivery: str) -> dict[str, Any]:
    """Return how a patch that stands for a delivery is filled."""
    colour, hatch = DELIVERY_STYLE.get(delivery, (GREY, ""))
    face = "white" if hatch else colour
    return {"facecolor": face, "edgecolor": colour, "hatch": hatch, "linewidth": 0.6 if hatch else 0}


def bars(runs: Sequence[Run]) -> Figure:
    """Draw sends by pool and delivery: one bar for each run, in the order of the runs, with its count beside it."""
    keys = sorted({key for run in runs for key in run.deliveries})
    height_in = 0.9 + 0.2 * max(len(keys), 1) * (len(runs) + 0.6)
    figure = Figure(figsize=(BARS_IN, height_in))
    axes = figure.add_axes((1.45 / BARS_IN, 0.55 / height_in, 1 - 1.6 / BARS_IN, 1 - 0.9 / height_in))
    for turn, run in enumerate(runs):
        _bars_of(axes, run, keys, turn, len(runs))
    _finish_bars(axes, keys, runs)
    handles: list[Artist] = [_run_patch(run) for run in runs]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return figure


_MODEL_HATCH = "...."


def _bars_of(axes: Axes, run: Run, keys: list[tuple[str, str]], turn: int, runs: int) -> None:
    height = 0.8 / runs
    places = [row + (turn - (runs - 1) / 2) * height for row in range(len(keys))]
    counts = [run.deliveries[key] for key in keys]
    colours = [DELIVERY_STYLE.get(delivery, (GREY, ""))[0] for _, delivery in keys]
    drawn: BarContainer = axes.barh(places, counts, height=height * 0.92, color=colours, edgecolor="white", linewidth=0)
    if not run.real:
        for bar, colour in zip(drawn, colours, strict=True):
            bar.set(facecolor="white", edgecolor=colour, linewidth=1.2, hatch=_MODEL_HATCH)
    axes.bar_label(drawn, labels=[str(count) for count in counts], padding=3, fontsize=8.5)


def _finish_bars(axes: Axes, keys: list[tuple[str, str]], runs: Sequence[Run]) -> None:
    axes.set_yticks(range(len(keys)), [f"{label(pool, 10)}: {label(delivery, 10)}" for pool, delivery in keys])
    axes.set_ylim(max(len(keys), 1) - 0.5, -0.5)
    axes.set_xlim(0, 1.15 * max([1, *(count for run in runs for count in run.deliveries.values())]))
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("sends (count)")
    if not keys:
        axes.text(0.5, 0.5, "no sends", ha="center", va="center", transform=axes.transAxes)
        axes.set_yticks([])


def _run_patch(run: Run) -> Patch:
    if run.real:
        return Patch(facecolor="#555555", label="real run")
    return Patch(facecolor="white", edgecolor="#555555", hatch=_MODEL_HATCH, label="model")
