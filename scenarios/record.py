"""What happened in one run: the contract between runners, checks, agreement and reports.

On disk: JSON Lines, version 1. Line 1 is the meta row; from line 2 on the model writes the same bytes for the same
seed. Times are seconds since the run's start on the monotonic clock. The oracle for double execution is what the pools
saw (`PoolEvent`), never what a router says of itself (`Send`).
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Struct, field

from scenarios.measures.history import History
from scenarios.spec import Scenario

SCHEMA = 1
_META_WITHIN_BYTES = 100
"""A record says so at its very beginning; other files may have a line of any length."""
Mode = Literal["real", "simulated"]
RequestEnd = Literal["done", "error_frame", "eof_no_done", "reset", "client_left", "refused", "timeout"]
EventKind = Literal[
    "head", "body_complete", "queued", "started", "tokens", "finished", "cancelled", "rejected", "orphaned"
]


class _Row(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A line of the record; a field at its default is left out."""


class Meta(_Row, frozen=True, kw_only=True, tag="meta"):
    """Line 1: which run this is. `started` is a wall-clock stamp with its zone, the only one in the record."""

    schema: int = SCHEMA
    scenario: Scenario
    seed: int
    mode: Mode
    router: str
    started: str
    versions: dict[str, str]
    commit: str = ""
    invalid: str = ""
    """Why the run must not be judged (the machine was too busy); empty for a good run."""
    tries: int = 1
    """Which try this is: runs before it were thrown away because the machine was too busy."""


class Operation(_Row, frozen=True, kw_only=True, tag="operation"):
    """What a user's program asked for, once. `requests` counts the HTTP requests it took."""

    operation_id: str
    load: int
    t_intended: float
    t_end: float
    ok: bool
    requests: int
    session: str | None = None
    error: str = ""
    """Name of the exception that the user's program saw; empty if it saw none."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Attempts that each layer made for it, by the layer's name; empty where no layers are told apart."""


class Request(_Row, frozen=True, kw_only=True, tag="request"):
    """One HTTP request as its client saw it.

    `end`: done (complete), error_frame, eof_no_done (a stream that ended cleanly without its end mark), reset (broke
    off), client_left, refused (no connection to the router), timeout (the client's own). `delivery` and `pool` are what
    the router's headers claimed.
    """

    operation_id: str
    request_id: str
    attempt: int
    t_start: float
    t_headers: float | None = None
    t_first_token: float | None = None
    t_last_byte: float | None = None
    t_end: float
    end: RequestEnd
    status: int | None = None
    code: str | None = None
    stream: bool = False
    events: int = 0
    bytes: int = 0
    """Body bytes that arrived."""
    sha256_up: str | None = None
    sha256_down: str | None = None
    gap_max_s: float = 0.0
    delivery: str | None = None
    pool: str | None = None
    sends: int | None = None

    @property
    def answer(self) -> str:
        """What the client saw, in the words of a scenario's `expect.answers`."""
        if self.end == "done":
            return str(self.status) if self.code is None else f"{self.status} {self.code}"
        return "break" if self.end == "reset" and self.status is not None else self.end


class Send(_Row, frozen=True, kw_only=True, tag="send"):
    """One hand-over of a request to one frontend, as the router tells it. Outcome fields as in router.core.delivery."""

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

    @property
    def outcome(self) -> tuple[str, str, int | None]:
        """Delivery, cause and status: what agreement compares."""
        return (self.delivery, self.cause or "", self.status)


class PoolEvent(_Row, frozen=True, kw_only=True, tag="pool_event"):
    """What a pool's frontend saw or did. `body_complete` means: the whole body was received."""

    pool: str
    frontend: str
    kind: EventKind
    t: float
    operation_id: str | None = None
    request_id: str | None = None
    sha256: str | None = None
    tokens: int | None = None


class Fault(_Row, frozen=True, kw_only=True, tag="fault"):
    """A fault that was made, when it was planned and when it really was on, and how that was proved."""

    name: str
    target: str
    planned_inject: float
    planned_clear: float
    t_inject: float | None = None
    t_clear: float | None = None
    proved: bool = False
    proof: str = ""
    cleared: bool = False
    cleared_proof: str = ""


class Probe(_Row, frozen=True, kw_only=True, tag="probe"):
    """A request of the harness's own, with an id that was issued for it."""

    request_id: str
    target: str
    t: float
    outcome: str


