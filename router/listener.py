"""One listening address: aiohttp's low-level server over one table of handlers."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from router.connection import Bounds, Server
from router.front import Front

BACKLOG = 1024
"""Connections the kernel may hold until they are accepted."""
HEADER_BYTES_MAX = 32 * 2**10
"""Longest request line and longest header."""
CLEAN_UP_S = 0.1
"""How long the server may take to let go of connections that have ended."""
POLL_S = 0.01


class CannotStart(RuntimeError):
    """The router cannot run here: a port is in use, a file cannot be written. One line, with the remedy."""


def cannot_listen(error: OSError | ValueError, *, host: str, port: int, option: str) -> CannotStart:
    """Say what is wrong with an address, and which option to change. A ValueError is a name that cannot be one."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(error, socket.gaierror | ValueError):
        why = f"{host!r} cannot be looked up; remedy: another --host"
    # asyncio has no number for an error when it has passed over all of a name's addresses
    elif error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, None}:
        why = f"{host} is no address of this machine; remedy: another --host"
    else:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno)
        why = f"{reason}; remedy: another {option}"
    return CannotStart(f"cannot listen on {where}: {why}")


class Listener:
    """Listens on one address between `open` and `close`. `option` is what a user changes to get another port.

    A `shared` port may have other processes listening on it; the kernel spreads the connections.
    """

    def __init__(
        self, front: Front, bounds: Bounds, *, host: str, port: int, option: str, shared: bool = False
    ) -> None:
        self.front = front
        self._host = host
        self._port = port
        self._option = option
        self._bounds = bounds
        self._shared = shared
        self._server: Server | None = None
        self._sockets: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Its address as a client writes it."""
        assert self._sockets is not None, "a listener has its address once it is open"
        host, port = self._sockets.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def connections(self) -> int:
        """Connections of clients that are open."""
        return 0 if self._server is None else len(self._server.connections)

    async def open(self) -> None:
        """Begin to listen. Raises CannotStart."""
        self._server = Server(
            self.front,
            self._bounds,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=self._bounds.keep_alive_s,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        loop = asyncio.get_running_loop()
        try:
            self._sockets = await loop.create_server(
                self._server, self._host, self._port, backlog=BACKLOG, reuse_port=self._shared or None
            )
        except (OSError, ValueError) as error:
            raise cannot_listen(error, host=self._host, port=self._port, option=self._option) from None

    async def drain(self, timeout_s: float, hurry: asyncio.Event, *, delay_s: float = 0.0) -> None:
        """Say that the end is near; after `delay_s` take no new connection, and wait until clients have their answers.

        From the first moment on every answer closes its connection, so a client that is idle meanwhile loses nothing:
        its connection stays open until nothing is under way any more. Waits at most the delay and `timeout_s`, and no
        longer once `hurry` is set.
        """
        if self._sockets is None or self._server is None:
            return
        self.front.draining = True
        await _until(hurry.is_set, delay_s)
        self._sockets.close()
        await asyncio.sleep(POLL_S)  # requests that have come get to their handlers
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + timeout_s
        await _until(lambda: not self.front.busy or hurry.is_set(), timeout_s)
        for connection in self._server.connections:
            if connection not in self.front.busy:
                connection.force_close()
        await _until(lambda: not self._being_read or hurry.is_set(), give_up_s - loop.time())

    @property
    def _being_read(self) -> bool:
        """Tell whether a client has not read all of its answer yet."""
        assert self._server is not None
        return any(
            connection.transport is None or connection.transport.get_write_buffer_size() > 0  # None: it is closing
            for connection in self._server.connections
        )

    async def close(self) -> None:
        """End everything that is left, at once."""
        if self._sockets is not None:
            self._sockets.close()
        if self._server is None:
            return
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()  # cancels the handler
        await self._server.shutdown(CLEAN_UP_S)
        await _until(lambda: not self.front.busy, CLEAN_UP_S)


async def _until(reached: Callable[[], bool], timeout_s: float) -> None:
    """Wait for a state of aiohttp's server, which has no event for it, at most `timeout_s`."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + timeout_s
    while not reached() and loop.time() < give_up_s:  # noqa: ASYNC110  (nobody would set the event)
        await asyncio.sleep(POLL_S)
