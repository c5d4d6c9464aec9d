"""What a scenario asks of its measures and its class, as verdicts."""

import math

from scenarios.measures.measured import Measured, Undecided
from scenarios.measures.of_record import of_record
from scenarios.measures.scalars import measure
from scenarios.record import Record
from scenarios.verdict import Verdict, failed, named, passed, undecided


def measured_of(record: Record) -> Measured:
    """Return what is measured of a record, with its control arm where its runner made one."""
    if record.arms is None:
        return Measured(record.scenario, of_record(record))
    return Measured(record.scenario, record.arms.run, record.arms.control)


def expected_measures(record: Record) -> Verdict:
    """Every measure of `expect.measures` lies in its range."""
    return measures_verdict(measured_of(record))


def expected_class(record: Record) -> Verdict:
    """The run is of the class that `expect.run_class` names."""
    return class_verdict(measured_of(record))


def measures_verdict(measured: Measured) -> Verdict:
    """Say whether every measure that the scenario names lies in its range; censored ones count as infinite."""
    if not measured.scenario.expect.measures:
        return undecided("the scenario expects no measures")
    wrong, fine, open_ = [], [], []
    for name, (low, high) in measured.scenario.expect.measures.items():
        try:
            value = measure(measured, name)
        except Undecided as why:
            open_.append(f"{name}: {why}")
            continue
        told = f"{name} {_shown(value)}"
        if low <= value <= high:
            fine.append(told)
        else:
            wrong.append(f"{told}, expected {low:g} to {high:g}")
    if wrong:
        return failed(named(wrong, "; "))
    return undecided(named(open_, "; ")) if open_ else passed(named(fine, ", "))


def class_verdict(measured: Measured) -> Verdict:
    """Say whether the run is of the class that the scenario expects."""
    expected = measured.scenario.expect.run_class
    if expected is None:
        return undecided("the scenario expects no class")
    try:
        judged = measured.judged
    except Undecided as why:
        return undecided(str(why))
    if judged.run_class is None:
        return undecided(judged.why)
    told = judged.run_class + (f": {judged.why}" if judged.why else "")
    return passed(told) if judged.run_class == expected else failed(f"{told}, expected {expected}")


def _shown(value: float) -> str:
    return "not yet at the end of the run" if math.isinf(value) else f"{value:.4g}"
