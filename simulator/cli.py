"""Command line of the model: `pooldrill simulate SCENARIO|FILE.toml [--out DIR] [--seed N]`.

Exit codes: 0 every check passed, 1 one did not, 2 bad input, 3 the record cannot be written.
"""

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from scenarios.checks import judge
from scenarios.load import LoadError, load, problems
from scenarios.record import record_path
from scenarios.spec import Scenario
from scenarios.verdicts import WIDTH_MAX, table
from simulator.run import run

EXIT_CHECK_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 3
_SEED_MAX: Final = 2**63 - 1


class _UsageError(ValueError):
    """Bad input, said in one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Refuse bad input in one line instead of argparse's page."""
        raise _UsageError(f"{message.removeprefix('argument ')}; remedy: see {self.prog} --help")


def simulate(argv: list[str]) -> int:
    """Run one scenario as a model and print what the checks say of it."""
    try:
        arguments = _parser().parse_args(argv)
        scenario = _scenario(arguments.scenario, arguments.seed)
    except (_UsageError, LoadError) as error:
        print(f"simulate: {error}", file=sys.stderr)
        return EXIT_USAGE
    path = record_path(arguments.out, scenario.name, "simulated")
    try:
        record = run(scenario, arguments.out)
    except OSError as error:
        print(f"simulate: {path}: {error.strerror}; remedy: name another directory with --out", file=sys.stderr)
        return EXIT_ENVIRONMENT
    verdicts = judge(record)
    print(textwrap.fill(f"{scenario.name}: {scenario.title} (seed {scenario.seed})", WIDTH_MAX))
    print(table({"simulated": verdicts}))
    print(f"record: {path}")
    return 0 if all(verdict.passed for verdict in verdicts.values()) else EXIT_CHECK_FAILED


def _parser() -> _Parser:
    parser = _Parser(
        prog="pooldrill simulate",
        description="Run a scenario as a model: the same decisions as the router's, in milliseconds.",
        allow_abbrev=False,
    )
    parser.add_argument("scenario", metavar="SCENARIO|FILE.toml", help="a scenario of the catalog, or a file")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="where the record goes (%(default)s)"
    )
    parser.add_argument("--seed", type=_seed, metavar="N", help="in place of the scenario's own")
    return parser


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _SEED_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63 - 1")
    return int(text)


def _scenario(name: str, seed: int | None) -> Scenario:
    """Load a scenario, with another seed if one is given. Raises LoadError or a one-line usage error."""
    scenario = load(name)
    if seed is None:
        return scenario
    scenario = msgspec.structs.replace(scenario, seed=seed)
    for problem in problems(scenario):  # arrivals that are drawn can break a rule that the scenario's own kept
        raise _UsageError(f"--seed {seed}: {problem.key}: {problem.what}; remedy: {problem.remedy}, or another seed")
    return scenario
