"""`--workers N`: N routers on one port, each a process of its own, under one small supervisor.

Laws
1. Workers share the port and nothing else: what a router remembers and bounds is then per worker.
2. `ready` is said once, when all of them listen. A worker that cannot begin ends them all.
3. A worker that dies later is started again after a pause that doubles up to RESTART_PAUSE_S_MAX and is forgotten once
   the worker has stood for STOOD_S: a worker that dies at once costs a start every RESTART_PAUSE_S_MAX, not a core.
4. Told to end, it ends every worker, waits for them with a bound, and leaves none; when it is killed, they notice.

It runs no event loop and handles no request. Workers are forked from it, after all imports and before any loop or
thread, so they share its memory.
"""

import gc
import os
import selectors
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NoReturn

import msgspec

from router.clock import MachineClock, zoned
from router.ending import END, HURRY
from router.log import EventLog
from router.settings import Settings
from router.shared_port import reserved
from router.worker import Worker, own_name

RESTART_PAUSE_S = 0.1
RESTART_PAUSE_S_MAX = 10.0
STOOD_S = 30.0
START_S_MAX = 60.0
"""How long all workers together may take until they listen."""
END_GRACE_S = 10.0
"""What a worker may take to end beyond the drain time-out, or after it was told to hurry; then it is killed."""
EXIT_ENVIRONMENT = 3

Work = Callable[[Worker], int]
"""What a worker does in its own process; returns its exit code."""


