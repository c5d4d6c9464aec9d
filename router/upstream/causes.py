"""From what the network raises to the cause that logs, metrics and records name.

Nothing here decides whether a request may be sent again: that is the body slot's doing alone.
"""

import errno
import socket
import ssl
from collections.abc import Mapping

from router.core.delivery import Cause
from router.upstream.faults import Late, Lost, NotHttp

_BY_KIND: tuple[tuple[type[BaseException], Cause], ...] = (
    (Lost, Cause.LOST),
    (NotHttp, Cause.PROTOCOL),
    (socket.gaierror, Cause.NAME_LOOKUP),
    (ssl.SSLError, Cause.TLS),
    (ssl.CertificateError, Cause.TLS),
    (TimeoutError, Cause.CONNECT_TIMEOUT),
    (ConnectionError, Cause.RESET),
)
"""First match wins, over the whole chain of an error, outermost first."""

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

_OF_NAMES_AND_TLS = (socket.gaierror, ssl.SSLError)
"""OSErrors whose numbers are not the kernel's."""

_OF_A_CONNECT = frozenset((Cause.CONNECT_TIMEOUT, Cause.TLS))
_OF_A_DEAD_CONNECTION = frozenset((Cause.LOST, Cause.RESET))


def cause_of(error: BaseException, *, connected: bool, reused: bool) -> Cause:
    """Name the cause of a send that failed before its headers came.

    `connected`: a connection stood; `reused`: it had served another request before.
    """
    cause = _first_known(error)
    if cause is None:
        return Cause.LOST if connected else Cause.UNREACHABLE
    if connected and cause in _OF_A_CONNECT:  # the kernel, or TLS, gave up on a connection that stood
        cause = Cause.RESET
    return Cause.STALE if reused and cause in _OF_A_DEAD_CONNECTION else cause


def innermost(error: BaseException) -> BaseException:
    """Return the error that all the others were raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def text_of(error: BaseException) -> str:
    """Return the innermost error in words."""
    inner = innermost(error)
    return f"{type(inner).__name__}: {inner}" if str(inner) else type(inner).__name__


def _first_known(error: BaseException | None) -> Cause | None:
    while error is not None:
        if isinstance(error, Late):
            return error.cause
        if isinstance(error, OSError) and not isinstance(error, _OF_NAMES_AND_TLS):
            known = _BY_ERRNO.get(error.errno or 0)
            if known is not None:
                return known
        for kind, cause in _BY_KIND:
            if isinstance(error, kind):
                return cause
        error = error.__cause__
    return None
