"""From an exception to a cause; the table is for people and decides nothing."""

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http_exceptions import BadStatusLine

from router.answers import IN_WORDS
from router.body import StaleConnection
from router.core.delivery import Cause
from router.upstream.causes import cause_of, innermost, text_of

KEY = ConnectionKey("pool", 80, False, True, None, None, None, None)


def raised_from(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def connector_error(number: int) -> BaseException:
    inner = OSError(number, "of the kernel")
    return raised_from(aiohttp.ClientConnectorError(KEY, inner), inner)


UNCONNECTED = [
    (connector_error(errno.ECONNREFUSED), Cause.REFUSED),
    (connector_error(errno.EHOSTUNREACH), Cause.UNREACHABLE),
    (connector_error(errno.ENETUNREACH), Cause.UNREACHABLE),
    (connector_error(errno.ETIMEDOUT), Cause.CONNECT_TIMEOUT),
    (connector_error(errno.EMFILE), Cause.OWN_LIMIT),
    (connector_error(errno.EADDRNOTAVAIL), Cause.OWN_LIMIT),
    (connector_error(errno.EINVAL), Cause.UNREACHABLE),
    (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "Name or service not known")), Cause.NAME_LOOKUP),
    (aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError("expired")), Cause.TLS),
    (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "alert")), Cause.TLS),
    (aiohttp.ConnectionTimeoutError("late"), Cause.CONNECT_TIMEOUT),
    (TimeoutError(), Cause.CONNECT_TIMEOUT),
]
CONNECTED = [
    (aiohttp.ServerDisconnectedError(), Cause.LOST),
    (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), Cause.RESET),
    (aiohttp.ClientOSError(errno.EPIPE, "pipe"), Cause.RESET),
    (aiohttp.ClientConnectionResetError("Cannot write to closing transport"), Cause.RESET),
    (aiohttp.ClientOSError(errno.ETIMEDOUT, "the kernel gave up"), Cause.RESET),
    (TimeoutError(), Cause.DEADLINE),
    (raised_from(aiohttp.ClientConnectionError("Failed to send"), StaleConnection()), Cause.STALE),
    (aiohttp.ClientConnectionError("unheard of"), Cause.LOST),
]


@pytest.mark.parametrize(("error", "cause"), UNCONNECTED)
def test_before_a_connection_stood(error: BaseException, cause: Cause) -> None:
    assert cause_of(error, connected=False, reused=False) is cause


@pytest.mark.parametrize(("error", "cause"), CONNECTED)
def test_on_a_new_connection(error: BaseException, cause: Cause) -> None:
    assert cause_of(error, connected=True, reused=False) is cause


@pytest.mark.parametrize(("error", "cause"), CONNECTED)
def test_a_loss_on_a_reused_connection_is_stale(error: BaseException, cause: Cause) -> None:
    known = str(error) != "unheard of"
    expected = Cause.STALE if cause in {Cause.LOST, Cause.RESET} and known else cause
    assert cause_of(error, connected=True, reused=True) is expected


def test_the_innermost_error_is_what_is_told() -> None:
    error = connector_error(errno.ECONNREFUSED)
    assert isinstance(innermost(error), ConnectionRefusedError)
    assert text_of(error) == "ConnectionRefusedError: [Errno 111] of the kernel"
    assert text_of(BadStatusLine("what the pool said")) == "BadStatusLine"
    assert text_of(TimeoutError()) == "TimeoutError"


def test_every_cause_has_words() -> None:
    assert set(IN_WORDS) == set(Cause)
