"""The one place that speaks to a Toxiproxy server, through toxiproxy-python, whose traps end here.

Law:
1. Nothing blocks the event loop: the library's blocking calls run in a thread. A proxy that is disabled while the loop
   stands still would turn a refused send into a sent one.
2. Every HTTP call is bounded and ignores HTTP_PROXY (chaos/toxiproxy_calls.py).
3. The state is read back after every change, and a difference is an error: the library reports a failed `enable` as a
   success, and the server ignores what it does not know.
4. Proxies listen on 127.0.0.1 and a fixed port, and are made disabled; toxics come first, then the listener.
5. Only proxies made here are changed or deleted. `/reset` and `/populate` are never used: the first enables everybody's
   proxies, the second may apply a half.

The library cannot change a toxic: remove the old one and add another.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import toxiproxy

from chaos.ports import LOOPBACK, PORT_MAX, PORT_MIN, PortReservations
from chaos.processes import Children
from chaos.provision import SERVER_VERSION, Server
from chaos.toxics import Toxic
from chaos.toxiproxy_calls import Connection, ToxiproxyError

__all__ = ["AddressError", "Proxy", "ProxyState", "Toxiproxy", "ToxiproxyError", "loopback_address"]

PROXIES_MAX = 1_000
LOG_LEVEL = "info"
"""What a server of our own writes to its log: proxies, connections, errors."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class AddressError(ToxiproxyError):
    """A server that is not on this machine, or not named as http://host:port."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class ProxyState:
    """What the server says of one proxy. Addresses are host:port; toxics by name."""

    listen: str
    upstream: str
    enabled: bool
    toxics: Mapping[str, Toxic] = field(default_factory=dict)


class Proxy:
    """One proxy on 127.0.0.1, made by `Toxiproxy.create`. Every method returns once the server is seen to have done it.

    They raise ToxiproxyError; changes of one proxy happen one after the other.
    """

    def __init__(self, connection: Connection, *, name: str, listen_port: int, upstream_port: int) -> None:
        self.name = name
        self.listen_port = listen_port
        self.upstream_port = upstream_port
        self.state = ProxyState(
            listen=f"{LOOPBACK}:{listen_port}", upstream=f"{LOOPBACK}:{upstream_port}", enabled=False
        )
        self._exists = False
        self._connection = connection
        self._handle = toxiproxy.Proxy(name=name, listen=self.state.listen, upstream=self.state.upstream, enabled=False)

    def __repr__(self) -> str:
        mode = "enabled" if self.state.enabled else "disabled" if self._exists else "not on the server"
        return f"Proxy({self.name}, {self.listen_port} -> {self.upstream_port}, {mode}, {sorted(self.state.toxics)})"

    async def enable(self) -> None:
        """Listen and pass connections on."""
        await self._change(lambda _: self._handle.enable(), lambda before: replace(before, enabled=True))

    async def disable(self) -> None:
        """Stop listening, so that connects are refused; this also cuts every connection through the proxy."""
        await self._change(lambda _: self._handle.disable(), lambda before: replace(before, enabled=False))

    async def add(self, toxic: Toxic) -> None:
        """Add a toxic, to open connections as well."""

        def add(_: Any) -> None:
            self._handle.add_toxic(
                type=toxic.type,
                name=toxic.name,
                stream=toxic.stream,
                toxicity=toxic.toxicity,
                attributes=dict(toxic.attributes),
            )

        await self._change(add, lambda before: replace(before, toxics={**before.toxics, toxic.name: toxic}))

    async def remove(self, toxic_name: str) -> None:
        """Remove a toxic."""

        def without(before: ProxyState) -> ProxyState:
            return replace(before, toxics={name: t for name, t in before.toxics.items() if name != toxic_name})

        await self._change(lambda _: self._handle.destroy_toxic(toxic_name), without)

    async def delete(self) -> None:
        """Delete the proxy with its connections. Safe to call twice."""

        def delete(library: Any) -> None:
            if not self._exists:  # never made, or somebody else's of the same name
                return
            self._handle.destroy()
            if library.get_proxy(self.name) is not None:
                raise ToxiproxyError(f"proxy {self.name}: still there after it was deleted")
            self._exists = False
            self.state = replace(self.state, enabled=False, toxics={})

        await self._connection.call(delete)

    async def create_on_server(self) -> None:
        """Make the proxy known to the server, disabled. Called once, by `Toxiproxy.create`."""

        def create(library: Any) -> None:
            library.create(name=self.name, listen=self.state.listen, upstream=self.state.upstream, enabled=False)
            self._exists = True

        await self._change(create, lambda before: before)

    async def _change(self, act: Callable[[Any], object], expect: Callable[[ProxyState], ProxyState]) -> None:
        def change(library: Any) -> None:
            wanted = expect(self.state)
            act(library)
            found = _read_state(library, self.name)
            if found != wanted:
                raise ToxiproxyError(f"proxy {self.name}: is {found} after a change that should have made it {wanted}")
            # in the thread, which runs to its end even if the waiting task is cancelled
            self.state = found

        await self._connection.call(change)


class Toxiproxy:
    """A server, our own or a shared one. An asynchronous context manager; made by `open`.

    At the end our proxies on a shared server are deleted; a server of our own is stopped with the other children.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._proxies: list[Proxy] = []
        # nobody else's proxies are in the way on a server of our own
        self._prefix = "" if connection.child is not None else f"pooldrill-{os.getpid()}-"

    def __repr__(self) -> str:
        kind = "shared" if self._connection.child is None else "own"
        return f"Toxiproxy({self.address}, {kind}, {self._proxies})"

    @property
    def address(self) -> str:
        """Host:port of the server's API."""
        return self._connection.address

    async def version(self) -> str:
        """Ask the server's version."""
        return await self._connection.version()

    @classmethod
    async def open(cls, server: Server, *, children: Children, ports: PortReservations) -> Self:
        """Start the server's binary as one of `children`, or join the one at its URL; check its version either way.

        Raises ToxiproxyError (AddressError for a URL that is not on loopback) and ProcessError when it does not start.
        """
        if server.url is not None:
            connection = Connection(*loopback_address(server.url))
        else:
            port = ports.take()
            # named, since the server's own default host is "localhost", which may be ::1
            argv = [str(server.path), "-host", LOOPBACK, "-port", str(port)]
            # by default it writes down every piece of every answer
            child = await children.start("toxiproxy", argv, env={**os.environ, "LOG_LEVEL": LOG_LEVEL})
            await child.accepts(port)
            connection = Connection(LOOPBACK, port, child=child)
        version = await connection.version()
        if version != SERVER_VERSION:
            raise ToxiproxyError(f"Toxiproxy at {connection.address} is {version!r}; needed is {SERVER_VERSION}")
        return cls(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create(
        self, name: str, *, listen_port: int, upstream_port: int, toxics: Sequence[Toxic] = (), enabled: bool = True
    ) -> Proxy:
        """Make a proxy from 127.0.0.1:`listen_port` to 127.0.0.1:`upstream_port`; it listens once its toxics are there.

        On a shared server its name gets a prefix. Raises ToxiproxyError.
        """
        _check_new(name, listen_port=listen_port, upstream_port=upstream_port)
        if len(self._proxies) >= PROXIES_MAX:
            raise ToxiproxyError(f"proxy {name}: already {PROXIES_MAX} proxies; remedy: a smaller scenario")
        proxy = Proxy(self._connection, name=self._prefix + name, listen_port=listen_port, upstream_port=upstream_port)
        self._proxies.append(proxy)
        await proxy.create_on_server()
        for toxic in toxics:
            await proxy.add(toxic)
        if enabled:
            await proxy.enable()
        return proxy

    async def close(self) -> None:
        """Delete our proxies if the server is a shared one. Safe to call twice. Raises the first error at the end."""
        errors: list[ToxiproxyError] = []
        while self._proxies:
            proxy = self._proxies.pop()
            if self._connection.child is None:
                try:
                    await proxy.delete()
                except ToxiproxyError as error:
                    errors.append(error)
        if errors:
            raise errors[0]


def loopback_address(url: str) -> tuple[str, int]:
    """Host and port of a server's URL. Raises AddressError unless it is http://host:port on this machine."""
    remedy = "name a server on this machine, as http://127.0.0.1:8474"
    try:
        parts = urlsplit(url)
        port = parts.port
        host = LOOPBACK if parts.hostname == "localhost" else parts.hostname or ""
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise AddressError(f"Toxiproxy at {url}: not an address of this machine; {remedy}")
    if port is None or parts.scheme != "http" or parts.path.strip("/") or "@" in parts.netloc:
        raise AddressError(f"Toxiproxy at {url}: only http, host and port; {remedy}")
    return f"[{host}]" if ":" in host else host, port


def _read_state(library: Any, name: str) -> ProxyState:
    proxy = library.get_proxy(name)
    if proxy is None:
        raise ToxiproxyError(f"proxy {name}: the server does not know it")
    toxics = {
        toxic.name: Toxic(
            type=toxic.type,
            name=toxic.name,
            stream=toxic.stream,
            toxicity=toxic.toxicity,
            attributes=toxic.attributes,
        )
        for toxic in proxy.toxics().values()
    }
    return ProxyState(listen=proxy.listen, upstream=proxy.upstream, enabled=proxy.enabled, toxics=toxics)


def _check_new(name: str, *, listen_port: int, upstream_port: int) -> None:
    if not _NAME.fullmatch(name):
        raise ToxiproxyError(f"proxy name {name!r}: use letters, digits, '.', '_' and '-', at most 100")
    if not PORT_MIN <= listen_port <= PORT_MAX:
        raise ToxiproxyError(f"proxy {name}: listen port {listen_port}; use {PORT_MIN} to {PORT_MAX}, see chaos.ports")
    if not 0 < upstream_port <= 65_535:
        raise ToxiproxyError(f"proxy {name}: upstream port {upstream_port}; use 1 to 65535")
