"""Pools over https, with an authority made for the test: who is believed, what a handshake proves, what a cut is."""

import asyncio
import datetime as dt
import os
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from router.core.config import RouterConfig
from router.core.cooldown import Standing
from router.settings import ShellConfig
from router.tls import PoolTls, context_for
from tests.router import raw_pool
from tests.router.live import Live, client, live, until
from tests.router.raw_pool import PLAIN, STREAM, TOKENS, Behaviour, Call, RawPool, head, listing, ok
from tests.router.test_trials import LISTS, Returning, a_of, bench_a

RULES = RouterConfig(connect_timeout_s=1.0, deadline_s=20.0, patience_s=0.2)
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


class Authority:
    """Signs servers, and is believed by whoever is given its bundle."""

    def __init__(self, place: Path) -> None:
        self._ca = trustme.CA()
        self.bundle = place / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.bundle))
        self.names_seen: list[str | None] = []

    def server(self, *names: str, expired: bool = False) -> ssl.SSLContext:
        """Return the context of a server with a certificate for these names; the default is 127.0.0.1."""
        before, after = (LONG_AGO, LONG_AGO + dt.timedelta(days=1)) if expired else (None, None)
        certificate = self._ca.issue_cert(*(names or ("127.0.0.1",)), not_before=before, not_after=after)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        context.sni_callback = lambda _, name, __: self.names_seen.append(name)
        return context

    def believed(self, name: str = "") -> PoolTls:
        return PoolTls(context_for(self.bundle, verify=True), name)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


def check_a_was_not_believed(router: Live) -> None:
    """Check that pool a failed before it had the request, and that b answered."""
    failed, answered = router.rows()
    assert (failed.pool, failed.outcome, failed.blame) == ("a", ("unsent", "tls", None), "frontend")
    assert (failed.slot_taken, failed.t_connected) == (False, None)
    assert (answered.pool, answered.outcome) == ("b", ("answered", "", 200))


async def test_answers_pass_through_and_connections_are_reused(authority: Authority, tmp_path: Path) -> None:
    async with RawPool(ok, keep=True, tls=authority.server()) as pool:
        async with live(tmp_path, pool.url, tls={"a": authority.believed()}) as router:
            for stream in (False, True, False):
                told = await router.ask(stream=stream)
                assert (told.status, told.body, told.broken) == (200, STREAM if stream else PLAIN, False)
        assert (len(pool.bodies), pool.connections) == (3, 1)
        assert [row.reused for row in router.rows()] == [False, True, True]
        assert pool.header("host") == [pool.url.removeprefix("https://")]


async def test_a_large_body_is_handed_over_whole(authority: Authority, tmp_path: Path) -> None:
    body = b'{"model": "m", "messages": "' + b"x" * 4 * 2**20 + b'"}'
    async with RawPool(ok, tls=authority.server()) as pool:
        async with live(tmp_path, pool.url, tls={"a": authority.believed()}) as router:
            assert (await router.post(body)).status == 200
        assert pool.bodies == [body]


async def test_a_pool_whose_connections_end_after_each_answer_costs_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    async with RawPool(ok, tls=authority.server()) as pool:  # closes without saying so before
        async with live(tmp_path, pool.url, tls={"a": authority.believed()}) as router:
            for _ in range(10):
                assert (await router.ask()).status == 200
                await asyncio.sleep(0.01)
        assert {row.outcome for row in router.rows()} == {("answered", "", 200)}


@pytest.mark.parametrize("names", [(), ("other.test",)], ids=["address", "name"])
async def test_a_certificate_of_nobody_known_is_refused_by_default(
    names: tuple[str, ...], stranger: Authority, tmp_path: Path
) -> None:
    async with RawPool(ok, tls=stranger.server(*names)) as a, RawPool(ok) as b:
        async with live(tmp_path, a.url, b.url, rules=RULES) as router:
            assert (await router.ask()).status == 200
        check_a_was_not_believed(router)
        assert a.bodies == []