class Alarm(_Row, frozen=True, kw_only=True, tag="alarm"):
    """Something the router raised; `cleared` None: still standing at the end."""

    kind: str
    since: float
    cleared: float | None = None
    detail: str = ""


class State(_Row, frozen=True, kw_only=True, tag="state"):
    """A change of what the router knows: cooldown and health (by frontend), primary, switch, catalog, discovery.

    Of several routers each names itself in `target`.
    """

    kind: str
    target: str
    value: str
    t: float


class Sample(_Row, frozen=True, kw_only=True, tag="sample"):
    """One reading of a gauge: in_flight and queue (by pool), loop_lag_s and clock_offset_s (by source)."""

    kind: str
    source: str
    value: float
    t: float


class Metric(_Row, frozen=True, kw_only=True, tag="metric"):
    """A counter of the router at the end of the run, name without its prefix."""

    name: str
    labels: dict[str, str]
    value: float


Row = Operation | Request | Send | PoolEvent | Fault | Probe | Alarm | State | Sample | Metric


class RecordError(ValueError):
    """A record cannot be read; the text names file, line and remedy."""

    exit_code: ClassVar[int] = 2


class Arms(NamedTuple):
    """A run and the same one without its faults (None: it has none), as columns."""

    run: History
    control: History | None


class Record:
    """One run, its rows by kind in the order they were written."""

    def __init__(self, meta: Meta, rows: Iterable[Row]) -> None:
        self.meta = meta
        self.rows: tuple[Row, ...] = tuple(rows)
        self.operations = tuple(r for r in self.rows if isinstance(r, Operation))
        self.requests = tuple(r for r in self.rows if isinstance(r, Request))
        self.sends = tuple(r for r in self.rows if isinstance(r, Send))
        self.pool_events = tuple(r for r in self.rows if isinstance(r, PoolEvent))
        self.faults = tuple(r for r in self.rows if isinstance(r, Fault))
        self.probes = tuple(r for r in self.rows if isinstance(r, Probe))
        self.samples = tuple(r for r in self.rows if isinstance(r, Sample))
        self.alarms = tuple(r for r in self.rows if isinstance(r, Alarm))
        self.states = tuple(r for r in self.rows if isinstance(r, State))
        self.metrics = tuple(r for r in self.rows if isinstance(r, Metric))
        self.arms: Arms | None = None
        """The columns of the run and of its control arm, where its runner has them; not written with the record."""

    @property
    def scenario(self) -> Scenario:
        """The scenario that was run, as it was run."""
        return self.meta.scenario


def write(record: Record, path: Path) -> None:
    """Write a record as JSON Lines, whole or not at all, whoever else writes to the same path."""
    encoder = msgspec.json.Encoder()
    lines = [encoder.encode(record.meta), *(encoder.encode(row) for row in record.rows)]
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial.write_bytes(b"\n".join(lines) + b"\n")
    partial.replace(path)


def read(path: Path) -> Record:
    """Read a record. Raises RecordError in one line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        msg = f"{path}: {error.strerror}; remedy: name a .jsonl file written by drill, simulate or compare"
        raise RecordError(msg) from None
    if not lines:
        msg = f"{path}: empty; remedy: run the scenario again"
        raise RecordError(msg)
    if not _is_meta(lines[0]):
        msg = f"{path}: not a record; remedy: name a .jsonl file written by drill, simulate or compare"
        raise RecordError(msg)
    meta = _decode(path, 1, lines[0], Meta)
    if meta.schema != SCHEMA:
        msg = f"{path}:1: schema {meta.schema}, this version reads {SCHEMA}; remedy: run the scenario again"
        raise RecordError(msg)
    return Record(meta, [_decode(path, number, line, Row) for number, line in enumerate(lines[1:], start=2)])


def _is_meta(line: bytes) -> bool:
    """Whether this is the first line of a record, however badly it goes on."""
    return b'"type":"meta"' in line[:_META_WITHIN_BYTES].replace(b" ", b"")


def _decode(path: Path, number: int, line: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        msg = f"{path}:{number}: {error}; remedy: run the scenario again"
        raise RecordError(msg) from None


def record_path(out: Path, scenario: str, mode: Mode) -> Path:
    """Return where a runner writes the record of one run."""
    return out / f"{scenario}.{mode}.jsonl"
