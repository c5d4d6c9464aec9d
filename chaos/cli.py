"""Command line of the real run: `pooldrill drill SCENARIO|FILE.toml` and `pooldrill doctor`.

Exit codes: 0 every check passed, 1 one did not; errors carry theirs: 2 bad input, 3 the environment (a tool, a port, a
busy machine).
"""

import asyncio
import sys
import textwrap
from typing import Final

from chaos.machine import Finding
from chaos.provision import ensure_server
from scenarios.checks import judge
from scenarios.options import add_router_command, chosen, must_be_real, scenario_parser
from scenarios.record import record_path
from scenarios.usage import OutError, Parser
from scenarios.verdicts import WIDTH_MAX, table

EXIT_CHECK_FAILED: Final = 1
EXIT_ENVIRONMENT: Final = 3
_NAME_WIDTH: Final = 18


def drill(argv: list[str]) -> int:
    """Run one scenario for real and print what the checks say of it."""
    description = "Run a scenario for real: router, fake pools, Toxiproxy and clients, on loopback only."
    parser = scenario_parser("drill", description)
    add_router_command(parser)
    arguments = parser.parse_args(argv)
    scenario = chosen(arguments)
    must_be_real(scenario)
    ensure_server(report=_tell)
    # Only now: a usage error should not wait for the imports of a whole run.
    from chaos.drill import latest, run  # noqa: PLC0415

    print(textwrap.fill(f"{scenario.name}: {scenario.title} (seed {scenario.seed})", WIDTH_MAX))
    _tell(f"running for real, {scenario.duration_s:g} s and the start of all processes ...")
    path = record_path(arguments.out, scenario.name, "real")
    try:
        record = run(scenario, arguments.out, router_command=arguments.router_command)
    except OSError as error:
        raise OutError(path, error) from error
    verdicts = judge(record)
    print(table({"real": verdicts}))
    if (late := latest(record)) is not None:
        print(f"loop lag: at most {late.value:.3f} s ({late.source} at {late.t:.1f} s), try {record.meta.tries}")
    print(f"record: {path}")
    return 0 if all(verdict.passed for verdict in verdicts.values()) else EXIT_CHECK_FAILED


def doctor(argv: list[str]) -> int:
    """Examine this machine and print every finding."""
    description = "Check that this machine can run drills: every fault is made and proved once."
    Parser(prog="pooldrill doctor", description=description).parse_args(argv)
    from chaos.doctor import examine  # noqa: PLC0415 - late, as above

    findings = asyncio.run(examine())
    for finding in findings:
        print(_shown(finding))
    bad = sum(not finding.ok for finding in findings)
    print(f"{bad} of {len(findings)} findings need a remedy" if bad else "this machine can run drills")
    return EXIT_ENVIRONMENT if bad else 0


def _shown(finding: Finding) -> str:
    """Lay out a finding as at most 80 columns of text, with its remedy if it is bad."""
    first = f"{'ok' if finding.ok else 'BAD':<4}{finding.name:<{_NAME_WIDTH}}"
    told = finding.detail if finding.ok else f"{finding.detail}; remedy: {finding.remedy}"
    return textwrap.fill(
        told, WIDTH_MAX, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
