"""One run at a time for one place of results: two that share it would clear each other's logs and mix their rows.

A claim is a lock on the file PLACE.lock, in which its owner's process id stands. The kernel drops the lock when the
owner dies, however it dies. The file stays: one that is deleted could be locked twice.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

PID_BYTES_MAX = 20


class ClaimError(RuntimeError):
    """Another run writes to the same place; one line with its process id and the remedy."""

    exit_code: ClassVar[int] = 3


@contextlib.contextmanager
def claim(place: Path) -> Iterator[None]:
    """Own a place of results. Never waits: raises ClaimError if another run owns it, OSError if it cannot be written.

    The directory of `place` is made if missing.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(place.with_name(f"{place.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClaimError(f"{place}: {_owner(lock)} is writing there; remedy: --out ELSEWHERE") from None
        os.truncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def _owner(lock: int) -> str:
    """Name the owner; it may not have written its process id yet."""
    pid = os.pread(lock, PID_BYTES_MAX, 0).decode(errors="replace")
    return f"another drill, pid {pid}," if pid else "another drill"
