"""Children of the harness: started, watched, logged, and gone at the end, however the end comes.

Law:
1. Every child is born into the guardian's process group (chaos/guardian.py), so also its own children are. When the
   harness dies, SIGKILL included, the guardian kills the group: there is no moment at which a child can be left behind.
2. An orderly stop is SIGTERM, a bounded wait, then SIGKILL; the exit codes are reported.
3. A child writes to a log file, never into a pipe that could fill; its tail is part of every error about the child.
4. A child that ends while it is needed is the error that is told, whatever broke because of it.

A child that leaves its process group by itself (setsid, setpgid) is outside this promise. The guardian's group is not
the terminal's foreground group: Ctrl-C reaches the harness alone, which stops its children in order.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, NoReturn, Self, TypeVar

from chaos.ports import LOOPBACK

READY_WAIT_S = 15.0
"""Longest wait for a child to say that it is ready."""
STOP_WAIT_S = 3.0
"""Longest wait between SIGTERM and SIGKILL."""
KILL_WAIT_S = 2.0
"""Longest wait for a killed process to be gone."""
POLL_S = 0.01
WATCH_POLL_S = 0.05
"""How often children that must not end are looked at."""
CONNECT_WAIT_S = 0.25
LOG_TAIL_LINES_MAX = 3
LOG_TAIL_LINE_MAX = 200
"""Longest part of a log's line, in characters, that an error shows."""
LOG_TAIL_BYTES_MAX = 8_192
DEATH_WAIT_S = 0.25
"""How long after an error a child may take to be seen as dead: its connections break before its exit code is there."""
CHILDREN_MAX = 256

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_GUARDIAN = Path(__file__).with_name("guardian.py")


class ProcessError(RuntimeError):
    """A child could not be started, was not ready in time, or died; the text ends with the tail of its log."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended. `returncode` as in subprocess: negative is minus the signal's number."""

    name: str
    returncode: int
    killed: bool
    """Whether it had to be killed because it did not end by itself in time."""


