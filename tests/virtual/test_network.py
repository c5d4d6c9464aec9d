"""The network in memory behaves as Linux's loopback does: each body runs on both, and must see the same."""

import asyncio
import select
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from tests.virtual.loop import Stuck, VirtualLoop, run, virtual_loop
from tests.virtual.network import Cut, Network

PAUSE_S = 0.01
ROUNDS = 50
"""Rounds of the event loop in which everything has come that is to come, however slow the machine is."""
Main = Callable[[], Coroutine[Any, Any, Any]]


def on_both(main: Main) -> Any:
    """Run a body on real sockets and on the network in memory; returns what both have seen."""
    real, virtual = asyncio.run(main()), run(main(), Network())
    assert virtual == real
    return real


async def settled() -> None:
    """Wait until what is on its way has come."""
    await asyncio.sleep(PAUSE_S)
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


class End(asyncio.Protocol):
    """One end of a connection, which remembers what it was told."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.told: list[object] = []
        self.size = 0
        self.pauses = 0
        self._keeps_open = keeps_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self.told[-1:] != ["data"]:
            self.told.append("data")

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self._keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(type(exc).__name__)

    def pause_writing(self) -> None:
        self.pauses += 1

    def reset(self) -> None:
        peer = self.transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


async def joined(*, keeps_open: bool = False) -> tuple[End, End, asyncio.Server]:
    """Return both ends of a new connection: the client's, the server's."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[End] = loop.create_future()

    def accept() -> End:
        end = End(keeps_open=keeps_open)
        accepted.set_result(end)
        return end

    server = await loop.create_server(accept, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    _, client = await loop.create_connection(lambda: End(keeps_open=keeps_open), *address)
    there = await accepted
    await settled()
    return client, there, server


async def told(client: End, there: End, server: asyncio.Server) -> list[list[object]]:
    await settled()
    seen = [list(client.told), list(there.told)]
    for end in (client, there):
        with suppress(AttributeError):  # asyncio 3.11 where it was closed already
            end.transport.abort()
    server.close()
    await settled()
    return seen


def test_data_and_the_end_come_in_order() -> None:
    async def main() -> object:
        client, there, server = await joined()
        there.transport.write(b"x" * 1000)
        there.transport.close()
        return await told(client, there, server)

    assert on_both(main) == [["data", "eof", "NoneType"], ["NoneType"]]


def test_what_came_before_a_reset_can_be_read() -> None:
    async def main() -> object:
        client, there, server = await joined()
        there.transport.write(b"x" * 1000)
        there.reset()
        return await told(client, there, server)

    assert on_both(main) == [["data", "ConnectionResetError"], ["NoneType"]]


def test_closing_with_something_unread_is_a_reset() -> None:
    async def main() -> object:
        client, there, server = await joined()
        there.transport.pause_reading()
        client.transport.write(b"x")
        await settled()
        there.transport.close()
        return await told(client, there, server)

    assert on_both(main) == [["ConnectionResetError"], ["NoneType"]]


def test_a_reader_that_pauses_hears_nothing_of_the_end() -> None:
    async def main() -> object:
        client, there, server = await joined()
        client.transport.pause_reading()
        there.transport.write(b"x")
        there.transport.close()
        await settled()
        before = list(client.told)
        client.transport.resume_reading()
        return before, await told(client, there, server)

    assert on_both(main) == ([], [["data", "eof", "NoneType"], ["NoneType"]])


def test_writing_to_a_socket_that_is_gone_fails_the_second_time() -> None:
    async def main() -> object:
        client, there, server = await joined(keeps_open=True)
        there.transport.abort()
        await settled()
        client.transport.write(b"x")
        await settled()
        before = list(client.told)
        client.transport.write(b"x")
        return before, await told(client, there, server)

    assert on_both(main) == (["eof"], [["eof", "BrokenPipeError"], ["NoneType"]])


def test_half_closed_connections_still_carry_the_other_half() -> None:
    async def main() -> object:
        client, there, server = await joined(keeps_open=True)
        client.transport.write_eof()
        await settled()
        there.transport.write(b"x" * 10)
        there.transport.close()
        return await told(client, there, server)

    assert on_both(main) == [["data", "eof"], ["eof", "NoneType"]]


def test_a_writer_is_held_up_while_nobody_reads_and_nothing_is_lost() -> None:
    async def main() -> object:
        client, there, server = await joined()
        client.transport.pause_reading()
        for _ in range(64):
            there.transport.write(b"x" * 2**20)
        await settled()
        waits = there.transport.get_write_buffer_size() > 2**20
        client.transport.resume_reading()
        async with asyncio.timeout(20):
            while client.size < 64 * 2**20:
                await settled()
        return waits, there.pauses, await told(client, there, server)

    assert on_both(main) == (True, 1, [["data"], []])


def test_what_an_abort_leaves_unwritten_is_lost_and_the_end_is_clean() -> None:
    async def main() -> object:
        client, there, server = await joined()
        client.transport.pause_reading()
        there.transport.write(b"x" * 2**25)
        await settled()
        there.transport.abort()
        await settled()
        client.transport.resume_reading()
        seen = await told(client, there, server)
        return client.size < 2**25, seen

    assert on_both(main) == (True, [["data", "eof", "NoneType"], ["NoneType"]])


def test_a_poll_of_the_socket_sees_what_the_event_loop_has_not_seen() -> None:
    async def main() -> object:
        client, there, server = await joined()
        client.transport.pause_reading()
        seen = [polled(client)]
        there.transport.write(b"x")
        await settled()
        seen.append(polled(client))
        there.transport.close()
        await settled()
        seen.append(polled(client))
        await told(client, there, server)
        return seen

    assert on_both(main) == [0, select.POLLIN, select.POLLIN | select.POLLRDHUP]


def polled(end: End) -> int:
    poll = select.poll()
    poll.register(end.transport.get_extra_info("socket"), select.POLLIN | select.POLLRDHUP)
    return next((events for _, events in poll.poll(0)), 0) & (select.POLLIN | select.POLLRDHUP)


def test_where_nobody_listens_a_connect_is_refused() -> None:
    async def main() -> object:
        client, there, server = await joined()
        address = server.sockets[0].getsockname()
        await told(client, there, server)
        try:
            await asyncio.get_running_loop().create_connection(End, *address)
        except OSError as error:
            return type(error).__name__, error.errno
        return "connected"

    assert on_both(main)[0] == "ConnectionRefusedError"


def test_a_port_is_listened_on_once() -> None:
    async def main() -> object:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(End, "127.0.0.1", 0)
        try:
            await loop.create_server(End, *server.sockets[0].getsockname())
        except OSError as error:
            return error.errno
        finally:
            server.close()
        return "listens"

    assert isinstance(on_both(main), int)


# ---- what only the network in memory can do


async def virtual_pair() -> tuple[Network, End, End]:
    client, there, _ = await joined()
    return virtual_loop().network, client, there


def test_a_cut_comes_after_exactly_so_many_bytes() -> None:
    async def main(after: int, *, by_reset: bool) -> tuple[int, object, object]:
        network = virtual_loop().network
        loop = asyncio.get_running_loop()
        there = End()
        server = await loop.create_server(lambda: there, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        network.link(address).cuts.append(Cut(after, by_reset=by_reset))
        _, client = await loop.create_connection(End, *address)
        await settled()
        for _ in range(10):
            there.transport.write(b"x" * 7)
        await settled()
        server.close()
        return client.size, client.told[-1], there.told

    for after in (1, 6, 7, 8, 69, 70):
        assert run(main(after, by_reset=True), Network()) == (after, "ConnectionResetError", ["ConnectionResetError"])
        assert run(main(after, by_reset=False), Network())[:2] == (after, "NoneType")


def test_a_stall_loses_nothing_and_keeps_the_order() -> None:
    async def main() -> None:
        network, client, there = await virtual_pair()
        link = network.connections[0].link
        there.transport.write(b"1")
        link.stall()
        there.transport.write(b"2")
        there.transport.close()
        await asyncio.sleep(3600)
        assert client.told == []
        link.resume()
        await settled()
        assert (client.size, client.told) == (2, ["data", "eof", "NoneType"])

    run(main(), Network())


def test_a_connect_into_a_hole_hangs_as_long_as_linux_tries() -> None:
    async def main(*, heals_s: float | None) -> float:
        loop = virtual_loop()
        link = loop.network.link(("127.0.0.1", 7))
        link.hole = True
        if heals_s is not None:
            loop.call_later(heals_s, setattr, link, "hole", False)
        server = await loop.create_server(End, "127.0.0.1", 7)
        began_s = loop.time()
        try:
            transport, _ = await loop.create_connection(End, "127.0.0.1", 7)
        except TimeoutError:
            server.close()
            return -1.0
        took_s = round(loop.time() - began_s, 2)
        transport.abort()
        server.close()
        await settled()
        return took_s

    assert run(main(heals_s=None), Network()) == -1.0
    assert run(main(heals_s=1.5), Network()) == 3.0, "Linux tries again after 1 and 3 s"


def test_names_are_looked_up_in_the_networks_own_list() -> None:
    async def main() -> str:
        loop = virtual_loop()
        loop.network.names["pool.test"] = ["127.0.1.1", "127.0.1.2"]
        server = await loop.create_server(End, "127.0.1.2", 80)
        transport, _ = await loop.create_connection(End, "pool.test", 80, happy_eyeballs_delay=0.25)
        with pytest.raises(socket.gaierror):
            await loop.create_connection(End, "nowhere.test", 80)
        name: str = transport.get_extra_info("peername")[0]
        transport.abort()
        server.close()
        await settled()
        return name

    assert run(main(), Network()) == "127.0.1.2"


def test_what_cannot_go_on_is_told() -> None:
    async def for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run(for_ever(), Network())


def test_threads_are_outside() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main(), Network())


def test_an_hour_passes_in_no_time_and_timers_are_kept_to_the_moment() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        began_s, rang = loop.time(), []
        for delay_s in (3600.0, 0.1, 0.2):
            loop.call_later(delay_s, lambda: rang.append(round(loop.time() - began_s, 6)))
        await asyncio.sleep(4000)
        return rang

    assert run(main(), Network()) == [0.1, 0.2, 3600.0]
