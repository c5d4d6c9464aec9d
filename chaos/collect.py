"""From everybody's own notes to the record of one run.

All notes are in seconds of the machine's one monotonic clock; the record counts from the run's start. Rows stand kind
by kind: operations and requests in the order of arrival, all others in the order in which they happened.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

from chaos.clients.ledger import Ledger
from scenarios.plan import Planned
from scenarios.record import Fault, Metric, Operation, PoolEvent, Probe, Request, Row, Sample, Send

TIMES: Mapping[type, tuple[str, ...]] = {
    Operation: ("t_intended", "t_end"),
    Request: ("t_start", "t_headers", "t_first_token", "t_last_byte", "t_end"),
    Send: ("t_start", "t_connected", "t_end"),
    PoolEvent: ("t",),
    Fault: ("t_inject", "t_clear"),
    Probe: ("t",),
    Sample: ("t",),
}
"""Which fields of a row are times of the clock. What is planned counts from the run's start already."""

_T = TypeVar("_T")
_SENDS = msgspec.json.Decoder(Send)
_FRONTEND_ROWS: msgspec.json.Decoder[PoolEvent | Sample] = msgspec.json.Decoder(PoolEvent | Sample)
_R = TypeVar("_R", Operation, Request, Send, PoolEvent, Fault, Probe, Sample)


class CollectError(RuntimeError):
    """A log of a run is missing or cannot be read; one line."""

    exit_code: ClassVar[int] = 3


class Notes:
    """What was written down during a run, times on the clock."""

    def __init__(self, ledger: Ledger, probes: Iterable[Probe] = ()) -> None:
        self.ledger = ledger
        self.probes = list(probes)
        self.faults: list[Fault] = []
        self.samples: list[Sample] = []
        self.sends: list[Send] = []
        self.pool_events: list[PoolEvent] = []
        self.metrics: list[Metric] = []

    def add_send_log(self, path: Path) -> None:
        """Take the router's send log. Raises CollectError."""
        self.sends += read_log(path, _SENDS)

    def add_frontend_log(self, path: Path) -> None:
        """Take a frontend's log. Raises CollectError."""
        for row in read_log(path, _FRONTEND_ROWS):
            if isinstance(row, Sample):
                self.samples.append(row)
            else:
                self.pool_events.append(row)

    def rows(self, planned: Sequence[Planned], start_s: float) -> list[Row]:
        """Return all rows, in order, times counted from the run's start."""
        turn = {operation.operation_id: place for place, operation in enumerate(planned)}
        operations = sorted(self.ledger.operations, key=lambda row: turn[row.operation_id])
        requests = sorted(self.ledger.requests, key=lambda row: (turn[row.operation_id], row.attempt))
        return [
            *_since(start_s, operations),
            *_since(start_s, requests),
            *_since(start_s, sorted(self.sends, key=lambda row: (row.t_start, row.request_id, row.attempt))),
            *_since(start_s, sorted(self.pool_events, key=lambda row: row.t)),
            *_since(start_s, sorted(self.faults, key=lambda row: (row.planned_inject, row.target))),
            *_since(start_s, self.probes),
            *_since(start_s, sorted(self.samples, key=lambda row: row.t)),
            *self.metrics,
        ]


def read_log(path: Path, decoder: msgspec.json.Decoder[_T]) -> list[_T]:
    """Return the rows of a log in JSON Lines. Raises CollectError for a line that is none, or of another kind.

    A last line without its end is left out: its writer was killed, which is told elsewhere.
    """
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CollectError(f"{path}: {error.strerror}; the run has left no such log") from None
    return [_decoded(path, number, line, decoder) for number, line in enumerate(lines, start=1)]


def _decoded(path: Path, number: int, line: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CollectError(f"{path}:{number}: {error}") from None


def _since(start_s: float, rows: Iterable[_R]) -> Iterable[_R]:
    for row in rows:
        times = {name: getattr(row, name) for name in TIMES[type(row)]}
        yield msgspec.structs.replace(row, **{name: t - start_s for name, t in times.items() if t is not None})
