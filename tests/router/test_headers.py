"""What passes through the router and what does not, in both directions."""

from pathlib import Path

import pytest
from multidict import CIMultiDict

from router import headers
from router.core.topology import Catalog, Pool
from tests.router.live import CHAT, live
from tests.router.raw_pool import Call, RawPool, head, ok

BODY = b'{"model": "m", "model2": 1}'


async def test_end_to_end_headers_pass_and_hop_by_hop_headers_do_not(tmp_path: Path) -> None:
    sent = {
        "x-request-id": "r-9",
        "Authorization": "Bearer of-the-client",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "X-Stainless-Retry-Count": "1",
        "User-Agent": "a client",
        "Accept": "text/event-stream",
        "Content-Type": "application/json; charset=utf-8",
        "Connection": "close, X-For-The-Router-Only",
        "X-For-The-Router-Only": "1",
        "Keep-Alive": "timeout=5",
        "TE": "trailers",
        "Proxy-Authorization": "Basic c2VjcmV0",
        "x-pooldrill-deadline-ms": "5000",
        "x-pooldrill-operation-id": "op-1",
    }
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        told = await router.post(BODY, headers=sent)
        assert told.status == 200
        for name in ("x-request-id", "authorization", "traceparent", "x-stainless-retry-count", "user-agent", "accept",
                     "content-type", "x-pooldrill-operation-id"):  # fmt: skip
            (value,) = [value for key, value in sent.items() if key.lower() == name]
            assert pool.header(name) == [value]
        for name in ("connection", "x-for-the-router-only", "keep-alive", "te", "proxy-authorization",
                     "x-pooldrill-deadline-ms", "transfer-encoding", "accept-encoding"):  # fmt: skip
            assert pool.header(name) == [] or name == "accept-encoding"
        assert pool.header("content-length") == [str(len(BODY))]
        assert pool.header("host") == [pool.url.removeprefix("http://")]
        assert told.headers["x-request-id"] == "r-9"


