"""TLS towards the pools: whom the router believes, under which name, and whether a peer has said that it ends.

Laws
1. Certificates and names are verified unless a pool says `verify=off`, which is an event in the log at every start.
2. The handshake is part of the connect: within its bound, and before any body is touched.
3. A connection that ends without the peer's close_notify was cut. asyncio and uvloop both report that as a clean end of
   the stream (CPython 3.11, uvloop 0.23), so where the end of the connection is the end of an answer, ask
   `said_goodbye`.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from router.core.topology import Frontend

_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
NAME_CHARS_MAX = 253


class TlsError(ValueError):
    """What was asked for cannot be; the text says what is wrong and the remedy."""


class PoolTls(NamedTuple):
    """How one pool is spoken to over TLS; `name` is sent and verified instead of the URL's host, unless empty."""

    context: ssl.SSLContext
    name: str = ""

    @property
    def verified(self) -> bool:
        """Tell whether the pool must prove who it is."""
        return self.context.verify_mode is not ssl.CERT_NONE


class Tls(NamedTuple):
    """What a connection to one frontend needs, as asyncio takes it."""

    context: ssl.SSLContext
    server_hostname: str


class TlsTable:
    """TLS by frontend. A pool that is not in the table is verified against the machine's own authorities."""

    def __init__(self, by_pool: Mapping[str, PoolTls]) -> None:
        self._by_pool = by_pool

    def of(self, frontend: Frontend) -> Tls | None:
        """Return what a new connection to a frontend needs; None: plain HTTP."""
        if not frontend.url.startswith("https:"):
            return None
        pool = self._by_pool.get(frontend.pool) or PoolTls(context_for(None, verify=True))
        # A dot at the end is the resolver's business; no certificate has it.
        return Tls(pool.context, pool.name or (urlsplit(frontend.url).hostname or "").rstrip("."))

    def unverified(self) -> list[str]:
        """Return the names of the pools that need not prove who they are, sorted."""
        return sorted(name for name, pool in self._by_pool.items() if not pool.verified)


@cache
def context_for(ca: Path | None, *, verify: bool) -> ssl.SSLContext:
    """Return the context of pools that trust this bundle alone; None: the machine's authorities. Raises TlsError."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise TlsError(f"{ca} has no certificate that can be read; remedy: a file with PEM certificates") from None
    except OSError as error:
        raise TlsError(f"{ca}: {error.strerror}; remedy: a file that can be read") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def checked_name(name: str) -> str:
    """Return a server's name as it is sent and verified. Raises TlsError."""
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise TlsError("no name of a server; remedy: the name in its certificate, without scheme and port")
    return name.rstrip(".")


def said_goodbye(transport: asyncio.BaseTransport) -> bool:
    """Tell whether the peer of an ended connection has said so by close_notify; without TLS a FIN is all there is.

    Ask it when everything was read, in the protocol's `eof_received` or `connection_lost`.
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if tls is None:
        return True
    try:
        return tls.read(1) == b""
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:  # it would read on: the peer has not ended the stream, the connection has
        return False
