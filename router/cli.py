"""Command line of the router: `python -m router --port N --pool a=http://127.0.0.1:9001 --pool b=...`.

`pooldrill serve` is the same; each calls itself by its own name. Exit codes: 0 ended in order, 2 bad input, 3 the
environment refuses (port in use).
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import NoReturn

from router.core.config import ConfigError, RouterConfig
from router.event_loop import MakeLoop, NoUvloop, loop_maker
from router.knobs import add_options, in_words_of_options, values_of
from router.pool_option import FORM, HELP, PoolOptionError, parse_pools
from router.settings import PORT_MAX, Settings, ShellConfig
from router.worker import Worker

EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
SERVE = "pooldrill serve"
MODULE = "python -m router"
WORKERS_HELP = (
    "processes that share the port (Linux: the kernel spreads connections over them); worker I has the admin port M + I"
    " and the send log FILE.I. Cooldown, budgets, pins and all bounds are then per worker (default: %(default)s)"
)


class _UsageError(ValueError):
    """Bad input, said in one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Refuse bad input in one line instead of argparse's page."""
        raise _UsageError(f"{message.removeprefix('argument ')}; remedy: see {self.prog} --help")


def serve(argv: list[str]) -> int:
    """Run a router until SIGTERM or SIGINT; returns the exit code."""
    return main(argv, SERVE)


def main(argv: list[str], prog: str) -> int:
    """Run a router that calls itself `prog`, the name it was started with."""
    try:
        settings = read_settings(argv, prog)
    except _UsageError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return EXIT_USAGE
    # Only now: aiohttp's import is half of the start, and a usage error should not wait for it.
    from router.listener import CannotStart  # noqa: PLC0415

    try:
        make_loop = loop_maker(uvloop=settings.uvloop)
        if settings.workers == 1:
            return _run(settings, make_loop)
        return _run_workers(settings, make_loop, prog)
    except (CannotStart, NoUvloop) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return EXIT_ENVIRONMENT


def _run(settings: Settings, make_loop: MakeLoop, worker: Worker | None = None) -> int:
    """Run one router in this process. Raises CannotStart."""
    from router.app import run  # noqa: PLC0415

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run(settings, worker))
    return 0


def _run_workers(settings: Settings, make_loop: MakeLoop, prog: str) -> int:
    """Run several routers in processes of their own. Raises CannotStart."""
    from router import app  # noqa: F401, PLC0415  (imported once, for all workers)
    from router.listener import CannotStart  # noqa: PLC0415
    from router.supervisor import Supervisor  # noqa: PLC0415

    if settings.admin_port is not None:
        from router import admin  # noqa: F401, PLC0415

    def work(worker: Worker) -> int:
        try:
            return _run(worker.settings(settings), make_loop, worker)
        except CannotStart as error:
            print(f"{prog}: {error}", file=sys.stderr)
            return EXIT_ENVIRONMENT

    return Supervisor(settings, work).run()


def read_settings(argv: list[str], prog: str = SERVE) -> Settings:
    """Read the command line. Raises a one-line error; `--help` prints and exits."""
    arguments = _parser(prog, with_help="--help" in argv or "-h" in argv).parse_args(argv)
    try:
        pools = parse_pools(arguments.pool, os.environ)
        return Settings(
            pools=tuple(option.pool for option in pools),
            tls={option.pool.name: option.tls for option in pools if option.tls is not None},
            secrets={option.pool.name: option.secret for option in pools if option.secret is not None},
            rules=RouterConfig(**values_of(arguments, RouterConfig)),
            shell=ShellConfig(**values_of(arguments, ShellConfig)),
            host=arguments.host,
            port=arguments.port,
            admin_port=arguments.admin_port,
            send_log=arguments.send_log,
            uvloop=arguments.uvloop,
            workers=arguments.workers,
        )
    except PoolOptionError as error:
        raise _UsageError(f"--pool: {error}") from None
    except ConfigError as error:
        problem = in_words_of_options(str(error), RouterConfig, ShellConfig, Settings)
        raise _UsageError(f"{problem}; remedy: see {prog} --help") from None


def _parser(prog: str, *, with_help: bool) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        description="Reference router for pools of LLM inference servers: fails over only what was provably not sent.",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=_port, required=True, metavar="N", help="port to listen on; 0: any free one")
    parser.add_argument(
        "--host", type=_host, default="127.0.0.1", metavar="ADDRESS", help="address to listen on (%(default)s)"
    )
    parser.add_argument("--pool", action="append", required=True, metavar=FORM, help=HELP)
    parser.add_argument("--admin-port", type=_port, metavar="M", help="port of 127.0.0.1 for /metrics; none without it")
    parser.add_argument("--send-log", type=_log_file, metavar="FILE", help="JSON line for every send, appended to FILE")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop's event loop; it must be installed")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help=WORKERS_HELP)
    for kind in (RouterConfig, ShellConfig):
        add_options(parser, kind, with_help=with_help)
    return parser


def _host(text: str) -> str:
    if not text.strip():  # asyncio would take it for every address of the machine
        raise argparse.ArgumentTypeError("is empty; give an address or a name, 0.0.0.0 for all, :: for all of IPv6")
    if text.startswith("[") and text.endswith("]"):  # as it stands in a URL
        return text[1:-1]
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {PORT_MAX}")
    return int(text)


def _log_file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file in a directory that exists")
    return path
