"""One listening address: aiohttp's low-level server over one table of handlers."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from aiohttp import web

from router.front import Front

BACKLOG = 1024
"""Connections the kernel may hold until they are accepted."""
KEEP_ALIVE_S = 75.0
"""How long a client's idle connection is kept."""
LINGER_S = 5.0
"""How long the rest of an upload that was refused is read and thrown away, so that its client gets to see why."""
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

    def __init__(self, front: Front, *, host: str, port: int, option: str, shared: bool = False) -> None:
        self.front = front
        self._host = host
        self._port = port
        self._option = option
        self._shared = shared
        self._server: web.Server | None = None
        self._sockets: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Its address as a client writes it."""
        assert self._sockets is not None, "a listener has its address once it is open"
        host, port = self._sockets.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def open(self) -> None:
        """Begin to listen. Raises CannotStart."""
        self._server = web.Server(
            self.front.handle,
            handler_cancellation=True,  # a client that leaves ends its handler, and with it the send
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=LINGER_S,
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

    async def drain(self, timeout_s: float, hurry: asyncio.Event) -> None:
        """Take no new connection, close the idle ones, and wait until the others have had their answers.

        Waits at most `timeout_s`, and no longer once `hurry` is set.
        """
        if self._sockets is None or self._server is None:
            return
        self.front.draining = True
        self._sockets.close()
        await asyncio.sleep(POLL_S)  # requests that have come get to their handlers
        server = self._server
        for connection in server.connections:
            if connection not in self.front.busy:
                connection.force_close()
        await _until(lambda: not server.connections or hurry.is_set(), timeout_s)

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
