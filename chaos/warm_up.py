"""Clients that have done everything once before they are measured: first calls import, compile and build.

They ask a frontend of their own in the harness's process, so neither the router nor a pool sees anything of it, and
the router's first request is the first measured one: its round-robin cursors stand where the model's do.
"""

import asyncio
import os
from pathlib import Path

from chaos.clients.client import Client
from chaos.frontend.connection import Listener
from chaos.frontend.log import EventLog
from chaos.frontend.service import FrontendService
from chaos.ports import LOOPBACK, PortReservations
from scenarios.spec import Load, Pool, Service

SERVICE = Service(first_token_s=0, token_gap_s=0, tokens=2)
ROUNDS = 2
"""Once to load everything, once over a connection that is open."""


class WarmUpError(RuntimeError):
    """A client does not work even with nothing in its way."""

    exit_code = 3


async def warm_up(clients: list[tuple[Load, Client]]) -> None:
    """Let every client ask once or twice. Raises WarmUpError."""
    with PortReservations() as ports:
        port = ports.take()
        for load, client in clients:
            await _warm(load, client, port)


async def _warm(load: Load, client: Client, port: int) -> None:
    log = EventLog(Path(os.devnull))
    clock = asyncio.get_running_loop().time
    pool = Pool(id="warm", model=load.model, service=SERVICE)
    service = FrontendService(pool, name="warm-0", seed=0, log=log, clock=clock)
    listener = Listener(service)
    await listener.open(LOOPBACK, port)
    try:
        for turn in range(ROUNDS):
            answer = await client.probe(f"warm-up-{turn}", f"http://{LOOPBACK}:{port}")
            if answer != "200":
                raise WarmUpError(f"the {load.client} client got {answer!r} from a frontend with nothing in between")
    finally:
        await listener.close()
        log.close()
