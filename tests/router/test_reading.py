"""Bytes come whole and in order through the one buffer, whoever else reads through it meanwhile."""

import asyncio
import ssl

import pytest
import trustme

from router.reading import READ_BYTES_MAX, ReadsThroughOneBuffer

SENT_BYTES = 5 * READ_BYTES_MAX + 7
CONNECTIONS = 8


class Collects(ReadsThroughOneBuffer):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, _: Exception | None) -> None:
        self.ended.set_result(None)


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    return server, client


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_many_connections_get_each_its_own_bytes(*, tls: bool) -> None:
    on_server, on_client = contexts() if tls else (None, None)
    loop = asyncio.get_running_loop()
    numbers = iter(range(CONNECTIONS))

    async def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes([next(numbers)]) * SENT_BYTES)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0, ssl=on_server)
    port, name = server.sockets[0].getsockname()[1], "localhost" if tls else None
    async with asyncio.timeout(30), server:
        opened = [
            await loop.create_connection(Collects, "127.0.0.1", port, ssl=on_client, server_hostname=name)
            for _ in range(CONNECTIONS)
        ]
        await asyncio.gather(*(protocol.ended for _, protocol in opened))
    got = [b"".join(protocol.pieces) for _, protocol in opened]
    assert all(len(one) == SENT_BYTES and len(set(one)) == 1 for one in got)
    assert {one[0] for one in got} == set(range(CONNECTIONS))
