"""What every client is to the harness, and which one a load asks for."""

import asyncio
import importlib
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from chaos.clients.ledger import Ledger
from chaos.clients.raw import RawClient
from scenarios.plan import Planned
from scenarios.spec import Load

SDK_MODULE = "chaos.clients.sdk"


class Client(Protocol):
    """Makes the operations of one load entry. An asynchronous context manager."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def operate(self, planned: Planned, t_intended: float) -> None:
        """Make one operation and write it down, however it ends."""
        ...

    async def probe(self, probe_id: str, base_url: str) -> str:
        """Ask another server, off the record. Returns what the client was told."""
        ...


async def load_libraries(loads: Iterable[Load]) -> None:
    """Import what the clients of these loads need, off the loop: the SDK takes two seconds on a slow core."""
    if any(load.client == "openai" for load in loads):
        await asyncio.to_thread(importlib.import_module, SDK_MODULE)


def client_for(load: Load, base_url: str, ledger: Ledger) -> Client:
    """Make the client that a load asks for."""
    if load.client == "raw":
        return RawClient(load, base_url, ledger)
    client: Client = importlib.import_module(SDK_MODULE).SdkClient(load, base_url, ledger)
    return client
