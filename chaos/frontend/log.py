"""A frontend's log: rows of the record, one JSON line each, times absolute on the monotonic clock.

Each row is one unbuffered write into the page cache, a few microseconds: so what is logged is on file before it is
acted upon and survives a killed process, and the loop is not held up.
"""

import os
from pathlib import Path

import msgspec

from scenarios.record import PoolEvent, Sample


class LogError(RuntimeError):
    """A row could not be written. Not an OSError: asyncio takes those for a connection's and passes over them."""


class EventLog:
    """Rows appended to a file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder()

    def write(self, row: PoolEvent | Sample) -> None:
        """Append a row. Raises LogError, which must end the frontend: its log is the oracle."""
        line = self._encoder.encode(row) + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise LogError(f"cannot write the log: {error.strerror}") from error
        if written != len(line):
            raise LogError(f"cannot write the log: only {written} of {len(line)} bytes")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
