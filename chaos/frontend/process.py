"""The process of one fake frontend: two listeners on 127.0.0.1, a log, and an orderly end on SIGTERM.

It says `ready` on stdout once both listeners are open. Any unexpected error ends it with exit code 1: a witness that
limps is worth nothing.
"""

import argparse
import asyncio
import gc
import signal
from pathlib import Path
from typing import Any

import msgspec

from chaos import lag
from chaos.frontend.connection import Listener
from chaos.frontend.control import ControlService
from chaos.frontend.log import EventLog
from chaos.frontend.service import FrontendService
from chaos.ports import LOOPBACK
from scenarios.spec import Pool

READY = "ready"


def arguments(pool: Pool, *, name: str, seed: int, port: int, control_port: int, log: Path) -> list[str]:
    """Return the arguments that follow `python -m chaos.frontend`."""
    options = {
        "--pool": msgspec.json.encode(pool).decode(),
        "--name": name,
        "--seed": str(seed),
        "--port": str(port),
        "--control-port": str(control_port),
        "--log": str(log),
    }
    return [part for option in options.items() for part in option]


def main(argv: list[str]) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code."""
    return asyncio.run(_Process(_parse(argv)).run())


class _Process:
    """One frontend with its listeners, from open to closed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._stop = asyncio.Event()
        self._failed = False
        self._service: FrontendService

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fail)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        log = EventLog(self._args.log)
        listeners = await self._open(log)
        watch = loop.create_task(lag.watch(self._args.name, log.write))
        watch.add_done_callback(self._watched)
        # What was made at start lives on: a full collection need not walk it again and again.
        gc.collect()
        gc.freeze()
        print(READY, flush=True)  # noqa: T201 - the parent waits for this line
        await self._stop.wait()
        for listener in listeners:
            await listener.close()
        self._service.close()
        watch.cancel()
        await asyncio.wait([watch])
        log.close()
        return int(self._failed)

    async def _open(self, log: EventLog) -> list[Listener]:
        args = self._args
        clock = asyncio.get_running_loop().time
        self._service = FrontendService(args.pool, name=args.name, seed=args.seed, log=log, clock=clock)
        listeners = [Listener(self._service), Listener(ControlService(self._service))]
        for listener, port in zip(listeners, (args.port, args.control_port), strict=True):
            await listener.open(LOOPBACK, port)
        return listeners

    def _watched(self, watch: "asyncio.Task[None]") -> None:
        if not watch.cancelled() and (error := watch.exception()) is not None:
            raise error

    def _fail(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End after an error that nobody expected."""
        loop.default_exception_handler(context)
        self._failed = True
        self._stop.set()


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.frontend", description="A fake frontend of a pool.")
    parser.add_argument("--pool", required=True, type=_pool, help="a scenario's pool, as JSON")
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", required=True, type=int, help="the run's")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--control-port", required=True, type=int)
    parser.add_argument("--log", required=True, type=Path)
    return parser.parse_args(argv)


def _pool(text: str) -> Pool:
    try:
        return msgspec.json.decode(text, type=Pool)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