class Child:
    """One started process. Made by `Children.start`. `title` is what errors call it."""

    def __init__(
        self, *, name: str, title: str, process: "subprocess.Popen[bytes]", log_path: Path, log_start: int
    ) -> None:
        self.name = name
        self.title = title
        self.log_path = log_path
        self._process = process
        self._log_start = log_start
        self._killed = False

    def __repr__(self) -> str:
        return f"Child({self.name}, pid {self.pid}, {_ending(self.returncode)})"

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal, None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """Everything this child wrote to stdout and stderr so far."""
        with self.log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def log_tail(self) -> str:
        """Last lines of its log, indented, for an error message."""
        with self.log_path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - LOG_TAIL_BYTES_MAX))
            lines = file.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES_MAX:]
        return "\n".join(f"    {line[:LOG_TAIL_LINE_MAX]}" for line in lines) or "    (empty)"

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        self._process.send_signal(number)

    async def wait(self, *, timeout_s: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises TimeoutError after `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            # polled, since the end of a child is no event unless a thread waits for each
            while (code := self.returncode) is None:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        return code

    async def stop(self, *, wait_s: float = STOP_WAIT_S) -> Exit:
        """SIGTERM, at most `wait_s` seconds, then SIGKILL. Of a child that has ended it only reports how."""
        self.send_signal(signal.SIGTERM)
        self.send_signal(signal.SIGCONT)  # a frozen process sees its SIGTERM only once it is thawed
        try:
            code = await self.wait(timeout_s=wait_s)
        except TimeoutError:
            self._killed = self.returncode is None
            self.send_signal(signal.SIGKILL)
            code = await self.wait(timeout_s=KILL_WAIT_S)
        return Exit(name=self.name, returncode=code, killed=self._killed)

    async def ready_line(self, marker: str, *, timeout_s: float = READY_WAIT_S) -> str:
        """Wait for the first whole line of its output that contains `marker`, and return that line.

        Raises ProcessError as `ready` does.
        """

        async def found() -> str:
            return next((line for line in self.log().split("\n")[:-1] if marker in line), "")

        return await self.ready(found, f"no line with {marker!r}", timeout_s=timeout_s)

    async def accepts(self, port: int, *, timeout_s: float = READY_WAIT_S) -> None:
        """Wait until something accepts on 127.0.0.1:`port`. Raises ProcessError as `ready` does."""
        await self.ready(lambda: _accepts(port), f"nothing accepts on port {port}", timeout_s=timeout_s)

    async def ready(self, look: Callable[[], Awaitable[_T]], missing: str, *, timeout_s: float = READY_WAIT_S) -> _T:
        """Look again and again until what is seen is true, and return that; `missing` says what is not seen.

        Raises ProcessError at once when the child dies, and after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # The order matters: a child that was ready and then ended was ready.
            ended = self.returncode is not None
            if seen := await look():
                return seen
            if ended:
                raise self.death("before it was ready")
            if time.monotonic() >= deadline:
                raise self.failure(f"not ready within {timeout_s:g} s: {missing}")
            await asyncio.sleep(POLL_S)

    def failure(self, what: str) -> ProcessError:
        """Make an error about this child, with the tail of its log."""
        return self._error(f"{self.title} ({_ending(self.returncode)}): {what}")

    def death(self, when: str) -> ProcessError:
        """Make an error about this child, which has ended and should not have, with the tail of its log."""
        return self._error(f"{self.title} {_ending(self.returncode)} {when}")

    def _error(self, told: str) -> ProcessError:
        return ProcessError(f"{told}; its log {self.log_path} ends:\n{self.log_tail()}")


class Children:
    """All children of one run: an asynchronous context manager at whose end none of them is left.

    `log_dir` is made if missing. Each child logs to `log_dir/NAME.log`; a name that is used again, for a restart,
    appends there.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.exits: tuple[Exit, ...] = ()
        """How each child ended, in the order of their start; filled by `close`."""
        self._children: list[Child] = []
        self._guardian: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def __repr__(self) -> str:
        return f"Children({self._children!r})"

    async def __aenter__(self) -> Self:
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._open_guardian()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def started(self) -> tuple[Child, ...]:
        """Every child so far, also those that have ended, in the order of their start."""
        return tuple(self._children)

    async def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        title: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Child:
        """Start a program; stdin is empty, stdout and stderr go to its log. Raises ProcessError.

        `title` is what errors call it, by default its name; `env` None means the harness's own environment.
        """
        if not _NAME.fullmatch(name):
            raise ProcessError(f"child name {name!r}: use letters, digits, '.', '_' and '-', at most 100")
        if len(self._children) >= CHILDREN_MAX:
            raise ProcessError(f"{name}: already {CHILDREN_MAX} children; remedy: a smaller scenario")
        # fork and exec take milliseconds, which a run in progress must not lose
        return await asyncio.to_thread(self._spawn, name, title or name, [str(part) for part in argv], env, cwd)

    def check(self) -> None:
        """Raise ProcessError about the first child that has ended, if one has."""
        for child in self._children:
            if child.returncode is not None:
                raise child.death("during the run")

    async def watch(self) -> NoReturn:
        """Check again and again until cancelled. Raises ProcessError."""
        while True:
            self.check()
            await asyncio.sleep(WATCH_POLL_S)

    @contextlib.asynccontextmanager
    async def needed(self) -> AsyncIterator[None]:
        """Inside, no child may end: an error is then told as the death that it came from, if there was one.

        Raises ProcessError instead of that error.
        """
        try:
            yield
        except Exception:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DEATH_WAIT_S):
                    await self.watch()
            raise

    async def close(self) -> tuple[Exit, ...]:
        """Stop all children in order, then let the guardian kill whatever is left of them. Safe to call twice."""
        try:
            if not self.exits:
                # last started, first stopped: what depends on others goes before them
                ends = await asyncio.gather(*(child.stop() for child in reversed(self._children)))
                self.exits = tuple(reversed(ends))
        finally:
            self._close_guardian()
        return self.exits

    def _open_guardian(self) -> None:
        read_end, self._pipe = os.pipe()
        try:
            self._guardian = subprocess.Popen(
                # isolated and without site-packages: started in 15 ms
                [sys.executable, "-I", "-S", str(_GUARDIAN), str(os.getpid())],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        finally:
            os.close(read_end)

    def _spawn(self, name: str, title: str, argv: list[str], env: Mapping[str, str] | None, cwd: Path | None) -> Child:
        guardian = self._guardian
        if guardian is None or guardian.poll() is not None:
            raise ProcessError(f"{name}: not started, because nobody would end it; remedy: use Children as a context")
        log_path = self.log_dir / f"{name}.log"
        with log_path.open("ab") as log:
            log_start = log.tell()
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=env,
                    cwd=cwd,
                    process_group=guardian.pid,
                )
            except OSError as error:
                raise ProcessError(f"{title}: cannot start {argv[0]}: {error.strerror}") from None
        child = Child(name=name, title=title, process=process, log_path=log_path, log_start=log_start)
        self._children.append(child)
        return child

    def _close_guardian(self) -> None:
        """Close the pipe, upon which the guardian kills the group; then reap it and every child."""
        if self._guardian is None:
            return
        os.close(self._pipe)
        guardian, self._guardian = self._guardian, None
        _reap(guardian)
        for child in self._children:
            _reap(child._process)  # noqa: SLF001  (a child is reaped by its own group alone)


@contextlib.contextmanager
def sigterm_cancels() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP cancel the current task, so that every `finally` runs; then exit code 128 + signal.

    Without it they end the harness at once; then the guardian kills the children, but nobody deletes the proxies on a
    Toxiproxy server that is not ours. For the main task in the main thread. Ctrl-C needs nothing: asyncio.run turns it
    into a cancelled main task too.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "only inside a task"
    received: list[int] = []

    def cancel(number: int) -> None:
        received.append(number)
        task.cancel()

    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, cancel, number)
    try:
        yield
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _reap(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a process that is being killed; kill it here if its guardian cannot."""
    try:
        process.wait(KILL_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(KILL_WAIT_S)


def _ending(returncode: int | None) -> str:
    if returncode is None:
        return "running"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"ended by signal {-returncode}"


async def _accepts(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_WAIT_S):
                await asyncio.get_running_loop().sock_connect(probe, (LOOPBACK, port))
        except OSError:  # refused, or TimeoutError, which is one too
            return False
    return True
