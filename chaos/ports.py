"""Loopback TCP ports for servers that must listen on a fixed one, chosen free and kept apart between processes.

Law:
1. A port lies above the well-known services and below 32768, where Linux starts to hand out ephemeral ports. A proxy
   on an ephemeral port can lose it while it is disabled, and a client's connect can even reach itself there.
2. A port is reserved by holding `flock` on a file of its own in a directory of this user. The kernel drops the lock
   when the holder dies, however it dies, so no reservation outlives its process and no file is ever deleted.
3. A reserved port has just been bound and listened on, so nobody else's server sits there.
"""

import errno
import fcntl
import os
import socket
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

LOOPBACK = "127.0.0.1"
PORT_MIN = 10_241
PORT_MAX = 32_767


class PortError(RuntimeError):
    """No port can be reserved; the text is one line and names the remedy."""

    exit_code: ClassVar[int] = 3


class PortReservations:
    """The ports one run holds. A context manager; `release` gives all of them back.

    Ports are tried from `port_min` to `port_max` in ascending order, so the same machine gives the same ports and the
    number of lock files stays as small as the number of ports ever held at once.
    """

    def __init__(self, *, directory: Path | None = None, port_min: int = PORT_MIN, port_max: int = PORT_MAX) -> None:
        if not PORT_MIN <= port_min <= port_max <= PORT_MAX:
            raise PortError(f"ports {port_min}-{port_max}: must lie within {PORT_MIN}-{PORT_MAX}")
        self._directory = directory if directory is not None else _directory_of_user()
        self._candidates = range(port_min, port_max + 1)
        self._locks: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"PortReservations({sorted(self._locks)})"

    def take(self) -> int:
        """Reserve one more port on 127.0.0.1. Raises PortError when none is free."""
        for port in self._candidates:
            if port not in self._locks and self._reserve(port):
                return port
        first, last = self._candidates[0], self._candidates[-1]
        raise PortError(
            f"no free port on {LOOPBACK} between {first} and {last}; remedy: stop servers or other runs that hold them"
        )

    def release(self) -> None:
        """Give every port back. Stop what listens there first."""
        while self._locks:
            _, lock = self._locks.popitem()
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _reserve(self, port: int) -> bool:
        lock = _lock(self._directory / f"{port}.lock")
        if lock is None:
            return False
        if not is_free(port):
            os.close(lock)
            return False
        self._locks[port] = lock
        return True


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now, by doing so for a moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections that linger in TIME_WAIT must not count: every server of ours sets this too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise PortError(f"{LOOPBACK}:{port}: {error.strerror}; remedy: bring up the loopback interface") from None
    return True


def _lock(path: Path) -> int | None:
    """Take the lock of one file, or None if another reservation has it. Two opens exclude each other in-process too."""
    try:
        # Descriptors are not inheritable by default, so no child keeps a reservation alive.
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise PortError(f"{path}: {error.strerror}; remedy: make {path.parent} writable, or set TMPDIR") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError as error:
        os.close(lock)
        raise PortError(f"{path}: {error.strerror}; remedy: set TMPDIR to a local file system") from None
    return lock


def _directory_of_user() -> Path:
    """Directory of this user's lock files, private to the user. Raises PortError if somebody else made it."""
    path = Path(tempfile.gettempdir()) / f"pooldrill-ports-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise PortError(f"{path}: {error.strerror}; remedy: set TMPDIR to a writable directory") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PortError(f"{path}: not a directory of yours; remedy: remove it, or set TMPDIR")
    return path
