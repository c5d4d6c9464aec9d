"""The real OpenAI SDK, with its own retries: one shared client for a load entry.

The SDK's retries are byte-identical, so an event hook of its HTTP client, which runs for each of them, gives every HTTP
request an id of its own; and its transport is wrapped, so that every one of them is measured.
"""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import httpx2
import openai

from chaos.clients.exchange import Clock, Exchange
from chaos.clients.ledger import Ledger
from chaos.clients.raw import PROMPT, told_to_pools, told_to_routers
from scenarios.plan import Planned
from scenarios.record import RequestEnd
from scenarios.spec import Load
from scenarios.world.arrivals import Ask

OPERATION_HEADER = "x-pooldrill-operation-id"
SLEEP_MAX_S = 120.0
"""Longest sleep of the SDK before a retry: a Retry-After up to that is obeyed."""


class SdkClient:
    """One `AsyncOpenAI` for a load entry; `base_url` is scheme, host and port. An asynchronous context manager."""

    def __init__(self, load: Load, base_url: str, ledger: Ledger) -> None:
        self._load = load
        self._ledger = ledger
        self._clock = asyncio.get_running_loop().time
        # The SDK's time-out bounds each silence, not the whole: an answer that trickles would never end.
        self._call_max_s = (load.max_retries + 1) * (load.timeout_s + SLEEP_MAX_S)
        self._open: dict[str, list[Exchange]] = {}
        transport = httpx2.AsyncHTTPTransport(limits=openai.DEFAULT_CONNECTION_LIMITS, trust_env=False)
        self._http = openai.DefaultAsyncHttpxClient(
            transport=_Watched(transport, self._open, load, self._clock),
            event_hooks={"request": [self._name_request]},
            trust_env=False,
        )
        self._client = openai.AsyncOpenAI(
            base_url=f"{base_url}/v1",
            api_key="drill",
            max_retries=load.max_retries,
            timeout=load.timeout_s,
            http_client=self._http,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def operate(self, planned: Planned, t_intended: float) -> None:
        """Make one operation and write it down with all its requests, however it ends."""
        exchanges, error = await self._ask(planned.operation_id, self._client, planned.ask)
        self._ledger.enter(planned, exchanges, t_intended=t_intended, t_end=self._clock(), error=error)

    async def probe(self, probe_id: str, base_url: str) -> str:
        """Ask another server, off the record. Returns what the client was told at last."""
        exchanges, _ = await self._ask(probe_id, self._client.with_options(base_url=f"{base_url}/v1"))
        return exchanges[-1].row().answer

    async def _ask(
        self, operation_id: str, client: openai.AsyncOpenAI, ask: Ask | None = None
    ) -> tuple[list[Exchange], str]:
        """Make one call of the SDK; returns its requests, and the name of what it raised."""
        exchanges: list[Exchange] = []
        self._open[operation_id] = exchanges
        try:
            async with asyncio.timeout(self._call_max_s):
                await self._call(operation_id, client, ask)
        except (openai.OpenAIError, httpx2.HTTPError, TimeoutError) as error:
            return exchanges, type(error).__name__
        finally:
            del self._open[operation_id]
            for exchange in exchanges:
                exchange.left()  # whatever it was still waiting for
        return exchanges, ""

    async def _call(self, operation_id: str, client: openai.AsyncOpenAI, ask: Ask | None) -> None:
        completions = client.chat.completions
        answer = await completions.create(
            model=self._load.model,
            messages=[{"role": "user", "content": PROMPT}],
            stream=self._load.stream,
            extra_body=told_to_pools(operation_id, ask),
            extra_headers={OPERATION_HEADER: operation_id, **told_to_routers(ask)},
        )
        if isinstance(answer, openai.AsyncStream):
            async with answer:
                async for _ in answer:
                    pass

    async def _name_request(self, request: httpx2.Request) -> None:
        operation_id = request.headers[OPERATION_HEADER]
        request.headers["x-request-id"] = f"{operation_id}-r{len(self._open[operation_id])}"


class _Watched(httpx2.AsyncBaseTransport):
    """The transport, with every request measured."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, open_: dict[str, list[Exchange]], load: Load, clock: Clock
    ) -> None:
        self._inner = inner
        self._open = open_
        self._load = load
        self._clock = clock

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        operation_id = request.headers[OPERATION_HEADER]
        exchanges = self._open[operation_id]
        exchange = Exchange(
            operation_id=operation_id,
            request_id=request.headers["x-request-id"],
            attempt=len(exchanges),
            stream=self._load.stream,
            body=request.content,
            clock=self._clock,
        )
        exchanges.append(exchange)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            exchange.end(_end_of(error))
            raise
        exchange.head(response.status_code, response.headers)
        assert isinstance(response.stream, httpx2.AsyncByteStream), "an asynchronous transport gives such a stream"
        stream: httpx2.AsyncByteStream = _WatchedStream(response.stream, exchange)
        if response.status_code >= 400:
            stream = await _Replay.of(stream)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _WatchedStream(httpx2.AsyncByteStream):
    """The body of an answer, measured as it is read."""

    def __init__(self, inner: httpx2.AsyncByteStream, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner:
                self._exchange.piece(piece)
                yield piece
        except httpx2.TransportError as error:
            self._exchange.end(_end_of(error))
            raise
        self._exchange.complete()

    async def aclose(self) -> None:
        self._exchange.left()
        await self._inner.aclose()


class _Replay(httpx2.AsyncByteStream):
    """An error's body, read beforehand: the SDK closes it unread when it sends again, and its code would be lost."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._failure: httpx2.TransportError | None = None

    @classmethod
    async def of(cls, stream: httpx2.AsyncByteStream) -> "_Replay":
        """Read a stream to its end, which may be a failure; that comes again in its place."""
        replay = cls()
        try:
            async for piece in stream:
                replay._pieces.append(piece)
        except httpx2.TransportError as error:
            replay._failure = error
        finally:
            await stream.aclose()
        return replay

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._failure is not None:
            raise self._failure


def _end_of(error: httpx2.TransportError) -> RequestEnd:
    if isinstance(error, httpx2.TimeoutException):
        return "timeout"
    return "refused" if isinstance(error, httpx2.ConnectError) else "reset"
