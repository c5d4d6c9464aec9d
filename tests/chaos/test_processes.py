"""Children start, are watched, and are gone at the end: normal end, exception, Ctrl-C, SIGTERM, SIGKILL."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.ports import PortReservations
from chaos.processes import READY_WAIT_S, Child, Children, Exit, ProcessError

ROOT = Path(__file__).resolve().parents[2]
GONE_WAIT_S = 2.0
PYTHON = sys.executable

SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
# waits for the signal itself: one that comes just before a sleep begins would be seen only when the sleep ends
POLITE = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
sys.exit(7)
"""
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *sys.argv[1:]])
print("ready", child.pid, flush=True)
time.sleep(600)
"""
# argv: log directory, source of a child, source of a child with a child, how many of each, mark on every command line
HARNESS = """
import asyncio, signal, sys
from pathlib import Path
from chaos.processes import Children, sigterm_cancels

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests in the background ignores it

async def main(log_dir, plain, parent, count, mark):
    with sigterm_cancels():
        async with Children(Path(log_dir)) as children:
            started = []
            for n in range(int(count)):
                started.append(await children.start(f"plain{n}", [sys.executable, "-S", "-c", plain, mark]))
                started.append(await children.start(f"parent{n}", [sys.executable, "-S", "-c", parent, mark]))
                print("started", flush=True)
            ready = [await child.ready_line("ready") for child in started]
            print("all", *(child.pid for child in started), *(pid for line in ready for pid in line.split()[1:]))
            sys.stdout.flush()
            await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""