async def test_another_authority_than_the_pools_own_is_refused(
    authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    async with RawPool(ok, tls=stranger.server()) as a, RawPool(ok) as b:
        tls = {"a": authority.believed()}
        async with live(tmp_path, a.url, b.url, rules=RULES, tls=tls) as router:
            assert (await router.ask()).status == 200
        check_a_was_not_believed(router)


@pytest.mark.parametrize(("names", "expired"), [(("other.test",), False), ((), True)], ids=["other name", "expired"])
async def test_a_certificate_that_is_not_good_for_this_pool_is_refused(
    names: tuple[str, ...], expired: bool, authority: Authority, tmp_path: Path
) -> None:
    async with RawPool(ok, tls=authority.server(*names, expired=expired)) as a, RawPool(ok) as b:
        tls = {"a": authority.believed()}
        async with live(tmp_path, a.url, b.url, rules=RULES, tls=tls) as router:
            assert (await router.ask()).status == 200
        check_a_was_not_believed(router)
        (line,) = [line for line in router.events if line["event"] == "send_failed"]
        assert ("expired" if expired else "mismatch") in line["error"]


async def test_without_another_pool_the_client_is_told_so(stranger: Authority, tmp_path: Path) -> None:
    async with RawPool(ok, tls=stranger.server()) as a, live(tmp_path, a.url) as router:
        told = await router.ask()
        assert (told.status, told.code) == (503, "pool_unreachable")
        assert told.headers["x-pooldrill-delivery"] == "unsent"
        assert "failed the TLS handshake" in told.message


async def test_the_server_name_is_sent_and_verified_in_place_of_the_urls_host(
    authority: Authority, tmp_path: Path
) -> None:
    authority.names_seen.clear()
    tls = {"a": authority.believed("inner.pool.test")}
    async with (
        RawPool(ok, tls=authority.server("inner.pool.test")) as pool,
        live(tmp_path, pool.url, tls=tls) as router,
    ):
        assert (await router.ask()).status == 200
    assert authority.names_seen == ["inner.pool.test"]


async def test_a_pool_that_is_not_verified_is_one_only_by_its_own_option_and_the_log_says_so(
    stranger: Authority, tmp_path: Path
) -> None:
    anybody = PoolTls(context_for(None, verify=False))
    async with RawPool(ok, tls=stranger.server()) as a, RawPool(ok, tls=stranger.server()) as b:
        async with live(tmp_path, a.url, b.url, tls={"b": anybody}, rules=RULES) as router:
            assert [(await router.ask()).headers["x-pooldrill-pool"] for _ in range(2)] == ["b", "b"]
        assert (len(a.bodies), len(b.bodies)) == (0, 2)
        (line,) = [line for line in router.events if line["event"] == "certificates_not_verified"]
        assert (line["level"], line["pools"]) == ("WARNING", ["b"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["address", "name"])
async def test_a_handshake_that_hangs_is_unsent_within_the_connect_bound(host: str, tmp_path: Path) -> None:
    async with RawPool(ok) as silent, RawPool(ok) as b:  # it waits for the end of a head, and gets a ClientHello
        a = silent.url.replace("http:", "https:").replace("127.0.0.1", host)
        async with live(tmp_path, a, b.url, rules=RULES) as router:
            told = await router.ask()
        assert (told.status, told.headers["x-pooldrill-pool"]) == (200, "b")
        failed, _ = router.rows()
        assert (failed.outcome, failed.t_connected) == (("unsent", "connect_timeout", None), None)
        assert 0.9 < failed.t_end - failed.t_start < 5
        assert silent.connections >= 1


async def without_goodbye(call: Call) -> None:
    """End the connection as a wire that is cut would: no close_notify."""
    with socket.socket(fileno=os.dup(call.writer.get_extra_info("socket").fileno())) as peer:
        peer.shutdown(socket.SHUT_WR)
    await call.until_client_leaves()


async def with_goodbye(_: Call) -> None:
    """Leave it to the server's own close, which says goodbye."""


async def by_reset(call: Call) -> None:
    call.reset()


HEADS = {
    "close": ("Content-Type: text/plain",),
    "chunked": ("Content-Type: text/event-stream", "Transfer-Encoding: chunked"),
    "length": ("Content-Type: text/plain", f"Content-Length: {2 * len(TOKENS[0])}"),
}


def half(framing: str, end: Behaviour) -> Behaviour:
    async def behave(call: Call) -> None:
        await call.say(head(200, *HEADS[framing]))
        await (call.chunk if framing == "chunked" else call.say)(TOKENS[0])
        await asyncio.sleep(0.02)  # a reset would overtake it
        await end(call)

    return behave


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("end", [with_goodbye, without_goodbye, by_reset])
async def test_an_answer_whose_connection_was_cut_is_never_whole(
    framing: str, end: Behaviour, authority: Authority, tmp_path: Path
) -> None:
    async with RawPool(half(framing, end), tls=authority.server()) as pool:
        async with live(tmp_path, pool.url, tls={"a": authority.believed()}) as router:
            told = await router.ask()
        whole = framing == "close" and end is with_goodbye
        assert (told.status, told.body, told.broken) == (200, TOKENS[0], not whole)
        (row,) = router.rows()
        causes = {"reset", "lost"} if end is by_reset else {"" if whole else "lost"}
        assert row.outcome[1] in causes


@pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])  # whose TLS pauses its writer in different places
async def test_an_upload_that_the_pool_does_not_read_ends_in_its_time(authority: Authority, tmp_path: Path) -> None:
    class Deaf(RawPool):
        async def _requests(self, call: Call) -> None:
            call.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads can
            await until(lambda: call.writer.transport.is_closing() or ended, 60)

    ended: list[bool] = []
    rules = RouterConfig(connect_timeout_s=1.0, upload_timeout_s=0.5, deadline_s=20.0)
    async with Deaf(ok, tls=authority.server()) as pool:
        async with live(tmp_path, pool.url, rules=rules, tls={"a": authority.believed()}) as router:
            told = await router.post(b'{"model": "m", "messages": "' + b"x" * 24 * 2**20 + b'"}')
            ended.append(True)
        assert (told.status, told.code) == (504, "pool_timeout")
        assert router.rows()[0].outcome == ("unknown", "upload", None)


