"""The front door: a table of verbs, each imported when it is used.

Only this module and the root conftest.py know both runners. Exit codes: 0 fine; 1 a check failed; 2 bad input or usage;
3 environment (port, tool, machine too busy); 130 interrupted.
"""

import difflib
import importlib
import sys
import textwrap
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scenarios.campaign import Runner
    from scenarios.record import Mode, Record
    from scenarios.spec import Scenario

INTERRUPTED = 130


class OutError(RuntimeError):
    """Results cannot be written where they should be."""

    exit_code = 3


class Verb(NamedTuple):
    """Where a verb is: `function(argv) -> exit code` in `module`; and what it does, in one line."""

    module: str
    function: str
    help: str


VERBS = {
    "compare": Verb(__name__, "compare", "run a scenario for real and as a model, write the report"),
    "drill": Verb("chaos.cli", "drill", "run a scenario for real: router, pools, Toxiproxy, clients"),
    "simulate": Verb("simulator.cli", "simulate", "run a scenario as a model, in milliseconds"),
    "report": Verb("reports.cli", "report", "write the report of records that are there"),
    "list": Verb("scenarios.cli", "list_", "list the scenarios"),
    "schema": Verb("scenarios.cli", "schema", "print the JSON Schema of scenario files"),
    "serve": Verb("router.cli", "serve", "start the reference router alone"),
    "doctor": Verb("chaos.cli", "doctor", "check that this machine can run drills"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    verb, *rest = (sys.argv[1:] if argv is None else argv) or [""]
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
        return f"pooldrill: no verb given; one of {', '.join(VERBS)} (pooldrill --help tells more)"
    meant = difflib.get_close_matches(verb, VERBS, n=1)
    return f"pooldrill: no verb {verb!r}; " + (f"did you mean {meant[0]}?" if meant else f"one of {', '.join(VERBS)}")


# The imports below come late so that `pooldrill list` does not wait for pandas, nor `pooldrill serve` for simpy.


def real(scenario: "Scenario", out: Path) -> "Record":
    """Run a scenario for real."""
    from chaos.drill import run  # noqa: PLC0415 - late, see above

    return run(scenario, out)


def simulated(scenario: "Scenario", out: Path) -> "Record":
    """Run a scenario as a model."""
    from simulator.run import run  # noqa: PLC0415 - late, see above

    return run(scenario, out)


RUNNERS: "Mapping[Mode, Runner]" = {"real": real, "simulated": simulated}


def compare(argv: list[str]) -> int:
    """Run a scenario both ways, print the verdicts and the path of the report."""
    from reports.page import write_report  # noqa: PLC0415 - late, see above
    from scenarios import campaign, load, usage, verdicts  # noqa: PLC0415 - late, see above

    parser = usage.Parser(prog="pooldrill compare", description=VERBS["compare"].help)
    parser.add_argument("scenario", metavar="SCENARIO|FILE.toml", help="a scenario of the catalog, or a file")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="where to write (%(default)s)")
    args = parser.parse_args(argv)
    scenario = load.load(args.scenario)
    _make(args.out)
    print(f"{scenario.name}: {scenario.title} (seed {scenario.seed})")
    print(f"running the model, then the real drill ({scenario.duration_s:.0f} s and its start) ...", flush=True)
    comparison = campaign.compare(scenario, RUNNERS, args.out)
    report = write_report(
        real=comparison.real, simulated=comparison.simulated, out=args.out, verdicts=comparison.verdicts
    )
    print(verdicts.table(comparison.verdicts))
    print(textwrap.fill(report.sentence, verdicts.WIDTH_MAX, break_long_words=False, break_on_hyphens=False))
    print(f"report: {report.page}")
    return 0 if comparison.passed else 1


def _make(out: Path) -> None:
    """Make the directory for results: better an error now than after the run. Raises OutError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutError(f"{out}: {error.strerror}; remedy: name another directory with --out") from None


if __name__ == "__main__":
    sys.exit(main())
