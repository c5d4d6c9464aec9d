"""The least that aiohttp needs to relay a request: python -m tests.benchmarks.relay POOL_PORT. Prints its port.

Server and ClientSession, no rule, no bounds, no error handling: what this costs is the price of the library.
"""

import asyncio
import sys

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web

_FRAMING = frozenset(("host", "content-length", "transfer-encoding", "connection", "keep-alive"))


async def relay(request: web.BaseRequest, session: ClientSession, pool: str) -> web.StreamResponse:
    """Relay one request."""
    headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _FRAMING]
    async with session.post(pool + request.rel_url.raw_path_qs, data=await request.read(), headers=headers) as answer:
        out = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, value in answer.headers.items():
            if name.lower() not in _FRAMING:
                out.headers.add(name, value)
        if answer.content_length is not None:
            out.content_length = answer.content_length
        else:
            out.enable_chunked_encoding()
        await out.prepare(request)
        async for piece in answer.content.iter_any():
            await out.write(piece)
        await out.write_eof()
        return out


async def main(pool_port: int) -> None:
    """Serve until killed."""
    connector = TCPConnector(limit=0)
    async with ClientSession(connector=connector, auto_decompress=False, cookie_jar=DummyCookieJar()) as session:
        server = web.Server(lambda request: relay(request, session, f"http://127.0.0.1:{pool_port}"), access_log=None)
        sockets = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        sys.stdout.write(f"{sockets.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await sockets.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
