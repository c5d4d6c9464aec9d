"""A busy machine makes a run unfit, never red; and only where the scenario is exact."""

import msgspec
import pytest

from scenarios.fitness import too_busy
from scenarios.record import Fault, Record, Sample
from tests.scenarios.doctored import as_mode, changed, modelled


def real() -> Record:
    return as_mode(modelled("refused"), "real")


def lagging(record: Record, value: float) -> Record:
    return Record(record.meta, [*record.rows, Sample(kind="loop_lag_s", source="harness", value=value, t=1.0)])


def late(record: Record, **times: float) -> Record:
    return changed(record, Fault, lambda _: True, **times)


def inexact(record: Record) -> Record:
    scenario = msgspec.structs.replace(record.scenario, exact=False)
    return Record(msgspec.structs.replace(record.meta, scenario=scenario), record.rows)


def test_a_quiet_run_is_fit() -> None:
    assert too_busy(lagging(late(real(), t_inject=1.1), 0.1)) == ""


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (lagging(real(), 0.11), "harness was 0.110 s late at 1.0 s, at most 0.1 s"),
        (late(real(), t_inject=1.21), "refused at east came 0.210 s late, at most 0.2 s"),
        (late(real(), t_clear=2.45), "refused at east went 0.250 s late, at most 0.2 s"),
    ],
)
def test_an_exact_run_is_unfit_by_a_late_loop_or_a_late_edge(record: Record, told: str) -> None:
    assert too_busy(record) == f"machine too busy: {told}"
    assert too_busy(inexact(record)) == ""


def test_the_model_has_no_excuse_for_a_late_edge() -> None:
    assert too_busy(late(modelled("refused"), t_inject=1.5)) == ""
