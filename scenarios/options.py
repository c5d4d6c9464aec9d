"""Options that several verbs have, and what they stand for."""

import argparse
import shlex
from pathlib import Path
from typing import Final

import msgspec

from scenarios.load import load, problems
from scenarios.spec import Scenario
from scenarios.usage import Parser, UsageError

_SEED_MAX: Final = 2**63 - 1


def scenario_parser(verb: str, description: str) -> Parser:
    """Return the parser of a verb that runs a scenario: its name or file, --seed and --out."""
    parser = Parser(prog=f"pooldrill {verb}", description=description)
    parser.add_argument("scenario", metavar="SCENARIO|FILE.toml", help="a scenario of the catalog, or a file")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="where to write (%(default)s)")
    parser.add_argument("--seed", type=_seed, metavar="N", help="in place of the scenario's own")
    return parser


def add_router_command(parser: Parser) -> None:
    """Let a verb that runs for real be given another router."""
    parser.add_argument(
        "--router-command",
        type=_words,
        metavar="COMMAND",
        help="start another router in place of the reference one; it gets the same options (python -m router --help)",
    )


def chosen(arguments: argparse.Namespace) -> Scenario:
    """Load the scenario, with another seed if one is given. Raises LoadError or UsageError."""
    scenario = load(arguments.scenario)
    seed: int | None = arguments.seed
    if seed is None:
        return scenario
    scenario = msgspec.structs.replace(scenario, seed=seed)
    for problem in problems(scenario):  # arrivals that are drawn can break a rule that the scenario's own kept
        raise UsageError(f"--seed {seed}: {problem.key}: {problem.what}; remedy: {problem.remedy}, or another seed")
    return scenario


def must_be_real(scenario: Scenario) -> None:
    """Refuse a scenario of which there is no real run. Raises UsageError with the reason that it gives itself."""
    if scenario.model_only:
        raise UsageError(
            f"{scenario.name} is only modelled: {scenario.model_only}; remedy: pooldrill simulate {scenario.name}"
        )


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _SEED_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63 - 1")
    return int(text)


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("is empty; give a program and its first arguments")
    return words
