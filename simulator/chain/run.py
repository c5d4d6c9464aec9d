"""One run of the queue-level model: columns for whoever computes, a record for whoever reads."""

from scenarios.record import Arms, Record
from scenarios.spec import Scenario
from simulator.chain.invariants import check
from simulator.chain.model import Model
from simulator.chain.outcome import Outcome, outcome_of
from simulator.chain.rows import rows_of
from simulator.collect import meta_of, metrics_of
from simulator.history import history_of


def run(scenario: Scenario, replication: int = 0, *, faults: bool = True) -> Outcome:
    """Run one replication of a scenario; `faults` false: its control arm, with the same arrivals and draws.

    Raises BrokenModelError if the run breaks a law that no scenario can break.
    """
    model = Model(scenario, replication, faults_on=faults)
    model.run()
    outcome = outcome_of(model, replication)
    check(outcome)
    return outcome


def record_of(scenario: Scenario) -> Record:
    """Run a scenario's first replication and return its record, with the columns of both arms."""
    model = Model(scenario)
    model.run()
    outcome = outcome_of(model, 0)
    check(outcome)
    rows = [*rows_of(outcome, model.ids()), *outcome.faults, *model.told(), *metrics_of(model.tallies())]
    record = Record(meta_of(scenario), rows)
    control = history_of(run(scenario, faults=False)) if scenario.faults else None
    record.arms = Arms(history_of(outcome), control)
    return record
