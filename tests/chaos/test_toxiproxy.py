"""The adapter against the real server: what it reports is what the server does."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import toxiproxy as library
import toxiproxy.api

from chaos.ports import LOOPBACK, PortReservations, is_free
from chaos.processes import Children
from chaos.provision import Server
from chaos.toxics import Toxic
from chaos.toxiproxy import AddressError, Proxy, Toxiproxy, ToxiproxyError, loopback_address
from chaos.toxiproxy_calls import CALL_WAIT_S

GREETING = b"0123456789" * 1_000


@pytest_asyncio.fixture
async def upstream(ports: PortReservations) -> AsyncIterator[int]:
    """Port of a server that greets each connection and closes it once the client has closed."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(GREETING)
            await reader.read()
        writer.close()

    port = ports.take()
    async with await asyncio.start_server(greet, LOOPBACK, port):
        yield port


@pytest_asyncio.fixture
async def proxy(toxiproxy: Toxiproxy, ports: PortReservations, upstream: int) -> Proxy:
    return await toxiproxy.create("east-0", listen_port=ports.take(), upstream_port=upstream)


async def receive(port: int, *, wait_s: float = 5.0) -> bytes:
    """Everything that comes on a new connection until the whole greeting is there or the other side closes."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        async with asyncio.timeout(wait_s):
            return await reader.readexactly(len(GREETING))
    except asyncio.IncompleteReadError as cut:
        return cut.partial
    finally:
        writer.close()


async def test_a_proxy_passes_bytes_and_knows_its_state(proxy: Proxy) -> None:
    assert await receive(proxy.listen_port) == GREETING
    assert proxy.state.enabled
    assert repr(proxy) == f"Proxy(east-0, {proxy.listen_port} -> {proxy.upstream_port}, enabled, [])"


async def test_a_disabled_proxy_refuses_and_cuts_what_is_open(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, proxy.listen_port)
    await reader.readexactly(len(GREETING))
    await proxy.disable()
    assert not proxy.state.enabled
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await receive(proxy.listen_port)
    await proxy.enable()
    assert await receive(proxy.listen_port) == GREETING


async def test_a_proxy_made_disabled_does_not_listen(
    toxiproxy: Toxiproxy, ports: PortReservations, upstream: int
) -> None:
    proxy = await toxiproxy.create("east-0", listen_port=ports.take(), upstream_port=upstream, enabled=False)
    assert is_free(proxy.listen_port)
    await proxy.enable()
    assert not is_free(proxy.listen_port)


async def test_toxics_come_and_go(proxy: Proxy) -> None:
    limit = Toxic("limit_data", {"bytes": 100})
    await proxy.add(limit)
    assert dict(proxy.state.toxics) == {"limit_data_downstream": limit}
    assert await receive(proxy.listen_port) == GREETING[:100]
    await proxy.remove(limit.name)
    assert proxy.state.toxics == {}
    assert await receive(proxy.listen_port) == GREETING


@pytest.mark.parametrize(
    "toxic",
    [
        Toxic("latency", {"latency": 20, "jitter": 0}),
        Toxic("bandwidth", {"rate": 1000}, "upstream"),
        Toxic("slow_close", {"delay": 10}),
        Toxic("timeout", {"timeout": 0}, "upstream", "silence"),
        Toxic("reset_peer", {"timeout": 0}, toxicity=0),
        Toxic("slicer", {"average_size": 64, "size_variation": 63, "delay": 0}),
        Toxic("limit_data", {"bytes": 2**40 - 1}),
    ],
    ids=lambda toxic: toxic.type,
)
async def test_every_type_is_read_back_as_it_was_sent(
    toxiproxy: Toxiproxy, ports: PortReservations, upstream: int, toxic: Toxic
) -> None:
    proxy = await toxiproxy.create("east-0", listen_port=ports.take(), upstream_port=upstream, toxics=[toxic])
    assert dict(proxy.state.toxics) == {toxic.name: toxic}
    assert await receive(proxy.listen_port) == GREETING


async def test_a_failed_enable_is_an_error(proxy: Proxy) -> None:
    await proxy.disable()
    with socket.create_server((LOOPBACK, proxy.listen_port)):
        with pytest.raises(ToxiproxyError, match="address already in use"):
            await proxy.enable()
        assert not proxy.state.enabled
    await proxy.enable()


async def test_a_used_listen_port_is_an_error_when_the_proxy_is_made(
    toxiproxy: Toxiproxy, ports: PortReservations, upstream: int
) -> None:
    with pytest.raises(ToxiproxyError, match="address already in use"):
        await toxiproxy.create("east-0", listen_port=upstream, upstream_port=ports.take())


async def test_a_name_is_given_once(toxiproxy: Toxiproxy, proxy: Proxy, ports: PortReservations) -> None:
    with pytest.raises(ToxiproxyError, match="already exists"):
        await toxiproxy.create("east-0", listen_port=ports.take(), upstream_port=proxy.upstream_port)
    assert await receive(proxy.listen_port) == GREETING


async def test_a_toxic_is_added_once_and_removed_once(proxy: Proxy) -> None:
    limit = Toxic("limit_data", {"bytes": 100})
    await proxy.add(limit)
    with pytest.raises(ToxiproxyError, match=r"409 .*already exists"):
        await proxy.add(limit)
    await proxy.remove(limit.name)
    with pytest.raises(ToxiproxyError, match=r"404 .*not found"):
        await proxy.remove(limit.name)


async def test_a_change_by_somebody_else_is_noticed(proxy: Proxy, toxiproxy: Toxiproxy) -> None:
    def meddle() -> None:
        library.api.APIConsumer.host, library.api.APIConsumer.port = toxiproxy.address.split(":")
        library.Toxiproxy().get_proxy("east-0").add_toxic(type="latency", attributes={"latency": 1})

    await asyncio.to_thread(meddle)
    with pytest.raises(ToxiproxyError, match="after a change that should have made it"):
        await proxy.disable()


async def test_the_library_gets_back_what_was_lent(proxy: Proxy) -> None:
    consumer = library.api.APIConsumer
    before = consumer.host, consumer.port, library.api.requests
    await proxy.disable()
    assert (consumer.host, consumer.port, library.api.requests) == before


async def test_two_servers_are_kept_apart(
    toxiproxy_server: Server, children: Children, ports: PortReservations, upstream: int
) -> None:
    servers = [await Toxiproxy.open(toxiproxy_server, children=children, ports=ports) for _ in range(2)]
    proxies = [await s.create("east-0", listen_port=ports.take(), upstream_port=upstream) for s in servers]
    await asyncio.gather(*(proxy.disable() for proxy in proxies), *(server.version() for server in servers))
    await proxies[0].enable()
    assert await receive(proxies[0].listen_port) == GREETING
    with pytest.raises(ConnectionRefusedError):
        await receive(proxies[1].listen_port)


async def test_proxy_variables_are_ignored(
    proxy: Proxy, ports: PortReservations, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{LOOPBACK}:{ports.take()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    await proxy.disable()
    assert not proxy.state.enabled


async def test_a_shared_server_keeps_only_what_is_not_ours(
    toxiproxy: Toxiproxy, proxy: Proxy, children: Children, ports: PortReservations
) -> None:
    shared = await Toxiproxy.open(Server(url=f"http://{toxiproxy.address}"), children=children, ports=ports)
    async with shared:
        ours = await shared.create("east-0", listen_port=ports.take(), upstream_port=proxy.upstream_port)
        assert ours.name == f"pooldrill-{os.getpid()}-east-0"
        assert await receive(ours.listen_port) == GREETING
    assert is_free(ours.listen_port)
    assert await receive(proxy.listen_port) == GREETING
    await shared.close()
    await ours.delete()
    with pytest.raises(ToxiproxyError, match=r"404 .*not found"):
        await ours.enable()


async def test_the_loop_runs_on_while_the_server_is_silent_and_the_call_is_bounded(
    toxiproxy: Toxiproxy, proxy: Proxy, children: Children
) -> None:
    (server,) = children.started
    server.send_signal(signal.SIGSTOP)
    # The signal has been sent; that every thread of the server has stopped is another event, and a later one.
    await asyncio.to_thread(os.waitpid, server.pid, os.WUNTRACED)
    try:
        begin = time.monotonic()
        call = asyncio.create_task(proxy.disable())
        ticks = 0
        while not call.done():
            await asyncio.sleep(0.05)
            ticks += 1
        with pytest.raises(ToxiproxyError, match=f"Toxiproxy at {toxiproxy.address}: TimeoutError: timed out"):
            await call
        assert CALL_WAIT_S <= time.monotonic() - begin < 3 * CALL_WAIT_S
        assert ticks > 20
    finally:
        server.send_signal(signal.SIGCONT)


async def test_a_dead_server_is_named_with_its_log(proxy: Proxy, children: Children) -> None:
    (server,) = children.started
    await server.stop()
    with pytest.raises(ToxiproxyError, match=r"(?s)toxiproxy \(.*Connection refused.*its log .*Shutdown started"):
        await proxy.disable()


async def test_another_version_is_refused(ports: PortReservations, children: Children) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"version": "2.5.0"}'
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    port = ports.take()
    async with await asyncio.start_server(answer, LOOPBACK, port):
        with pytest.raises(ToxiproxyError, match=r"is '2\.5\.0'; needed is 2\.12\.0"):
            await Toxiproxy.open(Server(url=f"http://localhost:{port}"), children=children, ports=ports)


async def test_a_server_of_another_kind_is_refused(
    ports: PortReservations, children: Children, toxiproxy: Toxiproxy
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
        writer.close()

    port = ports.take()
    async with await asyncio.start_server(answer, LOOPBACK, port):
        with pytest.raises(ToxiproxyError, match="not its kind of answer"):
            await Toxiproxy.open(Server(url=f"http://{LOOPBACK}:{port}"), children=children, ports=ports)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8474", ("127.0.0.1", 8474)),
        ("http://localhost:8474/", ("127.0.0.1", 8474)),
        ("http://[::1]:8474", ("[::1]", 8474)),
    ],
)
def test_a_loopback_url_is_taken(url: str, address: tuple[str, int]) -> None:
    assert loopback_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:8474",
        "http://example.org:8474",
        "http://127.0.0.1",
        "https://127.0.0.1:8474",
        "http://127.0.0.1:8474/proxies",
        "http://user@127.0.0.1:8474",
        "http://127.0.0.1:99999",
        "127.0.0.1:8474",
        "",
    ],
)
def test_any_other_url_is_refused_as_bad_input(url: str) -> None:
    with pytest.raises(AddressError, match=r"; name a server on this machine|; remedy") as caught:
        loopback_address(url)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "listen_port", "upstream_port", "reason"),
    [
        ("a/b", 20_000, 20_001, "proxy name 'a/b'"),
        ("a", 40_000, 20_001, "listen port 40000; use 10241 to 32767"),
        ("a", 0, 20_001, "listen port 0; use"),
        ("a", 20_000, 0, "upstream port 0; use"),
    ],
)
async def test_bad_names_and_ports_never_reach_the_server(
    toxiproxy: Toxiproxy, name: str, listen_port: int, upstream_port: int, reason: str
) -> None:
    with pytest.raises(ToxiproxyError, match=reason):
        await toxiproxy.create(name, listen_port=listen_port, upstream_port=upstream_port)