class _Process:
    """One worker as its supervisor sees it; `pid` 0: it does not run."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.pid = 0
        self.ready_fd = -1
        self.line: dict[str, Any] | None = None
        """What it said when it began to listen."""
        self.started_s = 0.0
        self.pause_s = RESTART_PAUSE_S
        self.restart_s: float | None = None
        """When it is to be started again."""


class Supervisor:
    """Keeps the workers of one router. `work` is what each of them does."""

    def __init__(self, settings: Settings, work: Work) -> None:
        self._settings = settings
        self._work = work
        self._clock = MachineClock()
        self._events = EventLog(self._clock)
        self._processes = [_Process(index) for index in range(settings.workers)]
        self._selector = selectors.DefaultSelector()
        self._lifeline = self._at_supervisor = -1
        self._signals = -1
        self._port = settings.port
        self._name = own_name()
        self._said_ready = False
        self._failed = False

    def run(self) -> int:
        """Run until told to end; returns the exit code. Raises CannotStart."""
        with ExitStack() as last_to_first:
            for kept in reserved(self._settings.host, self._settings.port):
                last_to_first.callback(kept.close)
                self._port = kept.getsockname()[1]
            self._lifeline, self._at_supervisor = os.pipe()
            self._signals = last_to_first.enter_context(_signals())
            self._selector.register(self._signals, selectors.EVENT_READ)
            gc.freeze()  # what is shared with the workers stays shared: no collection touches it
            for process in self._processes:
                self._start(process)
            try:
                self._watch()
            finally:
                self._end_all()
        self._events.write("stopped")
        return EXIT_ENVIRONMENT if self._failed else 0

    # ---- while it runs

    def _watch(self) -> None:
        """Return when it was told to end, or when the workers cannot begin."""
        give_up_s = self._clock.monotonic() + START_S_MAX
        while not self._failed:
            due = [p.restart_s for p in self._processes if p.restart_s is not None]
            if not self._said_ready:
                due.append(give_up_s)
            if {END, signal.SIGINT} & self._wait(min(due, default=None)):
                return
            self._restart_due()
            if not self._said_ready and self._clock.monotonic() >= give_up_s:
                self._fail(f"not all workers listen after {START_S_MAX:g} s")

    def _wait(self, until_s: float | None) -> set[int]:
        """Wait for signals, lines and deaths, see to the latter two, and return the signals."""
        wait_s = None if until_s is None else max(0.0, until_s - self._clock.monotonic())
        numbers: set[int] = set()
        for key, _ in self._selector.select(wait_s):
            if key.fd == self._signals:
                numbers |= set(os.read(self._signals, 4096))
            else:
                self._listens(key.data)
        self._reap()
        return numbers

    def _listens(self, process: _Process) -> None:
        """Take the line of a worker that listens; an end without a line is a death, which `_reap` sees to."""
        line = os.read(process.ready_fd, 65_536)  # one write of less than a pipe takes at once
        self._forget_ready(process)
        if not line:
            return
        process.line = msgspec.json.decode(line)
        if self._said_ready:
            self._events.write("worker_ready", worker=process.index, worker_pid=process.pid)
        elif all(each.line is not None for each in self._processes):
            self._said_ready = True
            self._say_ready()

    def _reap(self) -> None:
        for process in self._processes:
            if not process.pid:
                continue
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._died(process, os.waitstatus_to_exitcode(status))

    def _died(self, process: _Process, code: int) -> None:
        """Start a worker that ended by itself again, after its pause."""
        now = self._clock.monotonic()
        had_listened, process.line = process.line is not None, None
        pid, process.pid = process.pid, 0
        self._forget_ready(process)
        if not self._said_ready and not had_listened:
            self._fail(f"worker {process.index} ended with {code} before it listened")
            return
        if now - process.started_s >= STOOD_S:
            process.pause_s = RESTART_PAUSE_S
        process.restart_s = now + process.pause_s
        self._events.write(
            "worker_ended", worker=process.index, worker_pid=pid, code=code, restart_in_s=process.pause_s
        )
        process.pause_s = min(2 * process.pause_s, RESTART_PAUSE_S_MAX)

    def _restart_due(self) -> None:
        now = self._clock.monotonic()
        for process in self._processes:
            if process.restart_s is not None and now >= process.restart_s:
                self._start(process)

    def _fail(self, why: str) -> None:
        self._failed = True
        self._events.write("cannot_start", reason=why)

    # ---- processes

    def _start(self, process: _Process) -> None:
        process.started_s, process.restart_s = self._clock.monotonic(), None
        process.ready_fd, theirs = os.pipe()
        # A signal that comes before the worker can tell what to do with it must wait, not be lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (END, HURRY))
        process.pid = os.fork()
        if not process.pid:
            self._become(process, theirs)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(theirs)
        self._selector.register(process.ready_fd, selectors.EVENT_READ, process)

    def _become(self, process: _Process, ready_fd: int) -> NoReturn:
        """Be a worker, from the fork to the end of the process."""
        code = EXIT_ENVIRONMENT
        try:
            signal.set_wakeup_fd(-1)
            for number in (END, HURRY, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor tells
            self._selector.close()
            for fd in (self._at_supervisor, self._signals, *(p.ready_fd for p in self._processes if p.ready_fd >= 0)):
                os.close(fd)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (END, HURRY))
            code = self._work(
                Worker(
                    index=process.index,
                    count=len(self._processes),
                    name=self._name,
                    port=self._port,
                    lifeline=self._lifeline,
                    ready=ready_fd,
                )
            )
        except BaseException:  # noqa: BLE001  (nothing may go on into the supervisor's code)
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(code)

    def _forget_ready(self, process: _Process) -> None:
        if process.ready_fd >= 0:
            self._selector.unregister(process.ready_fd)
            os.close(process.ready_fd)
            process.ready_fd = -1

    # ---- the end

    def _end_all(self) -> None:
        """End every worker: in order, at a second signal at once, and by force what does not."""
        self._events.write("draining")
        self._send(END)
        shell = self._settings.shell
        kill_s = self._clock.monotonic() + shell.drain_delay_s + shell.drain_timeout_s + END_GRACE_S
        while self._running():
            if self._clock.monotonic() >= kill_s:
                self._failed = True
                self._send(signal.SIGKILL)
                kill_s += END_GRACE_S
            if {END, signal.SIGINT} & self._wait_for_ends(kill_s):
                self._send(HURRY)
                kill_s = min(kill_s, self._clock.monotonic() + END_GRACE_S)

    def _wait_for_ends(self, until_s: float) -> set[int]:
        numbers: set[int] = set()
        for key, _ in self._selector.select(max(0.0, until_s - self._clock.monotonic())):
            if key.fd == self._signals:
                numbers |= set(os.read(self._signals, 4096))
            else:
                self._forget_ready(key.data)
        for process in self._running():
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                began, code = process.line is not None, os.waitstatus_to_exitcode(status)
                process.pid = 0
                # Before it listened it ends by the signal itself.
                self._failed |= code != 0 and (began or code != -END)
        return numbers

    def _running(self) -> list[_Process]:
        return [process for process in self._processes if process.pid]

    def _send(self, number: int) -> None:
        for process in self._running():
            os.kill(process.pid, number)  # it cannot be another's by now: nobody but us waits for it

    def _say_ready(self) -> None:
        lines = [process.line for process in self._processes if process.line is not None]
        line = {
            "stamp": zoned(self._clock.wall()),
            "event": "ready",
            "url": lines[0]["url"],
            "admin_url": lines[0]["admin_url"],
            "pid": os.getpid(),
            "workers": [{key: line[key] for key in ("worker", "pid", "admin_url")} for line in lines],
        }
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()


@contextmanager
def _signals() -> Iterator[int]:
    """Turn signals into bytes, one each, that can be read from the file descriptor that is given out."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    numbers = (END, signal.SIGINT, signal.SIGCHLD)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
