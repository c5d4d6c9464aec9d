"""Clients of a world: each asks as its plan says, reads at its own pace, and leaves when it likes."""

import asyncio
import contextlib
from collections.abc import Sequence

from tests.virtual.answers import Reading, request_body, request_head, upload_of
from tests.virtual.plan import ROUTER, Ask

CONTINUE_MAX_S = 1.0
"""How long a client waits to be told to go on before it sends its body anyway."""


class Heard:
    """What became of one ask, as its client saw it."""

    __slots__ = ("ask", "began_s", "end", "ended_s", "reading", "reused", "sent_s")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.reading = Reading()
        self.began_s = 0.0
        self.sent_s = float("inf")
        """When the last byte of the request was written."""
        self.ended_s = float("inf")
        self.end = "none"
        """complete; left; fin or reset of the connection before the answer was complete; refused; none: it hangs."""
        self.reused = False

    @property
    def clean(self) -> bool:
        """Tell whether the answer looked whole."""
        return self.end == "complete"

    @property
    def code(self) -> str | None:
        """Return what the router's own header says of the delivery; None: it has said nothing."""
        return self.reading.headers.get("x-pooldrill-delivery")

    def __repr__(self) -> str:
        return f"<Heard {self.ask.name} {self.end} {self.reading.status}>"


class ClientConnection(asyncio.Protocol):
    """A client's end of one connection to the router."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard: Heard | None = None
        self._done: asyncio.Future[None] | None = None
        self._woken: asyncio.Event = asyncio.Event()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        heard = self._heard
        if heard is None:  # an answer to nothing
            self.transport.abort()
            return
        heard.reading.feed(data)
        self._woken.set()
        if heard.reading.complete:
            self._end("complete")
        elif heard.ask.read_pause_s:
            self.transport.pause_reading()
            self._loop.call_later(heard.ask.read_pause_s, self.transport.resume_reading)

    def eof_received(self) -> None:
        heard = self._heard
        if heard is not None and not heard.reading.complete:
            heard.reading.ended()
            self._end("complete" if heard.reading.complete else "fin")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._end("fin" if exc is None else "reset")

    def close(self) -> None:
        """End the connection."""
        if not self.lost:
            self.transport.abort()
            self.lost = True

    async def ask(self, heard: Heard) -> None:
        """Ask, and return when all is over: answered, lost, or left."""
        ask = heard.ask
        self._heard, self._done = heard, self._loop.create_future()
        heard.began_s = self._loop.time()
        leaving = None if ask.leaves_s is None else self._loop.call_later(ask.leaves_s, self._leave)
        sending = asyncio.ensure_future(self._send(heard))
        try:
            await self._done
        finally:
            sending.cancel()
            if leaving is not None:
                leaving.cancel()
            self._heard = None
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    async def _send(self, heard: Heard) -> None:
        ask = heard.ask
        self.transport.write(request_head(ask, len(request_body(ask))))
        if ask.expects:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONTINUE_MAX_S):
                    while not heard.reading.continues:
                        self._woken.clear()
                        await self._woken.wait()
        for number, piece in enumerate(upload_of(ask)):
            if number and ask.upload_pause_s:
                await asyncio.sleep(ask.upload_pause_s)
            self.transport.write(piece)
        heard.sent_s = self._loop.time()

    def _leave(self) -> None:
        self._end("left")
        self.close()

    def _end(self, how: str) -> None:
        heard, done = self._heard, self._done
        if heard is not None and done is not None and not done.done():
            heard.end, heard.ended_s = how, self._loop.time()
            done.set_result(None)


async def lane(asks: Sequence[Ask], heard: dict[str, Heard], start_s: float) -> None:
    """Ask one after the other, on one connection as long as it is kept."""
    loop = asyncio.get_running_loop()
    connection: ClientConnection | None = None
    for ask in asks:
        await asyncio.sleep(max(0.0, start_s + ask.at_s - loop.time()))
        one = heard[ask.name] = Heard(ask)
        one.began_s = loop.time()
        if connection is None or connection.lost:
            try:
                _, connection = await loop.create_connection(ClientConnection, *ROUTER)
            except OSError:
                one.end, one.ended_s = "refused", loop.time()
                continue
        else:
            one.reused = True
        await connection.ask(one)
        says_close = one.reading.headers.get("connection", "").lower() == "close"
        if not one.clean or says_close or ask.old or one.sent_s == float("inf"):
            connection.close()
    if connection is not None:
        connection.close()
