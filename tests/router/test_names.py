"""Pools whose URLs have names or IPv6 addresses. The sockets are real; what a name leads to is told by the test."""

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from router.core.config import RouterConfig
from router.core.topology import Frontend, Pool
from router.dialing import ADDRESS_DELAY_S, Dialer, address_of
from router.tls import TlsTable
from tests.router.live import live, until
from tests.router.raw_pool import BlackHole, Faulty, RawPool, Refusing, ok

NAME = "pool.test"
RULES = RouterConfig(connect_timeout_s=5.0, deadline_s=20.0, patience_s=0.1)
Answer = Callable[[], list[Faulty]]


class NameServer:
    """Says which servers a name leads to, whatever port is asked for; anything else goes to the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._getaddrinfo)

    def _getaddrinfo(self, host: Any, *args: Any, **kwargs: Any) -> list[Any]:
        if host not in self.answers:
            return self._real(host, *args, **kwargs)
        self.asked.append(host)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port_of(server)))
            for server in self.answers[host]()
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> NameServer:
    return NameServer(monkeypatch)


def port_of(server: Faulty) -> int:
    return address_of(server.url)[1]


def named(pool: str, host: str = NAME, port: int = 9000) -> Pool:
    return Pool.of_urls(pool, [f"http://{host}:{port}"])


def unknown() -> list[Faulty]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Closing(asyncio.Protocol):
    """A connection that only has to stand."""


@asynccontextmanager
async def dialled(host: str) -> AsyncIterator[asyncio.Transport]:
    """Open one connection without a router."""
    transport, _ = await Dialer(TlsTable({})).dial(Closing, Frontend("a", "a-0", f"http://{host}:9000"))
    yield transport
    transport.abort()
    await asyncio.sleep(0)


@pytest.mark.parametrize("first", [Refusing, BlackHole], ids=["refuses", "hangs"])
async def test_a_dead_first_address_is_passed_over_within_the_connect_bound(
    first: type[Refusing], names: NameServer, tmp_path: Path
) -> None:
    async with first() as dead, RawPool(ok) as alive:
        names.answers[NAME] = lambda: [dead, alive]
        async with live(tmp_path, pools=(named("a"),), rules=RULES) as router:
            assert (await router.ask()).status == 200
        (row,) = router.rows()
        assert row.t_connected is not None
        assert row.t_connected - row.t_start < ADDRESS_DELAY_S + 2
        assert len(alive.bodies) == 1
        assert alive.header("host") == [f"{NAME}:9000"]


async def test_a_name_all_of_whose_addresses_refuse_is_unsent_and_fails_over(names: NameServer, tmp_path: Path) -> None:
    async with Refusing() as one, Refusing() as two, RawPool(ok) as other:
        names.answers[NAME] = lambda: [one, two]
        async with live(tmp_path, pools=(named("a"), Pool.of_urls("b", [other.url])), rules=RULES) as router:
            told = await router.ask()
        assert (told.status, told.headers["x-pooldrill-pool"]) == (200, "b")
        assert router.rows()[0].outcome == ("unsent", "refused", None)


async def test_a_name_that_is_unknown_is_unsent_and_fails_over(names: NameServer, tmp_path: Path) -> None:
    async with RawPool(ok) as other:
        names.answers[NAME] = unknown
        async with live(tmp_path, pools=(named("a"), Pool.of_urls("b", [other.url]))) as router:
            told = await router.ask()
        assert (told.status, told.headers["x-pooldrill-pool"]) == (200, "b")
        assert router.rows()[0].outcome == ("unsent", "name_lookup", None)
        assert [line["cause"] for line in router.events] == ["name_lookup"]


async def test_a_name_that_has_moved_is_followed_after_a_failed_connect(names: NameServer, tmp_path: Path) -> None:
    async with Refusing() as old, RawPool(ok) as new:
        names.answers[NAME] = lambda: [old]
        async with live(tmp_path, pools=(named("a"),), rules=RULES) as router:
            assert (await router.ask()).code == "pool_unreachable"
            names.answers[NAME] = lambda: [new]
            assert (await router.ask()).status == 200
        assert len(new.bodies) == 1


async def test_a_pool_at_an_ipv6_address(tmp_path: Path) -> None:
    async with RawPool(ok, host="::1") as pool:
        assert pool.url.startswith("http://[::1]:")
        async with live(tmp_path, pool.url) as router:
            assert (await router.ask(stream=True)).status == 200
        assert pool.header("host") == [pool.url.removeprefix("http://")]


async def test_connections_opened_together_share_one_look_up(names: NameServer) -> None:
    answering = threading.Event()

    def after_a_while() -> list[Faulty]:
        answering.wait(10)
        return [pool]

    async with RawPool(ok) as pool:
        names.answers[NAME] = after_a_while
        dialer = Dialer(TlsTable({}))
        frontend = Frontend("a", "a-0", f"http://{NAME}:9000")
        dials = [asyncio.ensure_future(dialer.dial(Closing, frontend)) for _ in range(5)]
        await until(lambda: names.asked)
        dials[0].cancel()  # leaves the others their look-up
        answering.set()
        opened = await asyncio.gather(*dials[1:])
        assert names.asked == [NAME]
        (await dialer.dial(Closing, frontend))[0].abort()
        assert names.asked == [NAME, NAME]
        for transport, _ in opened:
            transport.abort()
        await asyncio.sleep(0)


def test_a_name_server_that_hangs_holds_up_no_other_name_and_no_exit(names: NameServer) -> None:
    answering = threading.Event()

    def hangs() -> list[Faulty]:
        answering.wait(60)
        return []

    async def run() -> None:
        dialer = Dialer(TlsTable({}))
        async with RawPool(ok) as pool:
            for number in range(20):
                names.answers[f"hangs-{number}.test"] = hangs
            names.answers[NAME] = lambda: [pool]
            for host in [*names.answers, NAME]:
                frontend = Frontend("a", "a-0", f"http://{host}:9000")
                try:
                    async with asyncio.timeout(0.05 if host.startswith("hangs") else 10):
                        (await dialer.dial(Closing, frontend))[0].abort()
                except TimeoutError:
                    assert host.startswith("hangs")

    asyncio.run(run())  # it would wait for the threads of the loop's executor
    assert not answering.is_set()
    answering.set()


async def test_a_look_up_that_the_routers_own_limits_prevent_is_no_fault_of_the_pool(
    names: NameServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor() -> list[Faulty]:
        raise OSError(errno.EMFILE, "Too many open files")

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names.answers[NAME] = no_descriptor
    async with live(tmp_path, pools=(named("a"),), rules=RULES) as router:
        await router.ask()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            await router.ask()
        await router.ask()
    assert [(row.outcome, row.blame) for row in router.rows()] == [(("unsent", "own_limit", None), "router")] * 3


@pytest.mark.parametrize("host", [f"{'a' * 64}.test", "a..b"])
async def test_a_name_that_cannot_be_one_is_a_failed_look_up(host: str) -> None:
    with pytest.raises(socket.gaierror):
        async with dialled(host):
            pass


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://pool.test", ("pool.test", 80)),
        ("https://pool.test/base", ("pool.test", 443)),
        ("http://[::1]:9", ("::1", 9)),
    ],
)
def test_the_address_of_a_url(url: str, address: tuple[str, int]) -> None:
    assert address_of(url) == address
