"""A router in this process on real sockets, and a bare client of it."""

import asyncio
import gc
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from router.app import App, running
from router.clock import LoopClock
from router.core.config import RouterConfig
from router.core.topology import Pool
from router.credentials import Secret
from router.log import EventLog, LibraryEvents
from router.settings import Settings, ShellConfig
from router.tls import PoolTls
from scenarios.record import Send

CHAT = "/v1/chat/completions"
SETTLE_S = 5.0
"""Longest wait for a state that must come by itself."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client saw of one request; `broken`: the answer broke off after these bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: bool

    @property
    def code(self) -> str:
        code: str = json.loads(self.body)["error"]["code"]
        return code

    @property
    def message(self) -> str:
        message: str = json.loads(self.body)["error"]["message"]
        return message


class Live:
    """A running router, with what it wrote."""

    def __init__(self, app: App, session: aiohttp.ClientSession, events: io.StringIO, send_log: Path) -> None:
        self.app = app
        self.session = session
        self.url = app.public.url
        self._events = events
        self._send_log = send_log

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._events.getvalue().splitlines()]

    def forget_events(self) -> None:
        """Begin to collect events anew."""
        self._events.seek(0)
        self._events.truncate()

    async def ask(self, request_id: str = "r-1", *, path: str = CHAT, **content: object) -> Seen:
        body = json.dumps({"model": "m", "messages": [], **content}).encode()
        return await self.post(body, path=path, headers={"x-request-id": request_id})

    async def post(self, body: Any, *, path: str = CHAT, headers: Mapping[str, str] | None = None) -> Seen:
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.post(URL(self.url + path, encoded=True), data=data, headers=headers) as response:
            return await seen(response)

    async def get(self, path: str) -> Seen:
        async with self.session.get(self.url + path) as response:
            return await seen(response)

    def rows(self) -> list[Send]:
        """The send log, read as a drill's record reads it. Call it after the router has ended."""
        return [msgspec.json.decode(line, type=Send) for line in self._send_log.read_bytes().splitlines()]

    async def settled(self) -> None:
        """Wait until nothing is under way, then check what must hold at every quiet moment."""
        policy = self.app.policy
        await until(lambda: not any(policy.in_flight().values()) and not self.app.public.front.busy)
        tally = policy.tally
        assert policy.waiting == 0
        assert self.app.buffered.held == 0
        assert sum(tally.sends.values()) == sum(sends * count for (_, sends), count in tally.client_requests.items())
        assert sum(tally.failovers.values()) == sum(
            count for (_, sends), count in tally.client_requests.items() if sends == 2
        )


async def seen(response: aiohttp.ClientResponse) -> Seen:
    pieces: list[bytes] = []
    try:
        async for piece in response.content.iter_any():
            pieces.append(piece)  # noqa: PERF401  (what came before an error counts)
    except aiohttp.ClientError:
        return Seen(response.status, response.headers, b"".join(pieces), broken=True)
    return Seen(response.status, response.headers, b"".join(pieces), broken=False)


@asynccontextmanager
async def live(
    tmp_path: Path,
    *urls: str,
    pools: tuple[Pool, ...] = (),
    rules: RouterConfig | None = None,
    shell: ShellConfig | None = None,
    tls: Mapping[str, PoolTls] | None = None,
    secrets: Mapping[str, Secret] | None = None,
) -> AsyncIterator[Live]:
    """Run a router in front of pools a, b, ... of one frontend each; its laws are checked when it ends."""
    named = tuple(Pool.of_urls(name, [url]) for name, url in zip("abcd", urls, strict=False))
    settings = Settings(
        pools=pools or named,
        tls=tls or {},
        secrets=secrets or {},
        rules=rules or RouterConfig(connect_timeout_s=0.3, deadline_s=10.0, idle_timeout_s=10.0, patience_s=0.2),
        shell=shell or ShellConfig(drain_timeout_s=5.0, models_timeout_s=1.0),
        admin_port=0,
        send_log=tmp_path / "sends.jsonl",
    )
    written = io.StringIO()
    events = EventLog(LoopClock(asyncio.get_running_loop()), written)
    library = LibraryEvents(events)
    logging.getLogger().addHandler(library)
    try:
        async with running(settings, events) as app, aiohttp.ClientSession() as session:
            router = Live(app, session, written, tmp_path / "sends.jsonl")
            yield router
            await router.settled()
        await asyncio.sleep(0.01)  # connections that were closed get to be forgotten by the event loop
    finally:
        logging.getLogger().removeHandler(library)
    gc.collect()  # asyncio tells of errors that nobody looked at when it throws them away
    assert [line for line in router.events if line["event"] == "library"] == []


@asynccontextmanager
async def client(
    router: Live,
    body: bytes = b'{"model": "m"}',
    *,
    declared: int | None = None,
    limit: int = 2**16,
    ahead: bytes = b"",
) -> AsyncIterator[asyncio.StreamReader]:
    """Send one request on a connection of its own, which is closed when the context ends.

    `declared` is the Content-Length if it is not to be the body's; `limit` bounds what is read ahead; `ahead` follows
    without a wait for the answer.
    """
    host, port = router.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=limit)
    length = len(body) if declared is None else declared
    head = f"POST {CHAT} HTTP/1.1\r\nHost: router\r\nx-request-id: leaving\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode() + body + ahead)
    try:
        yield reader
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def until(reached: Callable[[], object], within_s: float = SETTLE_S) -> None:
    """Wait for a state that comes by itself. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while not reached():  # noqa: ASYNC110  (what is waited for is in a library or in a file)
            await asyncio.sleep(0.005)
