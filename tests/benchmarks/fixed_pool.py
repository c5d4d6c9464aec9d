"""A pool whose answers are fixed bytes: python -m tests.benchmarks.fixed_pool. Prints its port.

It must cost less than what is measured: a bare asyncio Protocol, no parser. What it answers is asked for by a word in
the first message, since not every router passes other fields and headers on:

| word | answer |
| --- | --- |
| none of these | one chat completion with Content-Length |
| paced-I-N | N events, one every I milliseconds, each a chunk and a write of its own |
| burst-0-N | N tiny events, each a chunk of its own, as fast as they are taken |
"""

import asyncio
import re
import resource
import sys

from router.reading import ReadsThroughOneBuffer

ANSWER = (
    b'{"id":"chatcmpl-0","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Routers forward what was not sent."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}'
)
EVENT = (
    b'data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
TINY = b"data: x\n\n"
DONE = b"data: [DONE]\n\n"
MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}],"status":"ok"}'
BURST_EVENTS = 1_000

_COMMON = b"date: Wed, 01 Jan 2025 00:00:00 GMT\r\nserver: uvicorn\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_WORD = re.compile(rb"\b(paced|burst)-(\d+)-(\d+)\b")


def whole(body: bytes) -> bytes:
    """Return an answer of known length."""
    head = b"HTTP/1.1 200 OK\r\n" + _COMMON + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def chunk(data: bytes) -> bytes:
    """Return one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_HEAD = (
    b"HTTP/1.1 200 OK\r\n" + _COMMON + b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked"
    b"\r\n\r\n"
)
_END = chunk(DONE) + b"0\r\n\r\n"
_ANSWER, _MODELS, _EVENT, _TINY = whole(ANSWER), whole(MODELS), chunk(EVENT), chunk(TINY)


class FixedPool(ReadsThroughOneBuffer):
    """One connection: its requests one after the other."""

    def __init__(self) -> None:
        self._got = b""
        self._left = 0
        self._interval_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._bursting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def connection_lost(self, _: Exception | None) -> None:
        """End what was under way."""
        self._bursting = False
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._got += data
        while (head := self._got.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._got, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._got) < end:
                return
            request, self._got = self._got[:end], self._got[end:]
            self._answer(request)

    def pause_writing(self) -> None:
        """Stop a burst."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on with a burst."""
        self._paused = False
        if self._bursting:
            self._burst()

    def _answer(self, request: bytes) -> None:
        asked = _WORD.search(request)
        if asked is None:
            self._transport.write(_MODELS if request.startswith(b"GET") else _ANSWER)
            return
        self._left = int(asked[3])
        self._transport.write(_HEAD)
        if asked[1] == b"burst":
            self._bursting = True
            self._burst()
        else:
            self._interval_s = int(asked[2]) / 1000
            self._next_s = self._loop.time()
            self._pace()

    def _pace(self) -> None:
        if not self._left:
            self._transport.write(_END)
            return
        self._left -= 1
        self._transport.write(_EVENT)
        self._next_s += self._interval_s
        self._timer = self._loop.call_at(self._next_s, self._pace)

    def _burst(self) -> None:
        while self._left and not self._paused:
            events = min(self._left, BURST_EVENTS)
            self._left -= events
            self._transport.write(_TINY * events)
        if not self._left and self._bursting:
            self._bursting = False
            self._transport.write(_END)


async def main() -> None:
    """Serve until killed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = await asyncio.get_running_loop().create_server(FixedPool, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
