"""What is seen of one world while it runs: by its clients, by its pools, in the router's logs, and what went wrong."""

import io
import logging
import traceback
from typing import Any

import msgspec

from router.send_log import SendRow
from tests.virtual.clients import Heard
from tests.virtual.plan import World
from tests.virtual.pools import Served


class Observed:
    """What was seen of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: dict[str, Heard] = {}
        self.lists: dict[str, Heard] = {}
        """What became of requests for lists of models."""
        self.served: list[Served] = []
        self.unknown_ids: list[str] = []
        self.rows: list[SendRow] = []
        self.tally: Any = None
        self.problems: list[str] = []
        """What was found wrong while it ran: leaks, miscounts, what the event loop or a library complained of."""
        self.start_s = 0.0
        self.signalled_s = float("inf")
        self.drained_s = float("inf")
        self.trace = 0
        """A checksum of everything that arrived anywhere, and when."""
        self.events = ""
        """The router's event log."""

    def served_of(self, name: str) -> list[Served]:
        """Return what the frontends have seen of one request."""
        return [served for served in self.served if served.name == name]

    def rows_of(self, name: str) -> list[SendRow]:
        """Return the router's sends of one request."""
        return [row for row in self.rows if row.request_id == name]


class MemoryFile(io.BytesIO):
    """A file that can be read after it was closed."""

    kept = b""

    def close(self) -> None:
        if not self.closed:
            self.kept = self.getvalue()
        super().close()


class MemorySendLog:
    """Stands where the path of a send log stands; files are outside a virtual world."""

    def __init__(self) -> None:
        self.file = MemoryFile()

    def open(self, *_: object, **__: object) -> MemoryFile:
        return self.file

    def rows(self) -> list[SendRow]:
        return [msgspec.json.decode(line, type=SendRow) for line in self.file.kept.splitlines()]


class Complaints(logging.Handler):
    """Collects what libraries and the event loop log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        where = "" if error is None else "".join(traceback.format_exception(error))[-1500:]
        self.said.append(f"{record.getMessage()} {where}".strip())
