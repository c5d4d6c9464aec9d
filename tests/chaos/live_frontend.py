"""A fake frontend in a test's own loop, on real sockets."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from chaos.frontend.connection import Listener
from chaos.frontend.control import ControlService
from chaos.frontend.log import EventLog
from chaos.frontend.service import FrontendService
from chaos.ports import LOOPBACK
from scenarios.record import PoolEvent
from scenarios.spec import Pool, Service

MODEL = "drill-model"


class LiveFrontend:
    """A frontend `a-0` of pool `a`, in this process."""

    def __init__(self, port: int, control_port: int, log_path: Path, service: Service, **knobs: Any) -> None:
        self.port = port
        self.control_port = control_port
        self.service = service
        self.pool = Pool(id="a", model=MODEL, service=service, **knobs)
        self.log = EventLog(log_path)
        self.frontend: FrontendService
        self._log_path = log_path
        self._listeners: list[Listener] = []

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def control_url(self) -> str:
        return f"http://{LOOPBACK}:{self.control_port}"

    async def open(self) -> None:
        clock = asyncio.get_running_loop().time
        self.frontend = FrontendService(self.pool, name="a-0", seed=1, log=self.log, clock=clock)
        self._listeners = [Listener(self.frontend), Listener(ControlService(self.frontend))]
        for listener, port in zip(self._listeners, (self.port, self.control_port), strict=True):
            await listener.open(LOOPBACK, port)

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        self.frontend.close()
        self.log.close()

    def events(self) -> list[PoolEvent]:
        return [msgspec.json.decode(line, type=PoolEvent) for line in self._log_path.read_bytes().splitlines()]


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds, at most five seconds."""
    for _ in range(5_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("did not come true within five seconds")
