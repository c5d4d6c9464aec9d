"""Opening a connection: name lookup, every address of the name, and TLS, all within the bound of the connect."""

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple

from router.core.topology import Frontend
from router.upstream.origin import Origin


class Tls(NamedTuple):
    """What a connection to one frontend needs, as asyncio takes it."""

    context: ssl.SSLContext
    server_hostname: str


TlsOf = Callable[[Frontend], Tls | None]
"""Tells how a frontend is spoken to over TLS; None: not at all."""


def machines_own(frontend: Frontend) -> Tls | None:
    """Verify every https frontend by the machine's authorities and its URL's host."""
    if not frontend.url.startswith("https:"):
        return None
    from router.upstream.origin import origin_of

    return Tls(ssl.create_default_context(), origin_of(frontend.url).host)


async def dial(factory: Callable[[], asyncio.Protocol], origin: Origin, tls: Tls | None) -> asyncio.Protocol:
    """Open one connection. Raises OSError, of which gaierror and SSLError are kinds."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(
        factory,
        origin.host,
        origin.port,
        ssl=None if tls is None else tls.context,
        server_hostname=None if tls is None else tls.server_hostname,
    )
    return protocol
