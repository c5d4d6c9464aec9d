"""What is refused before any pool is chosen, in which words, and that no pool hears of it."""

import asyncio
import json
from pathlib import Path

import pytest

from router.core.config import RouterConfig
from router.core.topology import Catalog, Pool
from router.settings import ShellConfig
from tests.router import raw_pool
from tests.router.live import CHAT, Live, Seen, client, live, until
from tests.router.raw_pool import RawPool, ok

SMALL = ShellConfig(body_bytes_max=1_000)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"model": "m"} trailing', "not JSON"),
        (b'{"model": "\xff"}', "not JSON"),
        (b"[]", "JSON object"),
        (b"{}", "`model`"),
        (b'{"model": null}', "`model`"),
        (b'{"model": 1}', "`model`"),
        (b'{"model": ""}', "empty"),
    ],
)
async def test_a_body_without_a_model_is_a_bad_request(body: bytes, word: str, tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        told = await router.post(body)
        assert_refused(told, 400, "bad_request")
        assert word in told.message
        assert pool.connections == 0
        assert router.app.policy.tally.client_requests == {("bad_request", 0): 1}


async def test_an_error_has_the_shape_of_openais_api(tmp_path: Path) -> None:
    async with live(tmp_path) as router:
        told = await router.post(b"{}", headers={"x-request-id": "r-1"})
    assert set(json.loads(told.body)["error"]) == {"message", "type", "code"}
    assert json.loads(told.body)["error"]["type"] == "invalid_request_error"
    assert told.headers["Content-Type"] == "application/json"
    assert told.headers["x-request-id"] == "r-1"


async def test_the_rest_of_the_body_is_the_pools_business(tmp_path: Path) -> None:
    body = b'{"model": "m", "messages": [{"role": 7}], "stream": null, "x": [1e400, "\\ud83d\\ude00"], "model2": {}}'
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        assert (await router.post(body)).status == 200
        assert pool.bodies == [body]


async def test_an_unknown_model_is_404(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pools=(Pool.of_urls("a", [pool.url], ["m"]),)) as router:
        told = await router.ask(model="other")
        assert_refused(told, 404, "model_not_found")
        assert "'other'" in told.message
        assert (await router.ask()).status == 200


async def test_without_a_usable_pool_the_client_hears_when_to_come_back(tmp_path: Path) -> None:
    async with live(tmp_path, rules=RouterConfig(patience_s=0.2)) as router:
        told = await router.ask()
        assert_refused(told, 503, "no_pool")
        assert 1 <= int(told.headers["Retry-After"]) <= 6
        assert "0.2 s" in told.message
        assert router.events[-1]["code"] == "no_pool"


async def test_a_request_that_waits_is_served_as_soon_as_there_is_a_pool(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, rules=RouterConfig(patience_s=30)) as router:
        asking = [asyncio.ensure_future(router.ask()) for _ in range(3)]
        await until(lambda: router.app.policy.waiting == 3)
        router.app.policy.publish(Catalog([Pool.of_urls("a", [pool.url])]))
        async with asyncio.timeout(5):
            assert [(await told).status for told in asking] == [200, 200, 200]


async def test_a_declared_length_above_the_bound_is_refused_at_once(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=SMALL) as router:
        async with client(router, b"", declared=1_001) as reader:
            async with asyncio.timeout(1):
                answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 413 ")
        assert (await router.post(b'{"model": "m"' + b" " * 985 + b"}")).status == 200
        assert len(pool.bodies[0]) == 999


@pytest.mark.parametrize("pieces", [1, 40])
async def test_an_undeclared_length_above_the_bound_is_counted(pieces: int, tmp_path: Path) -> None:
    async def chunks() -> object:
        for _ in range(pieces):
            await asyncio.sleep(0.001)
            yield b" " * (2_000 // pieces)

    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=SMALL) as router:
        told = await router.post(chunks())
        assert_refused(told, 413, "body_too_large")
        assert "1000 bytes" in told.message
        assert pool.connections == 0


async def test_an_upload_slower_than_the_deadline_is_408(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url, rules=RouterConfig(deadline_s=0.3)) as router:
        async with client(router, b'{"model": ', declared=100) as reader:
            answer = await asyncio.wait_for(reader.readuntil(b'"client_too_slow"'), 5)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert pool.connections == 0


async def test_expect_100_continue_is_answered_once_the_size_is_accepted(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url, shell=SMALL) as router:
        async with router.session.post(
            router.url + CHAT, data=b'{"model": "m"}', headers={"x-request-id": "r"}, expect100=True
        ) as response:
            assert response.status == 200
        assert pool.header("expect") == []
        async with router.session.post(router.url + CHAT, data=b" " * 2_000, expect100=True) as response:
            assert response.status == 413
        assert len(pool.bodies) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("Content-Encoding", "gzip"), ("x-pooldrill-deadline-ms", "soon"), ("x-pooldrill-deadline-ms", "-1")],
)
async def test_a_header_that_cannot_be_honoured_is_refused(name: str, value: str, tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        told = await router.post(b'{"model": "m"}', headers={name: value})
        assert_refused(told, 400, "bad_request")
        assert value in told.message
        assert pool.connections == 0


async def test_a_header_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length: 14\r\n"
        answer = await raw(router, head + b'X-Odd: caf\xe9\r\n\r\n{"model": "m"}')
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"X-Odd" in answer
        assert pool.connections == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/metrics"), ("POST", "/v1/images"), ("POST", "/v1/chat/completions/"),
     ("POST", "/v1/%63hat/completions")],
)  # fmt: skip
async def test_any_other_path_is_404(method: str, path: str, tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        answer = await raw(router, f"{method} {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b'"code":"not_found"' in answer
        assert pool.connections == 0


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("HEAD", CHAT, "POST"),
        ("OPTIONS", "/v1/embeddings", "POST"),
        ("POST", "/v1/models", "GET"),
    ],
)
async def test_any_other_method_is_405_and_tells_which_is_taken(
    method: str, path: str, allowed: str, tmp_path: Path
) -> None:
    async with (
        RawPool(ok) as pool,
        live(tmp_path, pool.url) as router,
        router.session.request(method, router.url + path, headers={"x-request-id": "r"}) as response,
    ):
        assert (response.status, response.headers["Allow"]) == (405, allowed)
        assert (response.headers["x-request-id"], response.headers["x-pooldrill-delivery"]) == ("r", "unsent")
        told = await response.read()
        assert pool.connections == 0
    assert method == "HEAD" or json.loads(told)["error"] == {
        "message": f"{method} {path} is not served here: it takes {allowed}.",
        "type": "invalid_request_error",
        "code": "method_not_allowed",
    }


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
async def test_the_other_inference_endpoints_are_forwarded_alike(path: str, tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        told = await router.ask(path=path)
        assert (told.status, told.body) == (200, raw_pool.PLAIN)
        assert pool.heads[0].startswith(f"POST {path} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 14\r\nContent-Length: 15\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 14\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Length: +14\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nX: a\rb\r\nContent-Length: 14\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost : r\r\nContent-Length: 14\r\n\r\n",
    ],
)
async def test_malformed_framing_is_400_and_closes(head: bytes, tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        answer = await raw(router, head + b'{"model": "m"}')
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
        assert pool.connections == 0
    (line,) = router.events
    assert (line["event"], line["code"]) == ("request_refused", "bad_request")
    assert set(line) == {"stamp", "event", "code", "reason"}


async def raw(router: Live, request: bytes) -> bytes:
    """Send bytes and read until the router closes."""
    host, port = router.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(-1), 5)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


def assert_refused(told: Seen, status: int, code: str) -> None:
    assert (told.status, told.code) == (status, code)
    assert told.headers["x-pooldrill-delivery"] == "unsent"
    assert "x-should-retry" not in told.headers
