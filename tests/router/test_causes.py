"""From an exception to a cause; the table is for people and decides nothing."""

import errno
import socket
import ssl

import pytest

from router.answers import IN_WORDS
from router.core.delivery import Cause
from router.upstream.causes import cause_of, innermost, text_of
from router.upstream.faults import Late, Lost, NotHttp


def raised_from(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def of_the_kernel(number: int) -> BaseException:
    return OSError(number, "of the kernel")


UNCONNECTED = [
    (of_the_kernel(errno.ECONNREFUSED), Cause.REFUSED),
    (of_the_kernel(errno.EHOSTUNREACH), Cause.UNREACHABLE),
    (of_the_kernel(errno.ENETUNREACH), Cause.UNREACHABLE),
    (of_the_kernel(errno.ETIMEDOUT), Cause.CONNECT_TIMEOUT),
    (of_the_kernel(errno.EMFILE), Cause.OWN_LIMIT),
    (of_the_kernel(errno.EADDRNOTAVAIL), Cause.OWN_LIMIT),
    (of_the_kernel(errno.EINVAL), Cause.UNREACHABLE),
    (OSError("Multiple exceptions"), Cause.UNREACHABLE),
    (raised_from(OSError("Multiple exceptions"), of_the_kernel(errno.ECONNREFUSED)), Cause.REFUSED),
    (socket.gaierror(-2, "Name or service not known"), Cause.NAME_LOOKUP),
    (ssl.SSLCertVerificationError("expired"), Cause.TLS),
    (ssl.SSLError(1, "alert"), Cause.TLS),
    (TimeoutError(), Cause.CONNECT_TIMEOUT),
    (ConnectionResetError(), Cause.RESET),
]
CONNECTED = [
    (Lost("the pool closed the connection"), Cause.LOST),
    (NotHttp("more than anybody wants to read"), Cause.PROTOCOL),
    (of_the_kernel(errno.ECONNRESET), Cause.RESET),
    (of_the_kernel(errno.EPIPE), Cause.RESET),
    (ConnectionResetError("Cannot write to closing transport"), Cause.RESET),
    (of_the_kernel(errno.ETIMEDOUT), Cause.RESET),
    (ssl.SSLError(1, "bad record"), Cause.RESET),
    *((Late(cause, "late"), cause) for cause in (Cause.UPLOAD_TIMEOUT, Cause.FIRST_BYTE_TIMEOUT, Cause.DEADLINE)),
    (RuntimeError("unheard of"), Cause.LOST),
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
    error = raised_from(OSError("outer"), ConnectionRefusedError(errno.ECONNREFUSED, "of the kernel"))
    assert isinstance(innermost(error), ConnectionRefusedError)
    assert text_of(error) == "ConnectionRefusedError: [Errno 111] of the kernel"
    assert text_of(TimeoutError()) == "TimeoutError"


def test_every_cause_has_words() -> None:
    assert set(IN_WORDS) == set(Cause)
