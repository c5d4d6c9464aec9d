"""Command line of the real run: `pooldrill drill SCENARIO|FILE.toml` and `pooldrill doctor`.

Exit codes: 0 every check passed, 1 one did not, 2 bad input, 3 the environment (a tool, a port, a busy machine). What
goes wrong within a run is raised: those errors carry their exit code.
"""

import argparse
import asyncio
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Final, NoReturn

from chaos.machine import Finding
from chaos.provision import ensure_server
from scenarios.checks import judge
from scenarios.load import LoadError, load
from scenarios.record import record_path
from scenarios.verdicts import WIDTH_MAX, table

EXIT_CHECK_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 3
_NAME_WIDTH: Final = 18


class _UsageError(ValueError):
    """Bad input, said in one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Refuse bad input in one line instead of argparse's page."""
        raise _UsageError(f"{message.removeprefix('argument ')}; remedy: see {self.prog} --help")


def drill(argv: list[str]) -> int:
    """Run one scenario for real and print what the checks say of it."""
    try:
        arguments = _drill_parser().parse_args(argv)
        scenario = load(arguments.scenario)
    except (_UsageError, LoadError) as error:
        print(f"drill: {error}", file=sys.stderr)
        return EXIT_USAGE
    ensure_server(report=_tell)
    # Only now: a usage error should not wait for the imports of a whole run.
    from chaos.drill import latest, run  # noqa: PLC0415

    print(textwrap.fill(f"{scenario.name}: {scenario.title} (seed {scenario.seed})", WIDTH_MAX))
    _tell(f"running for real, {scenario.duration_s:g} s and the start of all processes ...")
    path = record_path(arguments.out, scenario.name, "real")
    try:
        record = run(scenario, arguments.out, router_command=arguments.router_command)
    except OSError as error:
        print(f"drill: {path}: {error.strerror}; remedy: name another directory with --out", file=sys.stderr)
        return EXIT_ENVIRONMENT
    verdicts = judge(record)
    print(table({"real": verdicts}))
    if (late := latest(record)) is not None:
        print(f"loop lag: at most {late.value:.3f} s ({late.source} at {late.t:.1f} s), try {record.meta.tries}")
    print(f"record: {path}")
    return 0 if all(verdict.passed for verdict in verdicts.values()) else EXIT_CHECK_FAILED


def doctor(argv: list[str]) -> int:
    """Examine this machine and print every finding."""
    try:
        _doctor_parser().parse_args(argv)
    except _UsageError as error:
        print(f"doctor: {error}", file=sys.stderr)
        return EXIT_USAGE
    from chaos.doctor import examine  # noqa: PLC0415 - late, as above

    findings = asyncio.run(examine())
    for finding in findings:
        print(_shown(finding))
    bad = sum(not finding.ok for finding in findings)
    print(f"{bad} of {len(findings)} findings need a remedy" if bad else "this machine can run drills")
    return EXIT_ENVIRONMENT if bad else 0


def _drill_parser() -> _Parser:
    parser = _Parser(
        prog="pooldrill drill",
        description="Run a scenario for real: router, fake pools, Toxiproxy and clients, on loopback only.",
        allow_abbrev=False,
    )
    parser.add_argument("scenario", metavar="SCENARIO|FILE.toml", help="a scenario of the catalog, or a file")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="where record and logs go (%(default)s)"
    )
    parser.add_argument(
        "--router-command",
        type=_words,
        metavar="COMMAND",
        help="start another router in place of the reference one; it gets the same options (python -m router --help)",
    )
    return parser


def _doctor_parser() -> _Parser:
    return _Parser(
        prog="pooldrill doctor",
        description="Check that this machine can run drills: every fault is made and proved once.",
        allow_abbrev=False,
    )


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("is empty; give a program and its first arguments")
    return words


def _shown(finding: Finding) -> str:
    """Lay out a finding as at most 80 columns of text, with its remedy if it is bad."""
    first = f"{'ok' if finding.ok else 'BAD':<4}{finding.name:<{_NAME_WIDTH}}"
    told = finding.detail if finding.ok else f"{finding.detail}; remedy: {finding.remedy}"
    return textwrap.fill(
        told, WIDTH_MAX, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
