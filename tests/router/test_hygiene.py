"""What passes through a proxy and what does not; that nothing of bodies and credentials is written anywhere."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDict

from router.core.config import RouterConfig
from router.core.topology import Pool
from router.headers import HOP_BY_HOP, end_to_end, plain
from router.settings import ShellConfig
from tests.router import raw_pool
from tests.router.framing_corpus import BODY, CHUNKED, LENGTH, head
from tests.router.live import CHAT, live, until
from tests.router.raw_pool import Call, RawPool, Refusing, cut, garbage, ok, silent
from tests.router.wire import wire

CANARIES = ("s3cr3t", "c0nfidential", "t0ken-of-the-pool")
"""Of the client's credentials, of its body, of the pool's answer."""
SECRET = b"Authorization: Bearer s3cr3t\r\nCookie: s3cr3t\r\nx-api-key: s3cr3t\r\nProxy-Authorization: s3cr3t\r\n"
PROMPT = b'{"model": "m", "stream": true, "messages": "c0nfidential"}'
TRACE = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "vendor=1,other=2",
    "baggage": "k=v",
    "b3": "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1",
    "X-B3-TraceId": "80f198ee56343ba864fe8b2a57d3eff7",
    "X-B3-SpanId": "e457b5a2e4d86bd1",
    "X-B3-Sampled": "1",
    "uber-trace-id": "1:2:0:1",
    "X-Amzn-Trace-Id": "Root=1-67891233-abcdef012345678912345678",
    "X-Cloud-Trace-Context": "105445aa7843bc8bf206b12000100000/1;o=1",
    "x-request-id": "of-the-client",
}


async def test_the_context_of_a_trace_passes_to_both_pools_and_back(tmp_path: Path) -> None:
    async with Refusing() as refusing, RawPool(ok) as pool, live(tmp_path, refusing.url, pool.url) as router:
        told = await router.post(PROMPT, headers=TRACE)
        assert told.status == 200
        assert {name: pool.header(name.lower()) for name in TRACE} == {name: [value] for name, value in TRACE.items()}
        assert told.headers["x-request-id"] == "of-the-client"


@pytest.mark.parametrize(
    "named",
    [
        "x-hop",
        "X-Hop, keep-alive",
        "close, X-HOP",
        "x-hop,,",
        " x-hop ,upgrade",
        "content-length, x-hop",
        "host, x-hop",
    ],
)
async def test_what_connection_names_goes_no_further(named: str, tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        lines = ("Content-Length: 2", f"Connection: {named}", "X-Hop: 1", "Keep-Alive: timeout=5", "X-End: 1",
                 "Proxy-Authenticate: Basic", "Upgrade: h2c", "TE: trailers")  # fmt: skip
        await call.say(raw_pool.head(200, *lines) + b"{}")

    async with RawPool(behave) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        hops = b"X-Hop: 1\r\nKeep-Alive: 1\r\nProxy-Connection: close\r\nTE: trailers\r\nTrailer: x\r\nX-End: 1\r\n"
        await client.send([head(LENGTH, f"Connection: {named}\r\n".encode(), hops) + BODY])
        answer = await client.answer()
        assert answer is not None
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"{}", "2")
        for name in ("x-hop", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "proxy-authenticate"):
            assert pool.header(name) == []
            assert name not in answer.headers
        assert (pool.header("x-end"), answer.headers["x-end"]) == (["1"], "1")
        assert (pool.header("content-length"), pool.header("transfer-encoding")) == ([str(len(BODY))], [])
        assert pool.header("host") == [pool.url.removeprefix("http://")]


@pytest.mark.parametrize("framing", [LENGTH, CHUNKED], ids=["length", "chunked"])
async def test_one_header_frames_what_a_pool_gets(framing: bytes, tmp_path: Path) -> None:
    data = BODY if framing is LENGTH else b"e\r\n" + BODY + b"\r\n0\r\nX-Trailer: 1\r\n\r\n"
    odd = b"Transfer_Encoding: chunked\r\nContent_Length: 3\r\n"
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([head(framing, odd) + data])
        answer = await client.answer()
        assert answer is not None
        assert answer.status == 200
        lines = pool.heads[0].lower().split(b"\r\n")
        assert [line for line in lines if b"length" in line or b"encoding" in line] == [b"content-length: 14"]
        assert b"x-trailer: 1" not in lines


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_the_clients_business(status: int, tmp_path: Path) -> None:
    async def behave(call: Call) -> None:
        await call.say(raw_pool.head(status, "Content-Length: 0", f"Location: {elsewhere.url}{CHAT}"))

    async with RawPool(ok) as elsewhere, RawPool(behave) as pool, live(tmp_path, pool.url) as router:
        async with router.session.post(router.url + CHAT, data=PROMPT, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (status, elsewhere.url + CHAT)
        assert (elsewhere.connections, len(pool.bodies)) == (0, 1)


async def test_a_loop_is_seen_in_any_via(tmp_path: Path) -> None:
    """Whoever stands in the loop may add its own Via in a line of its own, before or after ours."""
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router:
        await router.ask()
        (own,) = pool.header("via")
        for via in ([own], ["1.1 other", own], [own, "1.1 other"], [f"1.1 other, {own}"]):
            passed = CIMultiDict(("Via", value) for value in via)
            told = await router.post(PROMPT, headers=passed)
            assert (told.status, told.code) == (508, "loop_detected")
            async with router.session.get(router.url + "/v1/models", headers=passed) as asked:
                assert asked.status == 508
        assert len(pool.bodies) == 1
        assert [event["code"] for event in router.events] == ["loop_detected"] * 4
        told = await router.post(PROMPT, headers={"Via": "1.1 other"})
        assert told.status == 200
        assert pool.header("via") == ["1.1 other", own]


POOLS = {
    "refused": None,
    "closed": raw_pool.close,
    "reset": raw_pool.reset,
    "silent": silent,
    "garbage": garbage,
    "cut": cut(stream=True, by_reset=False),
    "cut by a reset": cut(stream=True, by_reset=True),
}


async def secretive(call: Call) -> None:
    await call.say(
        b"HTTP/1.1 200 t0ken-of-the-pool\r\nX: t0ken-of-the-pool\r\nContent-Length: 90\r\n\r\nt0ken-of-the-pool"
    )


async def says_garbage(call: Call) -> None:
    await call.say(b"t0ken-of-the-pool and no HTTP\r\n\r\n")


@pytest.mark.parametrize("fault", [*POOLS, "secretive", "says garbage"])
async def test_no_failed_send_writes_anything_down_that_is_not_ours(fault: str, tmp_path: Path) -> None:
    behave = {**POOLS, "secretive": secretive, "says garbage": says_garbage}[fault]
    rules = RouterConfig(connect_timeout_s=1.0, deadline_s=0.5, idle_timeout_s=0.5, patience_s=0.2)
    async with (
        Refusing() if behave is None else RawPool(behave) as pool,
        live(tmp_path, pool.url, rules=rules) as router,
    ):
        assert router.app.admin is not None
        async with wire(router) as client:
            await client.send([head(b"Content-Length: %d\r\n" % len(PROMPT), SECRET) + PROMPT])
            await client.closed_after_all() if "cut" in fault or fault == "secretive" else await client.answer()
        await router.settled()
        async with router.session.get(router.app.admin.url + "/metrics") as response:
            metrics = await response.text()
        assert router.events
        assert_silent(json.dumps(router.events), metrics, (tmp_path / "sends.jsonl").read_text())


REFUSED = {
    "no JSON": (b"", b"c0nfidential"),
    "no model": (b"", b'{"c0nfidential": "c0nfidential"}'),
    "a model that is no text": (b"", b'{"model": {"c0nfidential": 1}}'),
    "an unknown model": (b"", b'{"model": "c0nfidential"}'),
    "an encoded body": (b"Content-Encoding: s3cr3t\r\n", BODY),
    "a deadline that is none": (b"x-pooldrill-deadline-ms: soon\r\n", BODY),
    "a header that is not UTF-8": (b"X-Odd: s3cr3t\xff\r\n", BODY),
    "an id that is not UTF-8": (b"x-request-id: s3cr3t\xff\r\n", BODY),
    "an id with spaces": (b"x-request-id: s3cr3t and more\r\nContent-Encoding: gzip\r\n", BODY),
    "an operation with spaces": (b"x-pooldrill-operation-id: s3cr3t and more\r\nContent-Encoding: gzip\r\n", BODY),
    "too large": (b"", b"c0nfidential" * 1_000),
    "a header that is no header": (b"s3cr3t s3cr3t: s3cr3t\r\n", BODY),
    "a bare CR": (b"X: s3cr3t\rs3cr3t\r\n", BODY),
    "a Host that is none": (b"Host: s3cr3t s3cr3t\r\n", BODY),
    "a long header": (b"X: " + b"s3cr3t" * 10_000 + b"\r\n", BODY),
    "a coding": (b"Transfer-Encoding: s3cr3t\r\n", BODY),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_no_refusal_writes_anything_down_that_is_not_ours(kind: str, tmp_path: Path) -> None:
    lines, body = REFUSED[kind]
    async with RawPool(ok) as pool:
        only_m = (Pool.of_urls("a", [pool.url], ["m"]),)
        async with (
            live(tmp_path, pools=only_m, shell=ShellConfig(body_bytes_max=1_000)) as router,
            wire(router) as client,
        ):
            await client.send([head(b"Content-Length: %d\r\n" % len(body), SECRET, lines) + body])
            answer = await client.answer()
            assert answer is not None
            assert 400 <= answer.status < 500
            await router.settled()
            assert [event["event"] for event in router.events if event["event"] != "headers_ignored"] == [
                "request_refused"
            ]
            assert sum(router.app.policy.tally.client_requests.values()) == 1
            assert_silent(json.dumps(router.events), str(router.app.policy.tally.client_requests))
            assert "s3cr3t" not in str(answer) or kind == "an encoded body"
        assert pool.connections == 0


@pytest.mark.parametrize("target", ["/s3cr3t", "/v1/chat/completions?key=s3cr3t", "/v1/models/s3cr3t?a"])
async def test_no_target_is_written_down(target: str, tmp_path: Path) -> None:
    async with Refusing() as pool, live(tmp_path, pool.url) as router:
        async with router.session.post(router.url + target, data=PROMPT) as response:
            assert response.status in {404, 503}
        assert_silent(json.dumps(router.events), (tmp_path / "sends.jsonl").read_text())


def assert_silent(*written: str) -> None:
    for text in written:
        assert not [canary for canary in CANARIES if canary in text]


async def test_a_handler_that_fails_is_told_in_the_log_and_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of our own must neither look like one of the pool's nor invite a repetition."""

    def fails(_: object) -> str:
        raise LookupError("a defect")

    monkeypatch.setattr("router.chat.intake.model_of", fails)
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([head(LENGTH, SECRET) + BODY])
        answer = await client.answer()
        assert answer is not None
        assert answer.named == "500 internal_error"
        assert (answer.headers["x-pooldrill-delivery"], answer.headers["x-should-retry"]) == ("unknown", "false")
        assert answer.headers["server"] == "pooldrill"
        assert b"defect" not in answer.body
        assert await client.closed()
        (event,) = router.events
        assert event["event"] == "library"
        assert "LookupError: a defect" in event["trace"]
        assert router.app.policy.tally.client_requests == {("internal_error", 0): 1}
        assert_silent(json.dumps(event))
        router.forget_events()


