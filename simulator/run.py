"""One modelled run of a scenario, from the description to the record."""

from pathlib import Path

from scenarios.plan import plan
from scenarios.record import Record, record_path, write
from scenarios.spec import Scenario
from simulator.collect import collect
from simulator.model import Model


def run(scenario: Scenario, out: Path) -> Record:
    """Run a scenario as a model and write its record to OUT/NAME.simulated.jsonl. Raises OSError if it cannot."""
    planned = plan(scenario)
    model = Model(scenario, planned)
    model.run()
    record = collect(scenario, planned, model.journal, [fault.row() for fault in model.faults], model.policy)
    write(record, record_path(out, scenario.name, "simulated"))
    return record
