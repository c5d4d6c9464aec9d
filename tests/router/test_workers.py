"""Several processes on one port: requests reach all of them, the dead are replaced, and none is left behind."""

import asyncio
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from router.cli import read_settings, serve
from router.clock import MachineClock
from router.settings import Settings
from router.supervisor import END_GRACE_S, RESTART_PAUSE_S, RESTART_PAUSE_S_MAX
from router.worker import Worker
from scenarios.record import Send
from tests.router import raw_pool
from tests.router.live import CHAT, seen, until
from tests.router.raw_pool import RawPool, head, ok
from tests.router.test_cli import GIVEN, START_S, ended, process, ready

WORKERS = 3


class Running:
    """A router of several workers, as its ready line shows it."""

    def __init__(self, supervisor: asyncio.subprocess.Process, line: dict[str, Any], log: Path) -> None:
        self.supervisor = supervisor
        self.url: str = line["url"]
        self.pid: int = line["pid"]
        self.workers: list[dict[str, Any]] = line["workers"]
        self._log = log

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for row in self._log.read_text().splitlines() if (line := json.loads(row))["event"] == name]

    def pids(self) -> list[int]:
        """Return the workers that live now."""
        later = [line["worker_pid"] for line in self.events("worker_ready")]
        return [pid for pid in [*(worker["pid"] for worker in self.workers), *later] if lives(pid)]

    async def ask(self, request_id: str = "r") -> int:
        """Ask on a connection of its own, so that the kernel chooses a worker anew."""
        async with aiohttp.ClientSession() as session:
            return await self.ask_on(session, request_id)

    async def ask_on(self, session: aiohttp.ClientSession, request_id: str) -> int:
        headers = {"x-request-id": request_id}
        async with session.post(self.url + CHAT, data=b'{"model": "m"}', headers=headers) as answer:
            await answer.read()
            return answer.status


@asynccontextmanager
async def workers(pool: str, tmp_path: Path, *argv: str) -> AsyncIterator[Running]:
    log = tmp_path / "log"
    common = ["--port", "0", "--workers", str(WORKERS), "--pool", f"a={pool}"]
    async with process(*common, *argv, log=log) as supervisor:
        running = Running(supervisor, await ready(supervisor), log)
        try:
            yield running
        finally:
            if supervisor.returncode is None:
                supervisor.kill()
                await supervisor.wait()
            for pid in running.pids():  # there are some only where a test has failed
                os.kill(pid, signal.SIGKILL)


@contextmanager
def ports_in_a_row(count: int) -> Iterator[list[socket.socket]]:
    for start in range(20_000, 30_000, count):
        bound = [socket.socket() for _ in range(count)]
        try:
            for offset, each in enumerate(bound):
                each.bind(("127.0.0.1", start + offset))
            yield bound
        except OSError:
            continue
        else:
            return
        finally:
            for each in bound:
                each.close()
    pytest.fail("no free ports in a row")


def ids_in(send_log: Path) -> list[str]:
    return [msgspec.json.decode(row, type=Send).request_id for row in send_log.read_bytes().splitlines()]


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_requests_are_spread_and_everything_of_a_worker_is_its_own(tmp_path: Path) -> None:
    sends = tmp_path / "sends.jsonl"
    argv = ["--admin-port", "0", "--send-log", str(sends)]
    async with RawPool(ok) as pool, workers(pool.url, tmp_path, *argv) as router:
        assert [worker["worker"] for worker in router.workers] == list(range(WORKERS))
        statuses = await asyncio.gather(*(router.ask(f"r-{number}") for number in range(60)))
        assert Counter(statuses) == {200: 60}
        counted = []
        async with aiohttp.ClientSession() as session:
            for worker in router.workers:
                async with session.get(worker["admin_url"] + "/metrics") as answer:
                    page = await answer.text()
                assert f'pooldrill_router_worker{{worker="{worker["worker"]}",workers="{WORKERS}"}} 1.0' in page
                counted += [float(row.split()[-1]) for row in page.splitlines() if "_client_requests_total{" in row]
        router.supervisor.terminate()
        assert await ended(router.supervisor) == 0
    assert sum(counted) == 60
    assert len(counted) == WORKERS  # 60 connections that all miss one of three: once in 10^10 runs
    rows = [ids_in(tmp_path / f"sends.jsonl.{index}") for index in range(WORKERS)]
    assert [len(each) for each in rows] == counted
    assert len({name for each in rows for name in each}) == 60
    assert not sends.exists()


