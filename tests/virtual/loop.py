"""asyncio's own event loop on a virtual clock and the network in memory.

Everything above the sockets is asyncio itself: connects, servers, transports, TLS. Replaced are only its selector,
which lets the network's time pass instead of waiting, its clock, name lookup, and the class it takes sockets from.

Outside are: threads, processes, files, and wall time. Signals are calls of `send_signal`.
"""

import asyncio
import asyncio.base_events
import functools
import selectors
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar, TypeVarTuple
from unittest import mock

import aiohappyeyeballs.impl
import aiohttp.connector

from tests.virtual.network import Network
from tests.virtual.sockets import SocketView, VirtualSocket

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ROUNDS_MAX = 3_000_000
"""Rounds of one event loop; more are a busy loop."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Stuck(RuntimeError):
    """Nothing will ever happen again, or nothing else than now for ever."""


class VirtualSelector(selectors.SelectSelector):
    """Tells which sockets are ready; where it would wait, the network's time passes."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self._rounds = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a descriptor."""
        key = super().register(fileobj, events, data)
        self._network.touched[key.fd] = None
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready. Raises Stuck."""
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise Stuck(f"{ROUNDS_MAX} rounds of the event loop")
        network = self._network
        until_s = network.now_s + (float("inf") if timeout is None else timeout)
        tick_s = network.now_s + network.tick_s
        while network.advance(tick_s):
            pass
        ready = self._ready()
        while not ready and network.now_s < until_s:
            if not network.advance(until_s):
                break
            ready = self._ready()
        if timeout is None and not ready:
            raise Stuck("nothing will ever happen again")
        return ready

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Look at what may have changed; what is ready is looked at again the next time."""
        network, watched, found = self._network, self.get_map(), []
        if not network.touched:
            return []
        for number in list(network.touched):
            key, own = watched.get(number), network.sockets.get(number)
            mask = 0
            if key is not None and own is not None:
                mask = key.events & ((READ if own.readable else 0) | (WRITE if own.writable else 0))
            if mask and key is not None:
                found.append((key, mask))
            else:
                del network.touched[number]
        if network.order is not None and len(found) > 1:
            by_number = {key.fd: (key, mask) for key, mask in found}
            numbers = list(by_number)
            network.order(numbers)
            found = [by_number[number] for number in numbers]
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits."""

    def __init__(self, network: Network) -> None:
        super().__init__(VirtualSelector(network))
        self.network = network
        self._signalled: dict[int, Callable[[], object]] = {}

    def time(self) -> float:
        """Return the network's time."""
        return self.network.now_s

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        """Note who is called by `send_signal`."""
        self._signalled[sig] = functools.partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Forget who is called."""
        return self._signalled.pop(sig, None) is not None

    def send_signal(self, sig: int) -> None:
        """Do what a signal does: call the handler in one of the next rounds."""
        self.call_soon(self._signalled[sig])

    def run_in_executor(
        self,
        executor: Any,  # noqa: ARG002 - asyncio's signature
        func: Callable[[*Ts], T],
        *args: *Ts,  # noqa: ARG002 - the same
    ) -> asyncio.Future[T]:
        """Refuse: a thread would run on the machine's time."""
        raise RuntimeError(f"no threads on a virtual clock, asked for {func}")

    async def getaddrinfo(self, host: Any, port: Any, **_: int) -> list[Any]:
        """Look a name up in the network's own list; addresses in figures are what they are."""
        addresses = self.network.names.get(host, [host] if host.replace(".", "").isdigit() else [])
        await asyncio.sleep(self.network.latency_s)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        return [(*tcp, "", (address, int(port or 0))) for address in addresses]

    def _make_socket_transport(self, sock: VirtualSocket, *args: Any, **more: Any) -> Any:
        transport = super()._make_socket_transport(sock, *args, **more)  # type: ignore[misc] # asyncio's own
        transport._extra["socket"] = SocketView(sock)
        return transport

    async def _accept_connection2(
        self, protocol_factory: Any, conn: VirtualSocket, extra: Any, sslcontext: Any, server: Any, *more: Any
    ) -> None:
        """Accept a connection, unless its server was closed in the same round of the loop.

        There asyncio 3.11 fails in the middle and drops the socket, which its destructor then closes.
        """
        if server.sockets:
            accept = super()._accept_connection2  # type: ignore[misc] # not in the stub
            await accept(protocol_factory, conn, extra, sslcontext, server, *more)
        else:
            conn.close()


class _Sockets(ModuleType):
    """The module `socket`, but for the class of sockets."""

    def __init__(self, network: Network) -> None:
        super().__init__("socket")
        self.socket = functools.partial(VirtualSocket, network)

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)


@contextmanager
def sockets_of(network: Network) -> Iterator[None]:
    """Let asyncio, and what opens connections for aiohttp's client, take their sockets from the network.

    That client (aiohttp 3.14.5) also asks the machine how long its connections have been idle, not the event loop.
    """
    with (
        mock.patch.object(asyncio.base_events, "socket", _Sockets(network)),
        mock.patch.object(aiohappyeyeballs.impl, "socket", _Sockets(network)),
        mock.patch.object(aiohttp.connector, "monotonic", network.clock),
    ):
        yield


def run(main: Coroutine[Any, Any, T], network: Network) -> T:
    """Run a program to its end on a network, as `asyncio.run` does. Raises Stuck."""
    loop = VirtualLoop(network)
    hooks = sys.get_asyncgen_hooks()
    with sockets_of(network):
        try:
            return loop.run_until_complete(main)
        finally:
            _end_tasks(loop)
            loop.close()
            sys.set_asyncgen_hooks(*hooks)


def _end_tasks(loop: VirtualLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


def virtual_loop() -> VirtualLoop:
    """Return the loop that is running."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
