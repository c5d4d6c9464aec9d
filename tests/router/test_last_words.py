"""A pool that answers and hangs up while its request is still being written; on the kernel's own sockets."""

import asyncio

from router.clock import LoopClock
from router.core.bounds import Bounds, Limits
from router.core.config import RouterConfig
from router.upstream.connection import Connection
from router.upstream.origin import origin_of
from tests.router.raw_pool import head


async def test_an_early_answer_is_heard_though_the_upload_fails_first() -> None:
    """Nothing was read yet when a write finds the connection reset."""

    async def refuses_by_the_head_alone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(413, "Content-Length: 5", "Connection: close") + b"early")
        writer.transport.abort()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(refuses_by_the_head_alone, "127.0.0.1", 0, limit=1024)
    async with server:
        host, port = server.sockets[0].getsockname()
        clock, origin = LoopClock(loop), origin_of(f"http://{host}:{port}")
        transport, connection = await loop.create_connection(
            lambda: Connection(loop, clock, origin, lambda _: None), host, port
        )
        bounds = Bounds(Limits(RouterConfig()), clock.monotonic(), until_s=clock.monotonic() + 10)
        connection.hand_over(b"POST / HTTP/1.1\r\n\r\n", bytes(20_000_000), bounds)
        transport.pause_reading()
        answer = await connection.answered()
        assert answer is not None
        assert (answer.status, connection.whole, connection.failure) == (413, True, None)
        connection.cut()
