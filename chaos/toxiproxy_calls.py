"""Calls of toxiproxy-python, made safe: off the event loop, bounded, to one server each, and errors that are errors.

The library keeps host, port and HTTP client in its modules, one for the whole process. They are lent to one call at a
time, under a lock, and put back. By itself it sets no time-out, obeys HTTP_PROXY, and takes an error status for an
answer; what it gets here in place of `requests` does none of that.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import requests
import toxiproxy
import toxiproxy.api

from chaos.processes import Child

CONNECT_WAIT_S = 1.0
CALL_WAIT_S = 5.0
"""Longest silence of the server within one HTTP call."""
LIBRARY_WAIT_S = 15.0
"""Longest wait for another call of this process to end: each makes a few bounded HTTP calls."""
ERROR_TEXT_MAX = 300

_library = threading.Lock()
_T = TypeVar("_T")


class ToxiproxyError(RuntimeError):
    """The server cannot be used, refused a change, or did not make it."""

    exit_code: ClassVar[int] = 3


class Connection:
    """The library, lent to one call at a time, speaking to one server. `child` is the server if it is our own."""

    def __init__(self, host: str, port: int, *, child: Child | None = None) -> None:
        self.child = child
        self._host = host
        self._port = port
        self._http = _BoundedHttp()

    @property
    def address(self) -> str:
        """Host:port of its API."""
        return f"{self._host}:{self._port}"

    async def version(self) -> str:
        """Ask the server's version. The library's own `version` first connects without any bound."""
        answer = await self.call(lambda _: toxiproxy.api.APIConsumer.get("/version").json()["version"])
        return str(answer)

    async def call(self, work: Callable[[Any], _T]) -> _T:
        """Run blocking work in a thread; it gets the library's `Toxiproxy`. Raises ToxiproxyError."""
        try:
            return await asyncio.to_thread(self._call, work)
        except ToxiproxyError as error:
            if self.child is not None and self.child.returncode is not None:
                raise ToxiproxyError(str(self.child.failure(str(error)))) from error
            raise

    def _call(self, work: Callable[[Any], _T]) -> _T:
        with self._lent_library() as library:
            try:
                return work(library)
            except toxiproxy.api.ProxyExists as error:
                raise ToxiproxyError(f"Toxiproxy at {self.address}: {error}") from error
            except (KeyError, TypeError, ValueError) as error:
                raise ToxiproxyError(f"Toxiproxy at {self.address}: not its kind of answer: {error!r}") from error
            except requests.RequestException as error:
                raise ToxiproxyError(f"Toxiproxy at {self.address}: {_innermost(error)}") from error

    @contextlib.contextmanager
    def _lent_library(self) -> Iterator[Any]:
        if not _library.acquire(timeout=LIBRARY_WAIT_S):
            raise ToxiproxyError(f"Toxiproxy at {self.address}: other calls did not end within {LIBRARY_WAIT_S:g} s")
        consumer = toxiproxy.api.APIConsumer
        before = consumer.host, consumer.port, toxiproxy.api.requests
        try:
            consumer.host, consumer.port, toxiproxy.api.requests = self._host, self._port, self._http
            yield toxiproxy.Toxiproxy()
        finally:
            consumer.host, consumer.port, toxiproxy.api.requests = before
            _library.release()


class _BoundedHttp:
    """What the library gets in place of `requests`: bounded, without proxy variables, and an error status raises."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, url: str, params: Any = None) -> requests.Response:
        return self._send("GET", url, params=params)

    def delete(self, url: str) -> requests.Response:
        return self._send("DELETE", url)

    def post(self, url: str, data: Any = None, json: Any = None) -> requests.Response:
        return self._send("POST", url, data=data, json=json)

    def _send(self, method: str, url: str, **content: Any) -> requests.Response:
        response = self._session.request(
            method, url, timeout=(CONNECT_WAIT_S, CALL_WAIT_S), allow_redirects=False, **content
        )
        if not response.ok:
            told = response.text.strip()[:ERROR_TEXT_MAX]
            raise ToxiproxyError(f"Toxiproxy: {method} {url}: {response.status_code} {told}")
        return response


def _innermost(error: BaseException) -> str:
    """Class and text of the first cause: requests wraps a refused connect three times."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {error}"[:ERROR_TEXT_MAX]
