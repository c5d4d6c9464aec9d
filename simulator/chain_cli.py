"""What the verb simulate does with a scenario of layers."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

from scenarios.checks import judge
from scenarios.measures.checks import measured_of
from scenarios.measures.measured import Measured
from scenarios.record import record_path
from scenarios.spec import Scenario
from scenarios.static.figures import figures_of
from scenarios.static.of_scenario import of_scenario
from scenarios.usage import OutError, UsageError
from scenarios.verdicts import table
from simulator.chain_text import (
    attempts_line,
    class_line,
    console,
    filled,
    known_lines,
    measures_table,
    replications_lines,
    replications_table,
    say,
    stack_table,
    warm_up_line,
)
from simulator.replications import AUTO, replications
from simulator.run import run

PROCESSES_MAX: Final = 256
REPLICATIONS_ASKED_MAX: Final = 10_000
EXIT_CHECK_FAILED: Final = 1

Draw = Callable[[Measured, Path], None]
"""Draws the timeline of a run into a file."""


def add_replications(parser: argparse.ArgumentParser) -> None:
    """Let a verb make many runs."""
    parser.add_argument(
        "--replications",
        type=_replications,
        metavar="N|auto",
        help="scenarios with layers: so many runs, and intervals",
    )
    parser.add_argument("--processes", type=_processes, default=1, metavar="N", help="processes that make them")
    parser.add_argument("--no-picture", action="store_true", help="do not draw the timeline of scenarios with layers")


def refuse_replications(arguments: argparse.Namespace) -> None:
    """Refuse options that mean nothing without layers. Raises UsageError."""
    if arguments.replications is not None:
        raise UsageError("--replications: the scenario has no layers and draws nothing; remedy: leave it out")


def simulate_chain(scenario: Scenario, arguments: argparse.Namespace, draw: Draw | None) -> int:
    """Run a scenario with layers, print the stack and what was measured, and draw its timeline. Raises OutError."""
    path = record_path(arguments.out, scenario.name, "simulated")
    try:
        record = run(scenario, arguments.out)
    except OSError as error:
        raise OutError(path, error) from error
    out, measured = console(), measured_of(record)
    _show(out, scenario, measured)
    for line in known_lines(record):
        say(out, filled(line))
    wanted = arguments.replications or (scenario.replications if scenario.replications > 1 else None)
    if wanted is not None:
        _show_replications(out, scenario, wanted, arguments.processes)
    verdicts = judge(record)
    say(out, table({"simulated": verdicts}))
    say(out, f"record: {path}")
    if draw is not None and not arguments.no_picture:
        say(out, f"picture: {_drawn(draw, measured, arguments.out / f'{scenario.name}.timeline.png')}")
    return 0 if all(verdict.passed for verdict in verdicts.values()) else EXIT_CHECK_FAILED


def _show(out: Console, scenario: Scenario, measured: Measured) -> None:
    stack = of_scenario(scenario)
    say(out, filled(f"{scenario.name}: {scenario.title} (seed {scenario.seed})"))
    say(out)
    out.print(stack_table(stack))
    say(out)
    say(out, filled(attempts_line(stack, figures_of(stack))))
    say(out)
    out.print(measures_table(measured))
    say(out)
    if left_out := warm_up_line(measured):
        say(out, left_out)
    out.print(class_line(measured))


def _show_replications(out: Console, scenario: Scenario, wanted: int | str, processes: int) -> None:
    found = replications(scenario, wanted, processes=processes)
    say(out)
    out.print(replications_table(found))
    say(out)
    for line in replications_lines(found):
        say(out, filled(line))


def _drawn(draw: Draw, measured: Measured, path: Path) -> Path:
    try:
        draw(measured, path)
    except OSError as error:
        raise OutError(path, error) from error
    return path


def _replications(text: str) -> int | str:
    if text == AUTO:
        return text
    return _whole(text, REPLICATIONS_ASKED_MAX)


def _processes(text: str) -> int:
    return _whole(text, PROCESSES_MAX)


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)
