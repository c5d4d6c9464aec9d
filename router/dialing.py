"""Opening a connection to a frontend: every address its name has, and TLS, all of it within the caller's bound.

Laws
1. A name is looked up anew for every connection, so one that has moved is followed by the next; connections that are
   opened at the same time share one look-up.
2. Look-ups have a thread for each name and no more: a name server that hangs holds up no other name, and no exit.
3. An address that hangs does not eat the bound: after ADDRESS_DELAY_S the next one is tried beside it (RFC 8305). That
   is aiohappyeyeballs' doing, since uvloop's `create_connection` tries one after the other (uvloop 0.23).
"""

import asyncio
import errno
import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit

from aiohappyeyeballs import AddrInfoType, start_connection

from router.core.topology import Frontend
from router.tls import TlsTable

ADDRESS_DELAY_S = 0.25
"""How long an address has for itself before the next is tried beside it; the delay that RFC 8305 recommends."""

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)
_Found = list[AddrInfoType] | Exception


class Dialer:
    """Opens connections to frontends. Made inside a running event loop."""

    def __init__(self, tls: TlsTable) -> None:
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._looking: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def dial(
        self, make_protocol: Callable[[], ProtocolT], frontend: Frontend
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Connect, and shake hands where there is TLS. It has no bound of its own, so give it one.

        Raises OSError: socket.gaierror for a name, ssl.SSLError for the handshake.
        """
        host, port = address_of(frontend.url)
        tls = self._tls.of(frontend)
        context, name = (None, None) if tls is None else tls
        if _is_literal(host):
            return await self._loop.create_connection(make_protocol, host, port, ssl=context, server_hostname=name)
        found = await self._look_up(host, port)
        connected = await start_connection(found, happy_eyeballs_delay=ADDRESS_DELAY_S, loop=self._loop)
        return await self._loop.create_connection(make_protocol, sock=connected, ssl=context, server_hostname=name)

    async def _look_up(self, host: str, port: int) -> list[AddrInfoType]:
        key = host, port
        looking = self._looking.get(key)
        if looking is None:
            looking = self._begin(key)
        found = await asyncio.shield(looking)  # whoever gives up leaves it to the others
        if isinstance(found, list):
            return found
        if isinstance(found, OSError) and not isinstance(found, socket.gaierror):  # no descriptor, for example
            raise OSError(found.errno, found.strerror) from found
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: {found}") from found

    def _begin(self, key: tuple[str, int]) -> "asyncio.Future[_Found]":
        looking: asyncio.Future[_Found] = self._loop.create_future()
        try:
            threading.Thread(target=_ask, args=(*key, looking, self._loop), daemon=True).start()
        except RuntimeError as error:
            raise OSError(errno.ENOMEM, str(error)) from None
        self._looking[key] = looking
        looking.add_done_callback(lambda _: self._looking.pop(key))
        return looking


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a frontend's URL."""
    parts = urlsplit(url)
    assert parts.hostname, "checked where the URL was read"
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _ask(host: str, port: int, looking: "asyncio.Future[_Found]", loop: asyncio.AbstractEventLoop) -> None:
    """Look a name up, in a thread of its own."""
    try:
        found: _Found = list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:  # a label that is too long is a UnicodeError
        found = error
    with suppress(RuntimeError):  # the event loop has been closed meanwhile
        loop.call_soon_threadsafe(looking.set_result, found)


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
