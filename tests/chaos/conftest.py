"""What live tests need: reserved ports, children that are gone at the end, the real Toxiproxy server, a frontend."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from chaos.ports import PortReservations
from chaos.processes import Children
from chaos.provision import Server, ensure_server
from chaos.toxiproxy import Toxiproxy
from scenarios.spec import Service
from tests.chaos.live_frontend import LiveFrontend


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


@pytest.fixture
def service() -> Service:
    """How long the live frontend takes; a test module may override it."""
    return Service(first_token_s=0.02, token_gap_s=0.01, tokens=5)


@pytest_asyncio.fixture
async def frontend(ports: PortReservations, tmp_path: Path, service: Service) -> AsyncIterator[LiveFrontend]:
    """A fake frontend in the test's own loop."""
    live = LiveFrontend(ports.take(), ports.take(), tmp_path / "a-0.jsonl", service)
    await live.open()
    yield live
    await live.close()