async def test_a_loop_is_recognised_by_whichever_worker_it_comes_back_to(tmp_path: Path) -> None:
    sends = tmp_path / "sends.jsonl"
    with ports_in_a_row(1) as (free,):
        port = str(free.getsockname()[1])
    itself = f"a=http://127.0.0.1:{port}"
    argv = ["--port", port, "--workers", "3", "--no-cooldown", "--send-log", str(sends), "--pool", itself]
    async with process(*argv, log=tmp_path / "log") as supervisor:
        router = Running(supervisor, await ready(supervisor), tmp_path / "log")
        assert {await router.ask(f"r-{number}") for number in range(12)} == {508}
        supervisor.terminate()
        assert await ended(supervisor) == 0
    assert sum(len(ids_in(tmp_path / f"sends.jsonl.{index}")) for index in range(3)) == 12


async def test_a_worker_that_is_killed_is_replaced_while_the_others_go_on(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, workers(pool.url, tmp_path) as router:
        killed = router.workers[1]["pid"]
        os.kill(killed, signal.SIGKILL)
        await until(lambda: router.events("worker_ready"), START_S)
        (died,) = router.events("worker_ended")
        assert (died["worker"], died["worker_pid"], died["code"]) == (1, killed, -signal.SIGKILL)
        assert died["restart_in_s"] == RESTART_PAUSE_S
        (back,) = router.events("worker_ready")
        assert (back["worker"], back["worker_pid"] != killed) == (1, True)
        assert Counter([await router.ask() for _ in range(30)]) == {200: 30}
        router.supervisor.terminate()
        assert await ended(router.supervisor) == 0
        assert not lives(back["worker_pid"])


async def test_a_worker_that_is_told_to_end_drains_and_is_replaced(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, workers(pool.url, tmp_path) as router:
        os.kill(router.workers[2]["pid"], signal.SIGTERM)
        await until(lambda: router.events("worker_ready"), START_S)
        (ended_in_order,) = router.events("worker_ended")
        assert (ended_in_order["worker"], ended_in_order["code"]) == (2, 0)
        assert [line["worker"] for line in router.events("stopped")] == [2]
        router.supervisor.terminate()
        assert await ended(router.supervisor) == 0


@pytest.mark.slow
async def test_a_worker_that_does_not_end_is_killed_in_the_end(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, workers(pool.url, tmp_path, "--drain-timeout-s", "0.1") as router:
        os.kill(router.workers[0]["pid"], signal.SIGSTOP)
        router.supervisor.terminate()
        assert await asyncio.wait_for(router.supervisor.wait(), 3 * END_GRACE_S) == 3
        assert not router.pids()


async def test_a_worker_that_dies_again_and_again_is_started_ever_more_rarely(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, workers(pool.url, tmp_path) as router:
        current = router.workers[0]["pid"]
        for deaths in range(1, 5):
            os.kill(current, signal.SIGKILL)
            await until(lambda n=deaths: len(router.events("worker_ready")) == n, START_S)  # type: ignore[misc]
            current = router.events("worker_ready")[-1]["worker_pid"]
        pauses = [line["restart_in_s"] for line in router.events("worker_ended")]
        assert pauses == [RESTART_PAUSE_S * 2**n for n in range(4)]
        assert max(pauses) < RESTART_PAUSE_S_MAX
        router.supervisor.terminate()
        assert await ended(router.supervisor) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second_signal", [False, True], ids=["drain", "hurry"])
async def test_streams_of_all_workers_end_whole_unless_a_second_signal_comes(
    second_signal: bool, number: signal.Signals, tmp_path: Path
) -> None:
    go_on = asyncio.Event()

    async def waits(call: raw_pool.Call) -> None:
        await call.say(head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"))
        await call.chunk(raw_pool.TOKENS[0])
        await go_on.wait()
        await call.chunk(raw_pool.DONE)
        await call.chunk(b"")

    async def stream(session: aiohttp.ClientSession, url: str, begun: asyncio.Semaphore) -> bool:
        async with session.post(url + CHAT, data=b'{"model": "m"}') as answer:
            await answer.content.readany()
            begun.release()
            return (await seen(answer)).broken

    begun = asyncio.Semaphore(0)
    async with RawPool(waits) as pool, workers(pool.url, tmp_path) as router:
        async with aiohttp.ClientSession() as session:
            streams = [asyncio.ensure_future(stream(session, router.url, begun)) for _ in range(12)]
            for _ in streams:
                await begun.acquire()
            # As a service manager or a terminal does: to every worker, and to the supervisor, which tells them again.
            for pid in router.pids():
                os.kill(pid, number)
            if number is signal.SIGTERM:
                await until(lambda: len(router.events("draining")) == WORKERS, START_S)
            os.kill(router.pid, number)
            await until(lambda: len(router.events("draining")) == WORKERS + 1, START_S)
            await asyncio.sleep(0.1)
            assert not any(task.done() for task in streams)
            if second_signal:
                os.kill(router.pid, number)
            else:
                go_on.set()
            assert await asyncio.gather(*streams) == [second_signal] * len(streams)
        assert await ended(router.supervisor) == 0
        assert not router.pids()
        assert len(router.events("stopped")) == WORKERS + 1


async def test_no_worker_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, workers(pool.url, tmp_path) as router:
        first = router.workers[0]["pid"]
        os.kill(first, signal.SIGKILL)  # one that was started later must notice too
        await until(lambda: router.events("worker_ready"), START_S)
        assert len(router.pids()) == WORKERS
        os.kill(router.pid, signal.SIGKILL)
        await until(lambda: not router.pids(), START_S)
        assert len(router.events("supervisor_gone")) == WORKERS


async def test_a_worker_that_cannot_begin_ends_them_all(tmp_path: Path) -> None:
    with ports_in_a_row(3) as (first, taken, last):
        first.close()
        last.close()
        taken.listen()
        port = taken.getsockname()[1]
        argv = ["--port", "0", "--workers", "3", "--pool", "a=http://127.0.0.1:9", "--admin-port", str(port - 1)]
        async with process(*argv, log=tmp_path / "log") as router:
            assert await ended(router) == 3
    lines = (tmp_path / "log").read_text().splitlines()
    said = [line for line in lines if not line.startswith("{")]
    assert said == [f"python -m router: cannot listen on 127.0.0.1:{port}: it is in use; remedy: another --admin-port"]
    assert any(json.loads(line)["event"] == "cannot_start" for line in lines if line.startswith("{"))


async def test_a_port_that_another_router_of_several_workers_has_is_in_use(tmp_path: Path) -> None:
    async with RawPool(ok) as pool, workers(pool.url, tmp_path) as router:
        port = router.url.rpartition(":")[2]
        argv = ["--port", port, "--workers", "2", "--pool", f"a={pool.url}"]
        async with process(*argv, log=tmp_path / "other") as other:
            assert await ended(other) == 3
        said = (tmp_path / "other").read_text()
        assert said == f"python -m router: cannot listen on 127.0.0.1:{port}: it is in use; remedy: another --port\n"
        assert await router.ask() == 200
        router.supervisor.terminate()
        assert await ended(router.supervisor) == 0


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        (["--workers", "0"], "--workers"),
        (["--workers", "257"], "--workers"),
        (["--workers", "two"], "--workers"),
        (["--workers", "2", "--admin-port", "65535"], "--admin-port"),
        (["--workers", "3", "--port", "9002", "--admin-port", "9000"], "--admin-port"),
    ],
)
def test_workers_that_cannot_be_are_bad_input(argv: list[str], key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve([*GIVEN, *argv]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), key in said, "remedy: " in said) == (1, True, True)


def test_what_of_the_settings_is_a_workers_own(tmp_path: Path) -> None:
    argv = ["--port", "9000", "--admin-port", "9100", "--workers", "3", "--seed", "7"]
    shared = read_settings([*argv, "--pool", "a=http://h", "--send-log", str(tmp_path / "sends.jsonl")])
    own = [mine(shared, index) for index in range(3)]
    assert [each.admin_port for each in own] == [9100, 9101, 9102]
    assert [each.shell.seed for each in own] == [7, 8, 9]
    assert [each.send_log and each.send_log.name for each in own] == [f"sends.jsonl.{index}" for index in range(3)]
    assert {each.port for each in own} == {9000}
    without = read_settings([*GIVEN, "--workers", "3", "--admin-port", "0"])
    assert {
        (mine(without, i).admin_port, mine(without, i).shell.seed, mine(without, i).send_log) for i in range(3)
    } == {(0, -1, None)}


def mine(shared: Settings, index: int) -> Settings:
    return Worker(index=index, count=3, name="r", port=shared.port, lifeline=-1, ready=-1).settings(shared)


def test_a_process_without_an_event_loop_has_the_same_clock() -> None:
    loop = asyncio.new_event_loop()
    before, now, after = loop.time(), MachineClock().monotonic(), loop.time()
    loop.close()
    assert before <= now <= after