async def test_a_client_may_pass_128_headers_and_32_kib_in_one(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        many = b"".join(b"X-%d: 1\r\n" % number for number in range(126))
        for lines in (many, b"X: " + b"a" * (32 * 1024 - 1) + b"\r\n"):
            await client.send([head(LENGTH, lines) + BODY])
            answer = await client.answer()
            assert answer is not None
            assert answer.status == 200
        assert pool.header("x") == ["a" * (32 * 1024 - 1)]


WRITTEN = sorted(way for name in HOP_BY_HOP for way in {name, name.title(), name.replace("-", "_")})


@pytest.mark.parametrize("name", WRITTEN)
def test_no_hop_by_hop_header_passes_however_it_is_written(name: str) -> None:
    assert dict(end_to_end(CIMultiDict({name: "1", "X-End": "1"}), HOP_BY_HOP)) == {"X-End": "1"}


@pytest.mark.parametrize("value", ["a", "0f8fad5b-d9cb-469f-a165-70867728950e", "x" * 256, "a/b=c;d"])
def test_a_plain_id_is_taken_as_it_is(value: str) -> None:
    assert plain({"x-request-id": value}, "x-request-id") == value


@pytest.mark.parametrize("value", ["", "a b", "x" * 257, "caf\u00e9", "\udce9", "a\tb", "a\n"])
def test_an_odd_id_is_none(value: str) -> None:
    assert plain({"x-request-id": value}, "x-request-id") is None


async def test_the_log_of_a_client_that_leaves_has_nothing_of_it(tmp_path: Path) -> None:
    async with RawPool(silent) as pool, live(tmp_path, pool.url) as router:
        for data in (PROMPT, PROMPT[:20]):
            async with wire(router) as client:
                await client.send([head(b"Content-Length: %d\r\n" % len(PROMPT), SECRET) + data])
                await until(lambda: router.app.public.front.busy)
                await asyncio.sleep(0.05)
        await router.settled()
        assert_silent(json.dumps(router.events), (tmp_path / "sends.jsonl").read_text())


async def test_answers_of_the_router_name_no_library(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session, live(tmp_path) as router:
        for path in ("/healthz", "/readyz", "/nowhere", CHAT):
            async with session.get(router.url + path) as response:
                assert response.headers["Server"] == "pooldrill"
                assert response.headers["Content-Type"] == "application/json"


LENGTHS_AND_CHUNKS = {
    "chunks, then length": ("Transfer-Encoding: chunked", "Content-Length: 99"),
    "length, then chunks": ("Content-Length: 99", "Transfer-Encoding: chunked"),
    "length of the chunks": ("Content-Length: 12", "Transfer-Encoding: chunked"),
    "two lengths": ("Content-Length: 2", "Content-Length: 3"),
}


@pytest.mark.parametrize("kind", LENGTHS_AND_CHUNKS)
async def test_an_answer_whose_framing_contradicts_itself_has_one_framing_or_is_no_answer(
    kind: str, tmp_path: Path
) -> None:
    """Whatever a client could read in two ways must not reach it, and the next request must not suffer from it."""

    async def behave(call: Call) -> None:
        if len(pool.bodies) > 1:
            await ok(call)
            return
        chunked = any("chunked" in line for line in LENGTHS_AND_CHUNKS[kind])
        await call.say(raw_pool.head(200, *LENGTHS_AND_CHUNKS[kind]) + (b"2\r\n{}\r\n0\r\n\r\n" if chunked else b"{}"))

    async with RawPool(behave, keep=True) as pool, live(tmp_path, pool.url) as router, wire(router) as client:
        await client.send([head(LENGTH) + BODY])
        answer = await client.answer()
        assert answer is not None
        if answer.status == 200:
            assert answer.body == b"{}"
            assert ("content-length" in answer.headers) != ("transfer-encoding" in answer.headers)
        else:
            assert answer.named == "503 maybe_running"
        await client.send([head(LENGTH) + BODY])
        answer = await client.answer()
        assert answer is not None
        assert (answer.status, answer.body) == (200, raw_pool.PLAIN)
