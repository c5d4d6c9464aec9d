"""`--send-log FILE`: one JSON line for every send, good ones too.

The fields are those of the row `send` of a drill's record. Times are the monotonic clock's own seconds; who reads them
subtracts the start of the run.

A file that cannot be written any more ends the log and nothing else: no request fails for it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

FLUSH_S = 0.5
"""Longest time a line stays in memory."""
BUFFER_BYTES = 64 * 2**10


class SendRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="send"):
    """One hand-over of a request to one frontend.

    `cause` says why there was no answer or, after a status, why the answer was not passed on whole; `blame` whose doing
    that was. `t_end` is the end of the answer's stream.
    """

    request_id: str
    attempt: int
    pool: str
    frontend: str
    t_start: float
    t_connected: float | None = None
    t_end: float
    slot_taken: bool
    reused: bool = False
    delivery: str
    status: int | None = None
    cause: str | None = None
    blame: str | None = None


class SendLog(Protocol):
    """Takes a row for every send that has ended; `wanted` tells whether anybody keeps it."""

    wanted: bool

    def write(self, row: SendRow) -> None:
        """Take one row."""
        ...

    def close(self) -> None:
        """Leave nothing in memory."""
        ...


class NoSendLog:
    """Stands in where no file is named."""

    wanted = False

    def write(self, row: SendRow) -> None:
        """Forget the row."""

    def close(self) -> None:
        """Do nothing."""


class SendLogFile:
    """Appends rows to a file, buffered; complete after `close`, at most FLUSH_S behind before.

    Raises OSError if the file cannot be opened. `on_broken` is told, once, why nothing more is written.
    """

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop, on_broken: Callable[[OSError], None]) -> None:
        self.wanted = True
        self._file = path.open("ab", buffering=BUFFER_BYTES)
        self._encoder = msgspec.json.Encoder()
        self._loop = loop
        self._on_broken = on_broken
        self._flushing: asyncio.TimerHandle | None = None

    def write(self, row: SendRow) -> None:
        """Append one line."""
        if not self.wanted:
            return
        try:
            self._file.write(self._encoder.encode(row) + b"\n")
        except OSError as error:
            self._broken(error)
            return
        if self._flushing is None:
            self._flushing = self._loop.call_later(FLUSH_S, self._flush)

    def close(self) -> None:
        """Write everything and close the file."""
        if self.wanted:
            self._flush()
        with suppress(OSError):  # it tries once more what could not be written, and closes all the same
            self._file.close()

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        try:
            self._file.flush()
        except OSError as error:
            self._broken(error)

    def _broken(self, error: OSError) -> None:
        self.wanted = False
        self._on_broken(error)
