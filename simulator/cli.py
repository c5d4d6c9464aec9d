"""Command line of the model: `pooldrill simulate SCENARIO|FILE.toml [--out DIR] [--seed N] [--replications N|auto]`.

Exit codes: 0 every check passed, 1 one did not; errors carry theirs: 2 bad input, 3 the record cannot be written.
"""

import textwrap
from typing import TYPE_CHECKING, Final

from scenarios.checks import judge
from scenarios.options import chosen, scenario_parser
from scenarios.record import record_path
from scenarios.usage import OutError
from scenarios.verdicts import WIDTH_MAX, table
from simulator import chain_cli
from simulator.run import run

if TYPE_CHECKING:
    import argparse

    from scenarios.spec import Scenario

EXIT_CHECK_FAILED: Final = 1


def simulate(argv: list[str], draw: chain_cli.Draw | None = None) -> int:
    """Run one scenario as a model and print what the checks say of it. Raises LoadError, UsageError, OutError.

    `draw` draws the timeline of a scenario with layers; None: there is no picture.
    """
    description = "Run a scenario as a model: the same decisions as the router's, in milliseconds."
    parser = scenario_parser("simulate", description)
    chain_cli.add_replications(parser)
    arguments = parser.parse_args(argv)
    scenario = chosen(arguments)
    if scenario.layers:
        return chain_cli.simulate_chain(scenario, arguments, draw)
    chain_cli.refuse_replications(arguments)
    return _simulate(scenario, arguments)


def _simulate(scenario: "Scenario", arguments: "argparse.Namespace") -> int:
    path = record_path(arguments.out, scenario.name, "simulated")
    try:
        record = run(scenario, arguments.out)
    except OSError as error:
        raise OutError(path, error) from error
    verdicts = judge(record)
    print(textwrap.fill(f"{scenario.name}: {scenario.title} (seed {scenario.seed})", WIDTH_MAX))
    print(table({"simulated": verdicts}))
    print(f"record: {path}")
    return 0 if all(verdict.passed for verdict in verdicts.values()) else EXIT_CHECK_FAILED
