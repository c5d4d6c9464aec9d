"""The command line and the process: bad input, readiness, the end."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from router.cli import main, read_settings, serve
from router.core.config import RouterConfig
from router.settings import ShellConfig
from scenarios.record import Send
from tests.router import raw_pool
from tests.router.live import CHAT, seen, until
from tests.router.raw_pool import RawPool, head, ok

ROOT = Path(__file__).resolve().parents[2]
GIVEN = ["--port", "0", "--pool", "a=http://127.0.0.1:9001"]
START_S = 15.0
"""Longest wait for a start on a busy machine."""


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        ([], "--port"),
        (["--port", "0"], "--pool"),
        (["--port", "x", "--pool", "a=http://h"], "--port"),
        (["--port", "65536", "--pool", "a=http://h"], "--port"),
        ([*GIVEN, "--deadline-s", "soon"], "--deadline-s"),
        ([*GIVEN, "--deadline-s", "0"], "--deadline-s"),
        ([*GIVEN, "--connect-timeout-s", "-1"], "--connect-timeout-s"),
        ([*GIVEN, "--idle-timeout-s", "nan"], "--idle-timeout-s"),
        ([*GIVEN, "--body-bytes-max", "0"], "--body-bytes-max"),
        ([*GIVEN, "--body-bytes-max", "1.5"], "--body-bytes-max"),
        ([*GIVEN, "--buffered-bytes-max", "1000"], "--buffered-bytes-max"),
        ([*GIVEN, "--body-bytes-max", "2000000000"], "--buffered-bytes-max"),
        ([*GIVEN, "--body-timeout-s", "0"], "--body-timeout-s"),
        ([*GIVEN, "--body-idle-timeout-s", "inf"], "--body-idle-timeout-s"),
        ([*GIVEN, "--head-timeout-s", "-1"], "--head-timeout-s"),
        ([*GIVEN, "--keep-alive-timeout-s", "0"], "--keep-alive-timeout-s"),
        ([*GIVEN, "--connections-max", "0"], "--connections-max"),
        ([*GIVEN, "--drain-delay-s", "-1"], "--drain-delay-s"),
        ([*GIVEN, "--drain-delay-s", "nan"], "--drain-delay-s"),
        ([*GIVEN, "--reuse-idle-s", "-1"], "--reuse-idle-s"),
        ([*GIVEN, "--drain-timeout-s", "inf"], "--drain-timeout-s"),
        ([*GIVEN, "--metrics-prefix", "a-b"], "--metrics-prefix"),
        ([*GIVEN, "--send-log", "/no/such/directory/file"], "--send-log"),
        ([*GIVEN, "--host", ""], "--host"),
        ([*GIVEN, "--dead", "1"], "--dead"),
        ([*GIVEN, "--pool", "b"], "--pool"),
        ([*GIVEN, "--pool", "b=127.0.0.1:9002"], "--pool"),
        ([*GIVEN, "--pool", "b=ftp://127.0.0.1"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:x"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:0"], "--pool"),
        ([*GIVEN, "--pool", "b=http://me:secret@127.0.0.1:9002"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:9002/v1"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:9002?x=1"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:9002;models=m"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:9002;model="], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:9002,"], "--pool"),
        ([*GIVEN, "--pool", "a=http://127.0.0.1:9002"], "--pool"),
        ([*GIVEN, "--pool", "b=http://127.0.0.1:9001/"], "--pool"),
        ([*GIVEN, "--pool", "b=http://pool.test,HTTP://POOL.test:80/"], "--pool"),
        ([*GIVEN, "--pool", "b=https://pool.test", "--pool", "c=https://pool.test:443"], "--pool"),
        ([*GIVEN, "--pool", "=http://127.0.0.1:9002"], "--pool"),
    ],
)
def test_bad_input_is_one_line_with_key_and_remedy(
    argv: list[str], key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(argv) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    assert said.startswith("pooldrill serve: ")
    assert key in said
    assert "remedy: " in said
    assert "secret" not in said
    assert "python -m router" not in said
    assert main(argv, "python -m router") == 2
    assert capsys.readouterr().err == said.replace("pooldrill serve", "python -m router")


def test_a_pool_may_have_many_frontends_and_models() -> None:
    settings = read_settings([*GIVEN, "--pool", "b=http://127.0.0.1:9002/base/,https://[::1]:9003;model=m, n;model=o"])
    assert [(pool.name, [(f.name, f.url) for f in pool.frontends], pool.models) for pool in settings.pools] == [
        ("a", [("a-0", "http://127.0.0.1:9001")], ()),
        ("b", [("b-0", "http://127.0.0.1:9002/base"), ("b-1", "https://[::1]:9003")], ("m", "n", "o")),
    ]


def test_every_knob_is_an_option_and_defaults_are_the_dataclasses_own() -> None:
    assert read_settings(GIVEN).rules == RouterConfig()
    assert read_settings(GIVEN).shell == ShellConfig()
    knobs = ["--deadline-s", "7", "--connect-timeout-s", "1.5", "--idle-timeout-s", "9", "--patience-s", "0.5",
             "--body-bytes-max", "100", "--metrics-prefix", "edge", "--reuse-idle-s", "0"]  # fmt: skip
    settings = read_settings([*GIVEN, *knobs])
    assert settings.rules == RouterConfig(deadline_s=7, connect_timeout_s=1.5, idle_timeout_s=9, patience_s=0.5)
    assert (settings.shell.body_bytes_max, settings.shell.metrics_prefix, settings.shell.reuse_idle_s) == (
        100,
        "edge",
        0,
    )


@pytest.mark.parametrize("prog", ["pooldrill serve", "python -m router"])
def test_help_explains_every_option(prog: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"], prog)
    assert left.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(f"usage: {prog} ")
    for part in ("--deadline-s S", "Bound on a whole request", "(default: 3600.0)", "--metrics-prefix STR"):
        assert part in told


@asynccontextmanager
async def process(*argv: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("ab") as errors:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "router", *argv, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def ready(router: asyncio.subprocess.Process) -> dict[str, Any]:
    assert router.stdout is not None
    line: dict[str, Any] = json.loads(await asyncio.wait_for(router.stdout.readline(), START_S))
    assert line["event"] == "ready"
    return line


async def ended(router: asyncio.subprocess.Process) -> int:
    return await asyncio.wait_for(router.wait(), START_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_serves_writes_its_logs_and_ends_in_order(number: signal.Signals, tmp_path: Path) -> None:
    log, sends = tmp_path / "log", tmp_path / "sends.jsonl"
    async with RawPool(ok) as pool:
        argv = ["--port", "0", "--admin-port", "0", "--pool", f"a={pool.url}", "--send-log", str(sends)]
        async with process(*argv, log=log) as router, aiohttp.ClientSession() as session:
            line = await ready(router)
            assert line["url"].startswith("http://127.0.0.1:")
            for stream in (False, True):
                body = json.dumps({"model": "m", "stream": stream}).encode()
                async with session.post(
                    line["url"] + CHAT, data=body, headers={"x-request-id": f"r{stream}"}
                ) as answer:
                    told = await seen(answer)
                assert (told.status, told.body) == (200, raw_pool.STREAM if stream else raw_pool.PLAIN)
            async with session.get(line["admin_url"] + "/metrics") as answer:
                assert 'requests_total{outcome="2xx",pool="a"} 2.0' in await answer.text()
            async with session.get(line["url"] + "/metrics") as answer:
                assert answer.status == 404
            router.send_signal(number)
            assert await ended(router) == 0
    rows = [msgspec.json.decode(row, type=Send) for row in sends.read_bytes().splitlines()]
    assert [(row.request_id, row.outcome) for row in rows] == [
        ("rFalse", ("answered", "", 200)), ("rTrue", ("answered", "", 200)),
    ]  # fmt: skip
    assert [json.loads(row)["event"] for row in log.read_text().splitlines()] == [
        "request_refused",  # a path that is not served
        "draining",
        "stopped",
    ]


async def test_times_of_the_send_log_are_the_machines_monotonic_clock(tmp_path: Path) -> None:
    sends = tmp_path / "sends.jsonl"
    loop = asyncio.get_running_loop()
    async with RawPool(ok) as pool:
        argv = ["--port", "0", "--pool", f"a={pool.url}", "--send-log", str(sends)]
        async with process(*argv, log=tmp_path / "log") as router, aiohttp.ClientSession() as session:
            line = await ready(router)
            before = loop.time()
            async with session.post(line["url"] + CHAT, data=b'{"model": "m"}') as answer:
                await answer.read()
            router.terminate()
            assert await ended(router) == 0
            after = loop.time()
    (row,) = [msgspec.json.decode(text, type=Send) for text in sends.read_bytes().splitlines()]
    assert row.t_connected is not None
    assert before < row.t_start < row.t_connected < row.t_end < after


async def test_a_stream_that_runs_at_sigterm_ends_whole_unless_a_second_signal_comes(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(call: raw_pool.Call) -> None:
        await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.chunk(raw_pool.TOKENS[0])
        await go_on.wait()
        await call.chunk(raw_pool.DONE)
        await call.chunk(b"")

    log, sends = tmp_path / "log", tmp_path / "sends.jsonl"
    for second_signal in (False, True):
        go_on.clear()
        async with RawPool(waits) as pool:
            argv = ["--port", "0", "--pool", f"a={pool.url}", "--send-log", str(sends)]
            async with process(*argv, log=log) as router, aiohttp.ClientSession() as session:
                line = await ready(router)
                async with session.post(line["url"] + CHAT, data=b'{"model": "m"}') as answer:
                    await answer.content.readany()
                    router.terminate()
                    await until(lambda: "draining" in log.read_text(), START_S)
                    assert router.returncode is None
                    if second_signal:
                        router.terminate()
                    else:
                        go_on.set()
                    told = await seen(answer)
                assert told.broken is second_signal
                assert await ended(router) == 0
        log.write_bytes(b"")
    rows = [msgspec.json.decode(row, type=Send) for row in sends.read_bytes().splitlines()]
    assert [row.outcome for row in rows] == [("answered", "", 200), ("answered", "client_left", 200)]


@pytest.mark.parametrize("host", ["::1", "[::1]"])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_it_listens_on_ipv6_and_its_admin_port_on_the_loopback_all_the_same(
    host: str, workers: str, tmp_path: Path
) -> None:
    async with RawPool(ok, host="::1") as pool:
        argv = ["--host", host, "--port", "0", "--admin-port", "0", "--workers", workers, "--pool", f"a={pool.url}"]
        async with process(*argv, log=tmp_path / "log") as router, aiohttp.ClientSession() as session:
            line = await ready(router)
            assert line["url"].startswith("http://[::1]:")
            assert line["admin_url"].startswith("http://127.0.0.1:")
            async with session.post(line["url"] + CHAT, data=b'{"model": "m"}') as answer:
                assert answer.status == 200
            router.terminate()
            assert await ended(router) == 0


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_an_ipv6_port_in_use_is_named_as_in_a_url(workers: str, tmp_path: Path) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = str(taken.getsockname()[1])
        argv = ["--host", "::1", "--port", port, "--workers", workers, "--pool", "a=http://127.0.0.1:1"]
        async with process(*argv, log=tmp_path / "log") as router:
            assert await ended(router) == 3
    said = (tmp_path / "log").read_text()
    assert said == f"python -m router: cannot listen on [::1]:{port}: it is in use; remedy: another --port\n"


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
async def test_a_port_in_use_is_the_environments_fault(option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        argv = ["--port", "0", "--pool", "a=http://127.0.0.1:1", option, port]
        async with process(*argv, log=tmp_path / "log") as router:
            assert await ended(router) == 3
    said = (tmp_path / "log").read_text()
    assert said == f"python -m router: cannot listen on 127.0.0.1:{port}: it is in use; remedy: another {option}\n"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("no.such.host.invalid", "'no.such.host.invalid' cannot be looked up"),
        ("a..b", "'a..b' cannot be looked up"),
        ("127.0.0.1 ", "'127.0.0.1 ' cannot be looked up"),
        ("192.0.2.1", "192.0.2.1 is no address of this machine"),  # a network for documentation, RFC 5737
    ],
)
def test_an_address_that_cannot_be_listened_on_is_the_hosts_fault(
    host: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--workers", "2"]):
        assert serve([*GIVEN, "--host", host, *more]) == 3
    first, told = capsys.readouterr().err.splitlines(keepends=True)
    assert first == told
    assert told == f"pooldrill serve: cannot listen on {host}:0: {said}; remedy: another --host\n"