FORKING_HARNESS = """
import asyncio, os, sys, time
from pathlib import Path
from chaos.processes import Children

async def main(log_dir, plain):
    async with Children(Path(log_dir)) as children:
        child = await children.start("plain", [sys.executable, "-c", plain])
        if (fork := os.fork()) == 0:
            time.sleep(60)
            os._exit(0)
        print("all", child.pid, fork, flush=True)
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def harness(log_dir: Path, *, mark: str, count: int = 2, plain: str = SLEEPER) -> "subprocess.Popen[str]":
    """Start a harness in a process group of its own, as a shell would."""
    return subprocess.Popen(
        [PYTHON, "-c", HARNESS, str(log_dir), plain, PARENT, str(count), mark],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def line_of(process: "subprocess.Popen[str]", word: str) -> list[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line.split()[1:]
    raise AssertionError(f"the harness ended without a line {word!r}")


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listing.stdout.strip()) and not listing.stdout.startswith("Z")


def marked(mark: str) -> list[str]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if mark in line and line.split()[1][0] != "Z"]


def eventually_none(left: Callable[[], list[str]]) -> None:
    deadline = time.monotonic() + GONE_WAIT_S
    while (rest := left()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert rest == []


@pytest.fixture
def mark() -> str:
    return f"pooldrill-test-{uuid.uuid4().hex}"


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)],
    ids=["SIGKILL", "SIGTERM", "SIGINT"],
)
def test_children_and_grandchildren_are_gone_after_a_signal(
    tmp_path: Path, mark: str, number: signal.Signals, code: int
) -> None:
    with harness(tmp_path, mark=mark) as process:
        pids = [int(pid) for pid in line_of(process, "all")]
        assert len(pids) == 6
        assert all(alive(pid) for pid in pids)
        process.send_signal(number)
        assert process.wait(timeout=10) == code
        eventually_none(lambda: [str(pid) for pid in pids if alive(pid)])
    assert marked(mark) == []


def test_a_stubborn_child_does_not_survive_the_harness(tmp_path: Path, mark: str) -> None:
    with harness(tmp_path, mark=mark, plain=STUBBORN) as process:
        pids = [int(pid) for pid in line_of(process, "all")]
        process.kill()
        eventually_none(lambda: [str(pid) for pid in pids if alive(pid)])


@pytest.mark.parametrize("seed", range(6))
def test_no_moment_of_the_start_leaves_a_child_behind(tmp_path: Path, mark: str, seed: int) -> None:
    with harness(tmp_path, mark=mark, count=20) as process:
        line_of(process, "started")
        time.sleep(random.Random(seed).uniform(0, 0.1))
        process.kill()
        process.wait(timeout=10)
        eventually_none(lambda: marked(mark))


async def test_a_normal_end_stops_in_order_and_reports_exit_codes(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        started = [
            await children.start("polite", [PYTHON, "-c", POLITE]),
            await children.start("sleeper", [PYTHON, "-c", SLEEPER]),
            await children.start("early", [PYTHON, "-c", "print('ready', flush=True)"]),
        ]
        for child in started:
            await child.ready_line("ready")
        assert await started[2].wait(timeout_s=10) == 0
    assert children.exits == (
        Exit(name="polite", returncode=7, killed=False),
        Exit(name="sleeper", returncode=-signal.SIGTERM, killed=False),
        Exit(name="early", returncode=0, killed=False),
    )
    assert not any(alive(child.pid) for child in started)
    assert await children.close() == children.exits


async def test_an_exception_ends_the_children_too(tmp_path: Path) -> None:
    pids: list[int] = []

    async def run() -> None:
        async with Children(tmp_path) as children:
            child = await children.start("parent", [PYTHON, "-c", PARENT])
            pids.extend((child.pid, int((await child.ready_line("ready")).split()[1])))
            assert all(alive(pid) for pid in pids)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run()
    eventually_none(lambda: [str(pid) for pid in pids if alive(pid)])


async def test_a_cancelled_stop_still_leaves_nobody(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = await children.start("stubborn", [PYTHON, "-c", STUBBORN])
        await child.ready_line("ready")
        stopping = asyncio.create_task(children.close())
        await asyncio.sleep(0.05)
        assert alive(child.pid)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert not alive(child.pid)


async def test_stop_kills_after_its_wait(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = await children.start("stubborn", [PYTHON, "-c", STUBBORN])
        await child.ready_line("ready")
        expected = Exit(name="stubborn", returncode=-signal.SIGKILL, killed=True)
        assert await child.stop(wait_s=0.1) == expected
        assert await child.stop() == expected


async def test_stop_reaches_a_frozen_child(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = await children.start("sleeper", [PYTHON, "-c", SLEEPER])
        await child.ready_line("ready")
        child.send_signal(signal.SIGSTOP)
        assert await child.stop() == Exit(name="sleeper", returncode=-signal.SIGTERM, killed=False)


@pytest.mark.parametrize("way", ["line", "port"])
async def test_a_child_that_dies_ends_the_wait_at_once_with_its_log(tmp_path: Path, way: str) -> None:
    source = "import sys, time; time.sleep(0.1); print('config: bad port', file=sys.stderr); sys.exit(2)"
    with PortReservations() as ports:
        async with Children(tmp_path) as children:
            child = await children.start("router", [PYTHON, "-c", source])
            begin = time.monotonic()
            with pytest.raises(ProcessError, match=r"^router ended with exit code 2 before it was ready; ") as caught:
                await (child.ready_line("ready") if way == "line" else child.accepts(ports.take()))
            assert time.monotonic() - begin < READY_WAIT_S / 2
    assert "    config: bad port" in str(caught.value)
    assert caught.value.exit_code == 3


async def test_a_child_that_is_never_ready_is_given_up_on(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = await children.start("router", [PYTHON, "-c", SLEEPER])
        await child.ready_line("ready")
        with pytest.raises(ProcessError, match=r"router \(running\): not ready within 0.2 s: no line with 'go'"):
            await child.ready_line("go", timeout_s=0.2)


async def test_an_error_shows_the_last_lines_of_the_log_cut_to_a_length(tmp_path: Path) -> None:
    source = "for n in range(9): print(n, 'x' * 500)"
    async with Children(tmp_path) as children:
        child = await children.start("a-0", [PYTHON, "-c", source], title="frontend a-0")
        await child.wait(timeout_s=10)
        told = str(child.death("during the run"))
    first, *lines = told.splitlines()
    assert first == f"frontend a-0 ended with exit code 0 during the run; its log {tmp_path / 'a-0.log'} ends:"
    assert lines == [f"    {n} {'x' * 198}" for n in (6, 7, 8)]


async def test_a_child_that_ends_while_it_is_needed_is_told_in_place_of_what_broke(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = await children.start("a-0", [PYTHON, "-c", SLEEPER], title="frontend a-0")
        children.check()

        async def breaks(number: int) -> None:
            async with children.needed():
                child.send_signal(number)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await breaks(0)
        with pytest.raises(ProcessError, match=r"^frontend a-0 ended by SIGKILL during the run; its log"):
            await breaks(signal.SIGKILL)
        with pytest.raises(ProcessError, match=r"^frontend a-0 ended by SIGKILL during the run; its log"):
            await children.watch()


async def test_a_half_written_line_is_not_taken(tmp_path: Path) -> None:
    source = "import time; print('ready port=1', end='', flush=True); time.sleep(.3); print('234', flush=True)"
    async with Children(tmp_path) as children:
        child = await children.start("frontend", [PYTHON, "-c", source])
        assert await child.ready_line("ready") == "ready port=1234"


async def test_accepts_waits_for_the_listener(tmp_path: Path) -> None:
    source = (
        "import socket, sys, time\ntime.sleep(.2)\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "time.sleep(600)"
    )
    with PortReservations() as ports:
        port = ports.take()
        async with Children(tmp_path) as children:
            child = await children.start("frontend", [PYTHON, "-c", source, str(port)])
            await child.accepts(port)
            assert child.returncode is None


async def test_a_restart_appends_but_reads_its_own_log_only(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        first = await children.start("frontend", [PYTHON, "-c", "print('ready one')"])
        assert await first.ready_line("ready") == "ready one"
        await first.wait(timeout_s=10)
        second = await children.start("frontend", [PYTHON, "-c", "print('ready two')"])
        assert await second.ready_line("ready") == "ready two"
        await second.wait(timeout_s=10)
    assert (tmp_path / "frontend.log").read_text() == "ready one\nready two\n"


async def test_children_do_not_inherit_the_pipe_or_stdin(tmp_path: Path) -> None:
    source = "import os, sys; print('fds', [n for n in range(3, 256) if _open(n)], repr(sys.stdin.read()))"
    probe = "import os\ndef _open(n):\n    try: os.fstat(n)\n    except OSError: return False\n    return True\n"
    async with Children(tmp_path) as children:
        child = await children.start("frontend", [PYTHON, "-c", probe + source])
        assert await child.ready_line("fds") == "fds [] ''"


async def test_without_its_guardian_no_child_starts(tmp_path: Path) -> None:
    children = Children(tmp_path)
    with pytest.raises(ProcessError, match="not started, because nobody would end it"):
        await children.start("router", [PYTHON, "-c", SLEEPER])


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-x", "a b", "x" * 101])
async def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    async with Children(tmp_path) as children:
        with pytest.raises(ProcessError, match="child name"):
            await children.start(name, [PYTHON, "-c", SLEEPER])


async def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        with pytest.raises(ProcessError, match=r"toxiproxy: cannot start /nowhere/server: No such file or directory"):
            await children.start("toxiproxy", ["/nowhere/server"])


def test_the_guardian_refuses_a_group_that_is_not_its_own() -> None:
    command = [PYTHON, str(ROOT / "chaos" / "guardian.py"), str(os.getpid())]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 1
    assert done.stderr.startswith("guardian: not the leader of its process group")


def test_the_guardian_notices_its_parent_when_a_fork_keeps_the_pipe(tmp_path: Path) -> None:
    command = [PYTHON, "-c", FORKING_HARNESS, str(tmp_path), SLEEPER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        child, fork = (int(pid) for pid in line_of(process, "all"))
        try:
            process.kill()
            eventually_none(lambda: [str(child)] if alive(child) else [])
            assert alive(fork)
        finally:
            os.kill(fork, signal.SIGKILL)


def test_repr_shows_state(tmp_path: Path) -> None:
    process = subprocess.Popen([PYTHON, "-c", ""])
    child = Child(name="x", title="x", process=process, log_path=tmp_path / "x.log", log_start=0)
    process.wait()
    assert repr(child) == f"Child(x, pid {process.pid}, ended with exit code 0)"
