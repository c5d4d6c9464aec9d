"""From what an HTTP client library raises to the cause that logs, metrics and records name.

Nothing here decides whether a request may be sent again: that is the body slot's doing alone.
"""

import errno
import ssl
from collections.abc import Mapping

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from router.body import StaleConnection
from router.core.delivery import Cause

_BY_KIND: tuple[tuple[type[BaseException], Cause], ...] = (
    (StaleConnection, Cause.STALE),
    (aiohttp.ClientConnectorDNSError, Cause.NAME_LOOKUP),
    (aiohttp.ClientSSLError, Cause.TLS),
    (ssl.SSLError, Cause.TLS),
    (aiohttp.ConnectionTimeoutError, Cause.CONNECT_TIMEOUT),
    (aiohttp.ServerDisconnectedError, Cause.LOST),
    (aiohttp.ClientResponseError, Cause.PROTOCOL),
    (HttpProcessingError, Cause.PROTOCOL),
    (TimeoutError, Cause.DEADLINE),
    (ConnectionError, Cause.RESET),
)
"""First match wins, over the whole chain of an error, outermost first; at each link the errno is asked before."""

_BY_ERRNO: Mapping[int, Cause] = {
    errno.ECONNREFUSED: Cause.REFUSED,
    errno.EHOSTUNREACH: Cause.UNREACHABLE,
    errno.ENETUNREACH: Cause.UNREACHABLE,
    errno.EHOSTDOWN: Cause.UNREACHABLE,
    errno.ENETDOWN: Cause.UNREACHABLE,
    errno.ETIMEDOUT: Cause.CONNECT_TIMEOUT,
    errno.EMFILE: Cause.OWN_LIMIT,
    errno.ENFILE: Cause.OWN_LIMIT,
    errno.ENOBUFS: Cause.OWN_LIMIT,
    errno.ENOMEM: Cause.OWN_LIMIT,
    errno.EADDRNOTAVAIL: Cause.OWN_LIMIT,
    errno.ECONNRESET: Cause.RESET,
    errno.ECONNABORTED: Cause.RESET,
    errno.EPIPE: Cause.RESET,
}

_OF_A_DEAD_CONNECTION = frozenset((Cause.LOST, Cause.RESET))


def cause_of(error: BaseException, *, connected: bool, reused: bool) -> Cause:
    """Name the cause of a send that failed before its headers came.

    `connected`: a connection stood; `reused`: it had served another request before.
    """
    cause = _first_known(error)
    if cause is None:
        return Cause.LOST if connected else Cause.UNREACHABLE
    if not connected and cause is Cause.DEADLINE:  # a deadline that ends a connect is its time-out
        return Cause.CONNECT_TIMEOUT
    if connected and cause is Cause.CONNECT_TIMEOUT:  # the kernel gave up on a connection that stood
        cause = Cause.RESET
    return Cause.STALE if reused and cause in _OF_A_DEAD_CONNECTION else cause


def innermost(error: BaseException) -> BaseException:
    """Return the error that all the others were raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def text_of(error: BaseException) -> str:
    """Return the innermost error in words, but nothing of what a pool said."""
    inner = innermost(error)
    if isinstance(inner, (HttpProcessingError, aiohttp.ClientResponseError)):
        return type(inner).__name__
    return f"{type(inner).__name__}: {inner}" if str(inner) else type(inner).__name__


def _first_known(error: BaseException | None) -> Cause | None:
    while error is not None:
        if isinstance(error, OSError) and (known := _BY_ERRNO.get(error.errno or 0)) is not None:
            return known
        for kind, cause in _BY_KIND:
            if isinstance(error, kind):
                return cause
        error = error.__cause__
    return None
