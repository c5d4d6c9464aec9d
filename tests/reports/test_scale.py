import pytest
from msgspec.structs import replace

from reports.measures import Run
from reports.scale import BINS_MAX, STRIPS_MAX, Bins, scale_of
from scenarios.record import Record
from tests.reports.records import as_real, modelled, nothing_happened


def test_the_first_fault_begins_with_a_bin() -> None:
    bins = scale_of([Run(modelled("refused"))]).bins
    assert bins.start_s(0) == modelled("refused").faults[0].planned_inject


@pytest.mark.parametrize(("at_s", "place"), [(1.0, 0), (1.1999, 0), (1.2, 1), (0.999, -1), (0.8, -1), (1.6, 3)])
def test_a_moment_on_an_edge_belongs_to_the_later_bin(at_s: float, place: int) -> None:
    assert Bins(width_s=0.2, from_s=1.0).place(at_s) == place


def test_no_send_is_lost_in_bins() -> None:
    run = Run(modelled("refused_under_load"))
    scale = scale_of([run])
    assert sum(scale.bins.sends(run, pool).total() for pool in scale.pools) == len(run.record.sends)


@pytest.mark.parametrize("duration_s", [0.5, 3.6, 59.0, 3600.0])
def test_bins_are_few_however_long_the_run(duration_s: float) -> None:
    record = modelled("refused")
    longer = Record(replace(record.meta, scenario=replace(record.scenario, duration_s=duration_s)), ())
    scale = scale_of([Run(longer)])
    assert scale.end_s / scale.bins.width_s <= BINS_MAX + 1e-9


def test_both_runs_share_one_scale() -> None:
    model = Run(modelled("refused"))
    real = Run(as_real(modelled("refused")))
    scale = scale_of([real, model])
    assert scale.latency_max_s == max(mark.latency_s for mark in real.marks)
    assert scale.pools == ("east", "west")


def test_pools_with_a_fault_come_before_busy_ones_when_there_are_too_many() -> None:
    record = modelled("refused")
    sends = [replace(send, pool=f"pool_{turn % 9}") for turn, send in enumerate(record.sends * 9)]
    scale = scale_of([Run(Record(record.meta, [*record.faults, *sends]))])
    assert len(scale.pools) == STRIPS_MAX
    assert "east" in scale.pools
    assert scale.hidden_pools == 11 - STRIPS_MAX


def test_an_empty_run_has_axes_all_the_same() -> None:
    scale = scale_of([Run(nothing_happened(modelled("refused")))])
    assert scale.end_s > 0
    assert scale.latency_max_s > 0
    assert scale.sends_max > 0
