import itertools
import struct
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from msgspec.structs import replace

from reports import pictures
from reports.measures import Answer, Run
from reports.pictures import BARS_IN, DELIVERY_STYLE, NARROW_IN, WIDE_IN, bars, label, png
from reports.timeline import FAULT_LABELS_MAX, MARK_STYLE, timeline
from router.core.delivery import Delivery
from scenarios.record import Record
from tests.reports.records import as_real, fault_not_made, modelled, nothing_happened, repeated

LOAD = "refused_under_load"


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with pictures.style():
        yield


def both(name: str = "refused") -> list[Run]:
    return [Run(as_real(modelled(name))), Run(modelled(name))]


def width_and_height(picture: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.mark.parametrize("width_in", [WIDE_IN, NARROW_IN])
def test_a_timeline_has_two_pixels_for_each_css_pixel(width_in: float) -> None:
    width, height = width_and_height(png(timeline(both(), width_in=width_in)))
    assert width == pytest.approx(width_in * 96 * 2, abs=1)
    assert 500 < height < 3000


def test_a_users_own_settings_of_matplotlib_change_nothing() -> None:
    expected = png(bars(both()))
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "savefig.dpi": 30, "figure.dpi": 30}):
        with pictures.style():
            assert png(bars(both())) == expected
        assert mpl.rcParams["font.size"] == 30


def test_pictures_do_not_say_what_made_them() -> None:
    assert b"tEXt" not in png(bars(both()))


def _ends(figure: Figure) -> list[tuple[float, float]]:
    return [axes.get_xlim() for axes in figure.axes]


def test_all_axes_start_at_zero_and_share_their_time() -> None:
    figure = timeline(both(LOAD), width_in=WIDE_IN)
    assert len(set(_ends(figure))) == 1
    assert all(axes.get_xlim()[0] == 0 for axes in figure.axes)
    assert all(axes.get_ylim()[0] == 0 for axes in figure.axes)


def test_real_and_model_have_equal_axes_of_latency_and_count() -> None:
    axes = timeline(both(LOAD), width_in=WIDE_IN).axes
    upper, lower = axes[: len(axes) // 2], axes[len(axes) // 2 :]
    assert [one.get_ylim() for one in upper] == [one.get_ylim() for one in lower]


def test_every_request_is_a_mark() -> None:
    figure = timeline([Run(modelled(LOAD))], width_in=WIDE_IN)
    assert sum(np.size(line.get_xdata()) for line in figure.axes[0].lines) == len(modelled(LOAD).requests)


def test_every_send_is_in_a_strip() -> None:
    figure = timeline([Run(modelled(LOAD))], width_in=WIDE_IN)
    bars_of_strips = [bar for axes in figure.axes[1:] for container in axes.containers for bar in container]
    assert sum(bar.get_height() for bar in bars_of_strips) == len(modelled(LOAD).sends)


@pytest.mark.parametrize("width_in", [WIDE_IN, NARROW_IN])
def test_nothing_is_drawn_outside_the_sheet(width_in: float) -> None:
    figure = timeline(both(LOAD), width_in=width_in)
    figure.draw_without_rendering()
    sheet = figure.bbox
    texts = [text for axes in figure.axes for text in [*axes.texts, axes.yaxis.label, axes.xaxis.label]]
    for text in filter(Text.get_text, texts):
        box = text.get_window_extent()
        assert sheet.x0 <= box.x0 <= box.x1 <= sheet.x1, text
        assert sheet.y0 <= box.y0 <= box.y1 <= sheet.y1, text


@pytest.mark.parametrize("width_in", [WIDE_IN, NARROW_IN])
def test_legends_and_plots_do_not_overlap(width_in: float) -> None:
    figure = timeline(both(LOAD), width_in=width_in)
    figure.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in figure.axes]
    legends = [legend.get_window_extent() for axes in figure.axes if (legend := axes.get_legend()) is not None]
    titles = [text.get_window_extent() for text in figure.texts]
    assert not [1 for legend in legends for other in boxes + titles if _overlap(legend, other)]
    assert all(figure.bbox.x0 <= legend.x0 and legend.x1 <= figure.bbox.x1 for legend in legends)


def _overlap(one: mpl.transforms.BboxBase, other: mpl.transforms.BboxBase) -> bool:
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return wide > 1 and high > 1


def test_colour_never_stands_alone() -> None:
    assert len({marker for marker, _, _ in MARK_STYLE.values()}) == len(MARK_STYLE) == len(Answer)
    assert len({hatch for _, hatch in DELIVERY_STYLE.values()}) == len(DELIVERY_STYLE)
    assert set(DELIVERY_STYLE) == set(Delivery)


NAMES = ("$\\frac{1}{0}$", "\u6c60\u5b50", "a\nb\x00", "<script>", "x" * 300, "_hidden", "%s{}\\")


def test_any_name_can_be_drawn() -> None:
    record = modelled("refused")
    names = itertools.cycle(NAMES)
    sends = [replace(send, pool=(name := next(names)), delivery=name) for send in record.sends]
    faults = [replace(record.faults[0], name=name, target=name) for name in NAMES[:FAULT_LABELS_MAX]]
    odd = Run(Record(replace(record.meta, mode="real", router=NAMES[0]), [*record.requests, *sends, *faults]))
    png(timeline([odd], width_in=NARROW_IN))
    png(bars([odd]))


def test_labels_are_short_and_of_characters_that_the_font_has() -> None:
    assert label("a\tb\u6c60") == "a?b?"
    assert label("x" * 50, 5) == "xxxx\u2026"
    assert label("caf\u00e9") == "caf\u00e9"


@pytest.mark.parametrize("change", [nothing_happened, fault_not_made])
def test_runs_without_requests_or_faults_have_pictures_too(change: object) -> None:
    run = Run(change(modelled("refused")))  # type: ignore[operator]  # one of two functions
    assert width_and_height(png(timeline([run], width_in=WIDE_IN)))[0] > 0
    assert width_and_height(png(bars([run])))[0] == pytest.approx(BARS_IN * 192, abs=1)


def test_many_faults_and_pools_keep_a_picture_of_bounded_height() -> None:
    record = modelled("refused")
    faults = [replace(record.faults[0], target=f"pool_{turn}") for turn in range(16)]
    sends = [replace(send, pool=f"pool_{turn % 16}") for turn, send in enumerate(record.sends * 4)]
    run = Run(Record(record.meta, [*record.requests, *sends, *faults]))
    assert width_and_height(png(timeline([run], width_in=WIDE_IN)))[1] < 1500


def test_thousands_of_requests_make_a_small_picture() -> None:
    run = Run(repeated(modelled(LOAD), 100))
    assert len(run.marks) == 9000
    assert len(png(timeline([run], width_in=WIDE_IN))) < 500_000
