"""The front door: a table of verbs, each imported when it is used.

Only this module and the root conftest.py know both runners. Exit codes: 0 fine; 1 a check failed; 2 bad input or usage;
3 environment (port, tool, machine too busy); 130 interrupted; 141 nobody reads the output any more.
"""

import difflib
import functools
import importlib
import os
import sys
import textwrap
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scenarios.campaign import Runner
    from scenarios.measures.measured import Measured
    from scenarios.record import Mode, Record
    from scenarios.spec import Scenario

INTERRUPTED = 130
NOBODY_READS = 141
"""What a shell says of a program that ended because its output was closed, as by `| head`."""


class Verb(NamedTuple):
    """Where a verb is: `function(argv) -> exit code` in `module`; and what it does, in one line."""

    module: str
    function: str
    help: str


VERBS = {
    "compare": Verb(__name__, "compare", "run a scenario for real and as a model, write the report"),
    "drill": Verb("chaos.cli", "drill", "run a scenario for real: router, pools, Toxiproxy, clients"),
    "check": Verb("scenarios.static.cli", "check", "tell what retries can do at worst, without running anything"),
    "simulate": Verb(__name__, "simulate", "run a scenario as a model, in milliseconds"),
    "report": Verb("reports.cli", "report", "write the report of records that are there"),
    "list": Verb("scenarios.cli", "list_", "list the scenarios"),
    "schema": Verb("scenarios.cli", "schema", "print the JSON Schema of scenario files"),
    "serve": Verb("router.cli", "serve", "start the reference router alone"),
    "doctor": Verb("chaos.cli", "doctor", "check that this machine can run drills"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    try:
        code = _main(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at its end; by then nothing may be left that cannot be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    return code


def _main(argv: list[str]) -> int:
    verb, *rest = argv or [""]
    if verb in ("-h", "--help", "help"):
        print(_help())
        return 0
    if verb == "--version":
        print(f"pooldrill {version()}")
        return 0
    if verb not in VERBS:
        print(_unknown(verb), file=sys.stderr)
        return 2
    try:
        return _run(VERBS[verb], rest)
    except KeyboardInterrupt:
        print(f"pooldrill {verb}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        # Errors that a user can do something about carry their exit code; all others are defects and show their stack.
        code = getattr(error, "exit_code", None)
        if not isinstance(code, int):
            raise
        print(f"pooldrill {verb}: {error}", file=sys.stderr)
        return code


def _run(verb: Verb, argv: list[str]) -> int:
    function = getattr(importlib.import_module(verb.module), verb.function)
    code: int = function(argv)
    return code


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = [f"  {name:<{width}}  {verb.help}" for name, verb in VERBS.items()]
    return "\n".join(
        [
            "usage: pooldrill VERB ...",
            "",
            "Failover drills for LLM inference gateways: real faults, a model of the same",
            "decisions, both side by side.",
            "",
            *verbs,
            "",
            "pooldrill VERB --help tells more of one verb; pooldrill --version the version.",
        ]
    )


def version() -> str:
    """Return Pooldrill's version: the checkout's if this is one, else that of what is installed."""
    project = Path(__file__).with_name("pyproject.toml")
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("pooldrill")


def _unknown(verb: str) -> str:
    if not verb:
        return "pooldrill: no verb given; remedy: see pooldrill --help"
    meant = difflib.get_close_matches(verb, VERBS, n=1)
    return f"pooldrill: no verb {verb!r}; remedy: " + (f"did you mean {meant[0]}?" if meant else "see pooldrill --help")


# The imports below come late so that `pooldrill list` does not wait for pandas, nor `pooldrill serve` for simpy.


def real(scenario: "Scenario", out: Path, *, router_command: "Sequence[str] | None" = None) -> "Record":
    """Run a scenario for real, with another router if one is given."""
    from chaos.drill import run  # noqa: PLC0415 - late, see above

    return run(scenario, out, router_command=router_command)


def simulated(scenario: "Scenario", out: Path) -> "Record":
    """Run a scenario as a model."""
    from simulator.run import run  # noqa: PLC0415 - late, see above

    return run(scenario, out)


def simulate(argv: list[str]) -> int:
    """Run a scenario as a model; one with layers gets a picture too."""
    from simulator import cli  # noqa: PLC0415 - late, see above

    return cli.simulate(argv, _draw_chain)


def _draw_chain(measured: "Measured", path: Path) -> None:
    from reports.chain_timeline import write_timeline  # noqa: PLC0415 - late, see above

    write_timeline(measured, path)


RUNNERS: "Mapping[Mode, Runner]" = {"real": real, "simulated": simulated}


def compare(argv: list[str]) -> int:
    """Run a scenario both ways, print the verdicts and the path of the report."""
    from reports.page import write_report  # noqa: PLC0415 - late, see above
    from scenarios import campaign, fitness, options, verdicts  # noqa: PLC0415 - late, see above

    parser = options.scenario_parser("compare", VERBS["compare"].help)
    options.add_router_command(parser)
    args = parser.parse_args(argv)
    scenario = options.chosen(args)
    options.must_be_real(scenario)
    _make(args.out)
    print(f"{scenario.name}: {scenario.title} (seed {scenario.seed})")
    print(f"running the model, then the real drill ({scenario.duration_s:.0f} s and its start) ...", flush=True)
    comparison = campaign.compare(scenario, _runners(args.router_command), args.out)
    report = write_report(
        real=comparison.real, simulated=comparison.simulated, out=args.out, verdicts=comparison.verdicts
    )
    print(verdicts.table(comparison.verdicts))
    if told := fitness.tries_told(comparison.real):
        print(told)
    print(textwrap.fill(report.sentence, verdicts.WIDTH_MAX, break_long_words=False, break_on_hyphens=False))
    print(f"report: {report.page}")
    return 0 if comparison.passed else 1


def _runners(router_command: "Sequence[str] | None") -> "Mapping[Mode, Runner]":
    if router_command is None:
        return RUNNERS
    return {**RUNNERS, "real": functools.partial(real, router_command=router_command)}


def _make(out: Path) -> None:
    """Make the directory for results: better an error now than after the run. Raises OutError."""
    from scenarios.usage import OutError  # noqa: PLC0415 - late, see above

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutError(out, error) from None


if __name__ == "__main__":
    sys.exit(main())
