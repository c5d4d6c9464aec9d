"""The timeline of a chain: the panels it has, that it says what it shows, and that it is the same each time."""

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports import chain_timeline
from reports.chain_timeline import MARKS_MAX, timeline
from reports.pictures import png, style
from scenarios.layers import Layer
from scenarios.measures.measured import Measured
from scenarios.spec import Fault, Scenario, Slo
from simulator.replications import measured
from tests.simulator.chains import chain, pool


def outage() -> Scenario:
    return chain(
        Layer(name="sdk", retries=1, attempt_timeout_s=1.0),
        rate_rps=40.0,
        operations=2400,
        arrivals="poisson",
        pools=(pool(mean_s=0.015, cancel="never"),),
        faults=(Fault(kind="capacity_loss", pool="east", inject_s=15.0, clear_s=20.0, share=1.0),),
        slo=Slo(total_s=1.0),
    )


def drawn(found: Measured) -> Figure:
    with style():
        return timeline(found)


def words(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


@pytest.fixture(scope="module")
def found() -> Measured:
    return measured(outage(), 0)


def test_every_panel_says_what_it_shows(found: Measured) -> None:
    figure = drawn(found)
    labels = {axes.get_ylabel() for axes in figure.axes}
    assert labels == {"a user waits (s)", "in time (%)", "sends a second", "waiting", "work for nobody (%)"}
    said = [word for axes in figure.axes for word in words(axes)]
    assert "without the fault" in said
    assert "capacity 66.7/s" in said
    assert "SLO 1 s" in said
    head = [text.get_text() for text in figure.texts]
    assert head[0] == "chain: a chain"
    assert head[1].startswith("sdk: 2 sends at most (2); first request that met the fault: 2.0 s; ")


def test_all_panels_share_the_axis_of_time(found: Measured) -> None:
    spans = {axes.get_xlim() for axes in drawn(found).axes}
    assert len(spans) == 1


def test_operations_are_all_counted_where_not_all_are_drawn(found: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(found.good) < MARKS_MAX
    monkeypatch.setattr(chain_timeline, "MARKS_MAX", 100)
    first = drawn(found).axes[0]
    marks = [line for line in first.get_lines() if line.get_linestyle() == "None"]
    assert all(len(line.get_xdata()) <= 100 for line in marks)  # type: ignore[arg-type]  # one number each
    counted = sum(int(word.rsplit(": ", 1)[1].replace(",", "")) for word in words(first) if ": " in word)
    assert counted == len(found.good)


def test_a_run_without_fault_or_queue_has_less_to_show() -> None:
    plain = measured(chain(Layer(name="sdk"), operations=200, pools=(pool(slots=None),)), 0)
    figure = drawn(plain)
    assert len(figure.axes) == 3
    assert "class" not in figure.texts[1].get_text()


def test_the_same_run_is_drawn_by_the_same_bytes(found: Measured) -> None:
    assert png(drawn(found)) == png(drawn(measured(outage(), 0)))


def test_a_cap_over_the_chain_is_said() -> None:
    layers = [Layer(name=name, retries=2, counts_chain=True) for name in ("sdk", "gateway")]
    figure = drawn(measured(chain(*layers, operations=50, chain_cap=2), 0))
    assert figure.texts[1].get_text() == "sdk > gateway: 3 sends at most (3 x 3, capped at 3)"
