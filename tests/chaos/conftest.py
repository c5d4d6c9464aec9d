"""What live tests need: reserved ports, children that are gone at the end, and the real Toxiproxy server."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from chaos.ports import PortReservations
from chaos.processes import Children
from chaos.provision import Server, ensure_server
from chaos.toxiproxy import Toxiproxy


@pytest.fixture(scope="session")
def toxiproxy_server() -> Server:
    """The pinned server. A missing one fails the tests; it never skips them."""
    return ensure_server()


@pytest.fixture
def ports() -> Iterator[PortReservations]:
    """Ports of one test."""
    with PortReservations() as reservations:
        yield reservations


@pytest_asyncio.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    """Children of one test."""
    async with Children(tmp_path / "logs") as started:
        yield started


@pytest_asyncio.fixture
async def toxiproxy(toxiproxy_server: Server, ports: PortReservations, children: Children) -> AsyncIterator[Toxiproxy]:
    """A running Toxiproxy server, its API on a port of its own."""
    async with await Toxiproxy.open(toxiproxy_server, children=children, ports=ports) as opened:
        yield opened
