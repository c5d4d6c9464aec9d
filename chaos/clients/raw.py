"""A plain aiohttp client: one request an operation, never a retry."""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from chaos.clients.exchange import Exchange
from chaos.clients.ledger import Ledger
from scenarios.plan import Planned
from scenarios.spec import Load
from scenarios.world.arrivals import SESSION_HEADER, Ask

PATH = "/v1/chat/completions"
PROMPT = "Say eight words."


class RawClient:
    """One session for a load entry; `base_url` is scheme, host and port. An asynchronous context manager."""

    def __init__(self, load: Load, base_url: str, ledger: Ledger) -> None:
        self._load = load
        self._base_url = base_url
        self._ledger = ledger
        self._clock = asyncio.get_running_loop().time
        self._session = aiohttp.ClientSession(
            # open loop: no connection may wait for another
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=load.timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def operate(self, planned: Planned, t_intended: float) -> None:
        """Make one operation and write it down, however it ends."""
        exchange, error = await self._ask(planned.operation_id, self._base_url, planned.ask)
        self._ledger.enter(planned, [exchange], t_intended=t_intended, t_end=self._clock(), error=error)

    async def probe(self, probe_id: str, base_url: str) -> str:
        """Ask another server, off the record. Returns what the client was told."""
        exchange, _ = await self._ask(probe_id, base_url)
        return exchange.row().answer

    async def _ask(self, operation_id: str, base_url: str, ask: Ask | None = None) -> tuple[Exchange, str]:
        """Send one request; returns it once it has ended, with the name of what the library raised."""
        body = request_body(self._load, operation_id, ask)
        request_id = f"{operation_id}-r0"
        exchange = Exchange(
            operation_id=operation_id,
            request_id=request_id,
            attempt=0,
            stream=self._load.stream,
            body=body,
            clock=self._clock,
        )
        headers = {"content-type": "application/json", "x-request-id": request_id, **told_to_routers(ask)}
        try:
            await self._exchange(exchange, base_url + PATH, body, headers)
        except aiohttp.ClientConnectorError as error:
            exchange.end("refused")
            return exchange, type(error).__name__
        except TimeoutError as error:
            exchange.end("timeout")
            return exchange, type(error).__name__
        except (aiohttp.ClientError, OSError) as error:
            exchange.end("reset")
            return exchange, type(error).__name__
        finally:
            exchange.left()  # cancelled
        return exchange, ""

    async def _exchange(self, exchange: Exchange, url: str, body: bytes, headers: dict[str, str]) -> None:
        async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            exchange.head(response.status, response.headers)
            # Nothing else is awaited in between: aiohttp drops what it holds when the connection breaks.
            async for piece in response.content.iter_any():
                exchange.piece(piece)
            exchange.complete()


def told_to_pools(operation_id: str, ask: Ask | None) -> dict[str, str | int]:
    """Return what a body tells fake pools: the operation, and what it asks where that matters."""
    if ask is None:
        return {"operation_id": operation_id}
    session = {} if ask.session is None else {"session": ask.session}
    tokens = {"prompt_tokens": ask.prompt_tokens, "output_tokens": ask.output_tokens}
    return {"operation_id": operation_id, **session, **tokens}


def told_to_routers(ask: Ask | None) -> dict[str, str]:
    """Return the header by which a router knows the requests of one session."""
    return {} if ask is None or ask.session is None else {SESSION_HEADER: ask.session}


def request_body(load: Load, operation_id: str, ask: Ask | None = None) -> bytes:
    """Return the body of a chat completion request."""
    return msgspec.json.encode(
        {
            "model": load.model,
            "messages": [{"role": "user", "content": PROMPT}],
            "stream": load.stream,
            **told_to_pools(operation_id, ask),
        }
    )
