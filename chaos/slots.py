"""At most one cast per core on a machine, across processes: a run that must share its core measures its neighbours.

A slot is a locked file in a directory of this user. The kernel drops the lock when its holder dies, however it dies.
"""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

SLOT_WAIT_S = 600.0
"""Longest wait for another run's end."""
POLL_S = 0.1


class SlotError(RuntimeError):
    """No slot became free in time, or none can be made; one line with the remedy."""

    exit_code: ClassVar[int] = 3


@contextlib.contextmanager
def slot(*, directory: Path | None = None, count: int | None = None, wait_s: float = SLOT_WAIT_S) -> Iterator[int]:
    """Hold one of the slots, by default as many as this process has cores. Blocks; raises SlotError."""
    where = directory if directory is not None else Path(tempfile.gettempdir()) / f"pooldrill-slots-{os.getuid()}"
    slots = count if count is not None else _cores()
    deadline_s = time.monotonic() + wait_s
    while (held := _take(where, slots)) is None:
        if time.monotonic() >= deadline_s:
            raise SlotError(
                f"{slots} other drills are still running after {wait_s:g} s; remedy: let them end, or stop them"
            )
        time.sleep(POLL_S)
    number, lock = held
    try:
        yield number
    finally:
        os.close(lock)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _take(directory: Path, slots: int) -> tuple[int, int] | None:
    """Lock the first free slot; None if all are held."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        for number in range(slots):
            lock = os.open(directory / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                return number, lock
    except OSError as error:
        raise SlotError(f"{directory}: {error.strerror}; remedy: make it writable, or set TMPDIR") from None
    return None
