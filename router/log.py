"""JSON lines on stderr: one for every failed or refused send, and for the router's own events.

Nothing of bodies, headers' values or credentials is logged, only ids, names, causes and times; of a header that should
have been a count, and is none, its first 40 characters.
"""

import logging
import sys
from contextlib import suppress
from typing import IO, Any

import msgspec
from aiohttp.http_exceptions import HttpProcessingError

from router.clock import zoned
from router.core.clock import Clock

_encode = msgspec.json.encode


class EventLog:
    """Where events go, one JSON object a line: `stamp` with its zone, `event`, then the event's own fields.

    `worker` is in every line of one of several processes.
    """

    def __init__(self, clock: Clock, out: IO[str] | None = None, *, worker: int | None = None) -> None:
        self._clock = clock
        self._worker = worker
        self._out = sys.stderr if out is None else out

    def write(self, event: str, **fields: Any) -> None:
        """Write one event; fields that are None are left out."""
        line: dict[str, Any] = {"stamp": zoned(self._clock.wall()), "event": event}
        if self._worker is not None:
            line["worker"] = self._worker
        line.update((name, value) for name, value in fields.items() if value is not None)
        with suppress(OSError):  # nobody reads it any more, or the disk is full: no request fails for that
            self._out.write(_encode(line).decode() + "\n")
            self._out.flush()


class LibraryEvents(logging.Handler):
    """Turns what libraries log (a handler's traceback, a slow callback) into events."""

    def __init__(self, events: EventLog) -> None:
        super().__init__(logging.WARNING)
        self._events = events
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event; of bytes that were not HTTP only what kind of error they were, since errors quote them."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            self._events.write("malformed_request", error=type(error).__name__)
            return
        trace = self._formatter.formatException(record.exc_info) if record.exc_info else None
        self._events.write(
            "library", level=record.levelname, logger=record.name, message=record.getMessage(), trace=trace
        )
