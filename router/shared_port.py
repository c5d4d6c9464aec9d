"""A port that several processes listen on: kept by one that never does, so that it stays theirs between two of them."""

import socket
from collections.abc import Iterator
from typing import Any

from router.listener import cannot_listen


def reserved(host: str, port: int) -> Iterator[socket.socket]:
    """Yield sockets that keep one port for the workers, one for each address of the host. Raises CannotStart.

    They are bound and never listen, so no connection comes to them.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise cannot_listen(error, host=host, port=port, option="--port") from None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            # Two routers that both share would share one port unnoticed; to one that does not, the other shows.
            if port:
                _bound(family, kind, protocol, (address[0], port, *address[2:]), shared=False).close()
            kept = _bound(family, kind, protocol, (address[0], port, *address[2:]), shared=True)
        except OSError as error:
            raise cannot_listen(error, host=host, port=port, option="--port") from None
        port = kept.getsockname()[1]
        yield kept


def _bound(family: int, kind: int, protocol: int, address: Any, *, shared: bool) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
