"""Verb: check."""

import argparse
import json
import math
import textwrap
from typing import Final

from scenarios.load import load
from scenarios.presets import preset_names
from scenarios.static.figures import figures_of
from scenarios.static.findings import findings_of
from scenarios.static.of_preset import known, of_presets
from scenarios.static.of_scenario import of_scenario
from scenarios.static.stack import Stack
from scenarios.static.text import WIDTH_MAX, as_data, as_text
from scenarios.usage import Parser, UsageError

EXIT_FOUND: Final = 1
POOLS_MAX: Final = 16
CLIENTS_MAX: Final = 100_000
SDK: Final = "openai-3.x"


def check(argv: list[str]) -> int:
    """Check a stack without running it; exit code 1 if a finding is an error. Raises UsageError and LoadError."""
    arguments = _parser().parse_args(argv)
    if arguments.list_presets:
        print(_presets())
        return 0
    stack = _stack(arguments)
    figures = figures_of(stack)
    findings = findings_of(stack, figures)
    if arguments.json:
        print(json.dumps(as_data(stack, figures, findings), indent=2))
    else:
        print(as_text(stack, figures, findings))
    return EXIT_FOUND if any(finding.severity == "error" for finding in findings) else 0


def _parser() -> Parser:
    parser = Parser(
        prog="pooldrill check",
        description="Tell what a stack of retrying layers can do at worst, in milliseconds and without running it.",
    )
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO|FILE.toml", help="a scenario, or a file")
    parser.add_argument(
        "--preset", action="append", metavar="NAME", help="instead: what the field ships; again for a layer below it"
    )
    parser.add_argument("--rate", type=_positive, metavar="RPS", help="operations a second, in place of the file's")
    parser.add_argument("--clients", type=_clients, metavar="N", help="presets: clients, each with its own budget")
    parser.add_argument("--pools", type=_pools, metavar="N", help="presets: number of pools")
    parser.add_argument("--capacity", type=_positive, metavar="RPS", help="presets: what one pool serves a second")
    parser.add_argument("--json", action="store_true", help="print figures and findings as JSON")
    parser.add_argument("--list-presets", action="store_true", help="list the presets with their worst cases")
    return parser


def _stack(arguments: argparse.Namespace) -> Stack:
    if (arguments.scenario is None) == (arguments.preset is None):
        raise UsageError("give a scenario or a preset, and not both; remedy: see pooldrill check --help")
    if arguments.preset is not None:
        return of_presets(
            arguments.preset,
            rate_rps=arguments.rate,
            clients=arguments.clients or 1,
            pools=arguments.pools,
            capacity_rps=arguments.capacity,
        )
    for option in ("clients", "pools", "capacity"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option} is for presets; remedy: leave it out, the file says it itself")
    return of_scenario(load(arguments.scenario), rate_rps=arguments.rate)


def _presets() -> str:
    width = max(map(len, preset_names()))
    lines = [f"{'preset':<{width}}  sends  behind SDK  what it is"]
    for name in preset_names():
        sends = figures_of(of_presets([name])).sends_max
        behind = "-" if name.startswith("openai") or len(known(name).layers) > 1 else _behind(name)
        row = f"{name:<{width}}  {sends:>5}  {behind:>10}  "
        lines += textwrap.wrap(row + known(name).title, WIDTH_MAX, subsequent_indent=" " * len(row))
    told = f"sends: of one operation, at most; behind SDK: with {SDK} on top of it"
    return "\n".join([*lines, "", told])


def _behind(name: str) -> str:
    return str(figures_of(of_presets([SDK, name])).sends_max)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _pools(text: str) -> int:
    return _whole(text, POOLS_MAX)


def _clients(text: str) -> int:
    return _whole(text, CLIENTS_MAX)


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)