async def test_nothing_is_added_to_a_bare_request(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        bare = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
        async with router.session.post(router.url + CHAT, data=BODY, skip_auto_headers=bare) as response:
            assert response.status == 200
            assert "x-request-id" not in response.headers
        names = {line.partition(b":")[0].lower() for line in pool.heads[0].split(b"\r\n")[1:] if line}
        assert names == {b"host", b"content-length", b"via"}


async def test_an_upload_in_chunks_gets_one_framing_header(tmp_path: Path) -> None:
    async def pieces() -> object:
        for at in range(0, len(BODY), 5):
            yield BODY[at : at + 5]

    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        assert (await router.post(pieces())).status == 200
        assert pool.bodies == [BODY]
        assert (pool.header("content-length"), pool.header("transfer-encoding")) == ([str(len(BODY))], [])


async def test_a_query_passes(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        assert (await router.post(BODY, path=CHAT + "?api-version=1&x=%2F")).status == 200
        assert pool.heads[0].startswith(b"POST /v1/chat/completions?api-version=1&x=%2F HTTP/1.1\r\n")


async def test_a_pools_headers_pass(tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        lines = ("Content-Length: 2", "Set-Cookie: a=1", "Set-Cookie: b=2", "x-request-id: of-the-pool",
                 "Server: theirs", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5",
                 "x-should-retry: true", "x-pooldrill-pool: a lie")  # fmt: skip
        await call.say(head(200, *lines) + b"ok")

    async with RawPool(behave) as pool, live(tmp_path, pool.url) as router:
        async with router.session.post(router.url + CHAT, data=BODY, headers={"x-request-id": "r"}) as response:
            got = response.headers
            assert await response.read() == b"ok"
        assert got.getall("Set-Cookie") == ["a=1", "b=2"]
        assert got["x-request-id"] == "of-the-pool"
        assert (got["Server"], got["x-should-retry"], got["Content-Length"]) == ("theirs", "true", "2")
        assert got.getall("x-pooldrill-pool") == ["a"]
        assert not {"x-hop", "keep-alive", "connection"} & {name.lower() for name in got}


@pytest.mark.parametrize("framing", ["Content-Length: 2", "Transfer-Encoding: chunked"])
async def test_what_a_pool_does_not_say_is_not_said_for_it(framing: str, tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        await call.say(head(200, framing) + (b"ok" if "Length" in framing else b"2\r\nok\r\n0\r\n\r\n"))

    async with RawPool(behave) as pool, live(tmp_path, pool.url) as router:
        told = await router.post(BODY)
        assert (told.status, told.body) == (200, b"ok")
        assert not {"Server", "Content-Type"} & set(told.headers)


async def test_a_redirect_is_passed_on_and_not_followed(tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        await call.say(head(307, "Content-Length: 0", f"Location: {elsewhere.url}/v1/chat/completions"))

    async with RawPool(ok) as elsewhere, RawPool(behave) as pool, live(tmp_path, pool.url) as router:
        async with router.session.post(router.url + CHAT, data=BODY, allow_redirects=False) as response:
            assert response.status == 307
        assert elsewhere.connections == 0


async def test_a_router_that_is_its_own_pool_says_so(tmp_path: Path) -> None:
    async with live(tmp_path) as router:
        router.app.policy.publish(Catalog([Pool.of_urls("self", [router.url])]))
        told = await router.ask()
        assert (told.status, told.code) == (508, "loop_detected")
        await router.settled()
        told = await router.get("/v1/models")
        assert (told.status, told.code) == (503, "pool_unreachable")
        assert router.app.public.connections <= 3, "the client's, that of the chat, and one for the question"


async def test_a_pools_header_passes_in_whatever_bytes_it_came(tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        await call.say(b"HTTP/1.1 200 OK\r\nX-Odd: caf\xe9\r\nX-Good: caf\xc3\xa9\r\nContent-Length: 2\r\n\r\nok")

    async with RawPool(behave) as pool, live(tmp_path, pool.url) as router:
        told = await router.post(BODY)
        assert (told.status, told.body) == (200, b"ok")
        assert told.headers["X-Odd"].encode("utf-8", "surrogateescape") == b"caf\xe9"
        assert told.headers["X-Good"] == "café"


@pytest.mark.parametrize("named", ["Close, X-A ,x-b", "x-a,X-B"])
def test_headers_that_connection_names_are_dropped(named: str) -> None:
    given = CIMultiDict({"Connection": named, "X-A": "1", "x-B": "2", "X-C": "3"})
    assert list(headers.end_to_end(given, headers.HOP_BY_HOP).items()) == [("X-C", "3")]


def test_two_connection_headers_are_both_read() -> None:
    given = CIMultiDict([("Connection", "x-a"), ("connection", "x-b"), ("X-A", "1"), ("X-B", "2"), ("X-C", "3")])
    assert list(headers.end_to_end(given, headers.HOP_BY_HOP).items()) == [("X-C", "3")]


def test_what_is_the_routers_own_does_not_pass_except_the_operations_id() -> None:
    given = CIMultiDict([("X-Pooldrill-Pool", "a"), ("x-pooldrill-pool", "b"), ("X-Pooldrill-Operation-Id", "o")])
    passed = headers.for_pool(given, body_bytes=5, via="1.1 r")
    assert list(passed.items()) == [("X-Pooldrill-Operation-Id", "o"), ("Content-Length", "5"), ("Via", "1.1 r")]


def test_an_underscore_hides_no_header_that_must_not_pass() -> None:
    given = CIMultiDict([("Transfer_Encoding", "chunked"), ("transfer_encoding", "x"), ("X_Fine", "1"), ("Te", "t")])
    assert list(headers.end_to_end(given, headers.HOP_BY_HOP).items()) == [("X_Fine", "1")]
