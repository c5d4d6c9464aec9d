"""One modelled run of a scenario, from the description to the record."""

from pathlib import Path

from scenarios.plan import plan
from scenarios.record import Record, record_path, write
from scenarios.spec import Scenario
from simulator.chain.run import record_of
from simulator.collect import collect
from simulator.model import Model


def run(scenario: Scenario, out: Path) -> Record:
    """Run a scenario as a model and write its record to OUT/NAME.simulated.jsonl. Raises OSError if it cannot.

    A scenario with layers is run by the queue-level model (chain/), any other by the readable one.
    """
    record = record_of(scenario) if scenario.layers else _readable(scenario)
    write(record, record_path(out, scenario.name, "simulated"))
    return record


def _readable(scenario: Scenario) -> Record:
    planned = plan(scenario)
    model = Model(scenario, planned)
    model.run()
    return collect(scenario, planned, model.journal, [fault.row() for fault in model.faults], model.policy)