async def test_a_client_that_does_not_read_stops_the_pool(authority: Authority, tmp_path: Path) -> None:
    said = 0

    async def floods(call: Call) -> None:
        nonlocal said
        await call.say(head(200, f"Content-Length: {64 * 2**20}"))
        for _ in range(64):
            await call.say(b"x" * 2**20)
            said += 1

    tls = {"a": authority.believed()}
    async with RawPool(floods, tls=authority.server()) as pool, live(tmp_path, pool.url, tls=tls) as router:
        async with client(router) as reader:
            await reader.read(1)
            await asyncio.sleep(0.5)
            assert said < 32
        await router.settled()


async def test_a_client_that_leaves_ends_the_pools_connection(authority: Authority, tmp_path: Path) -> None:
    tls = {"a": authority.believed()}
    async with RawPool(raw_pool.endless, tls=authority.server()) as pool, live(tmp_path, pool.url, tls=tls) as router:
        async with client(router) as reader:
            await reader.readuntil(TOKENS[0])
        await until(lambda: pool.departures)


class ReturningOverTls(Returning):
    """A pool over https whose address refuses connections until `begin`."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__()
        self.tls = tls

    @property
    def url(self) -> str:
        return super().url.replace("http:", "https:")

    async def begin(self) -> None:
        self._listens = True
        self._server = await asyncio.start_server(self._connection, sock=self._socket, ssl=self.tls)


async def test_a_benched_pool_comes_back_by_a_trial_with_a_handshake_and_a_list_of_models(
    authority: Authority, tmp_path: Path
) -> None:
    knobs = RouterConfig(connect_timeout_s=1.0, deadline_s=10.0, cooldown_s=0.1, slow_start_s=0.0, connect_slow_s=0.5)
    async with ReturningOverTls(authority.server()) as a, RawPool(listing) as b:
        async with live(tmp_path, a.url, b.url, rules=knobs, tls={"a": authority.believed()}) as router:
            await bench_a(router)
            await a.begin()
            await until(lambda: a_of(router).cooldown.standing is Standing.IN_USE)
            told = await router.get("/v1/models")
            assert told.body.count(b'"m"') == 1
        assert a.probes[0] == "probe-trial-1"
        assert a.models == LISTS["ready"]


async def test_without_reuse_each_request_has_its_handshake(authority: Authority, tmp_path: Path) -> None:
    async with RawPool(ok, keep=True, tls=authority.server()) as pool:
        shell = ShellConfig(reuse_idle_s=0)
        async with live(tmp_path, pool.url, tls={"a": authority.believed()}, shell=shell) as router:
            for _ in range(3):
                assert (await router.ask()).status == 200
        assert pool.connections == 3
