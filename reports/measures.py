"""What is counted and timed in one run, as the page, the pictures and the CSV files show it.

Latencies are seconds from the *intended* start of the operation, so a client or a harness that was late does not make
an answer look quick. What was received is counted at the pools, what was sent as the router tells it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from scenarios.record import Fault, Operation, Record, Request, Send

NO_VALUE = float("nan")


class Answer(Enum):
    """How an answer is drawn and counted: a few classes, told apart by what they mean to the user."""

    FIRST = "answered, first pool"
    FAILED_OVER = "answered, another pool (failover)"
    MAYBE_RUNNING = "503 maybe_running"
    ERROR = "another explicit error"
    BREAK = "visible break"
    NONE = "no clear answer"


@dataclass(frozen=True, slots=True)
class Mark:
    """One request on the timeline: when it was due, and how long its answer took, in seconds."""

    request: Request
    due_s: float
    latency_s: float
    answer: Answer


@dataclass(frozen=True, slots=True)
class Amplification:
    """How much work a run made of what its users asked for; NaN where there was nothing to divide by."""

    operations: int
    requests: int
    sends: int
    bodies: int
    """Whole bodies that frontends received, over all pools."""
    bodies_per_request_max: int

    @property
    def requests_per_operation(self) -> float:
        """Above 1 where clients asked again."""
        return _ratio(self.requests, self.operations)

    @property
    def send_amplification(self) -> float:
        """Sends / operations."""
        return _ratio(self.sends, self.operations)

    @property
    def bodies_per_operation(self) -> float:
        """Whole bodies / operations: the figure of the whole chain."""
        return _ratio(self.bodies, self.operations)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Ascending seconds from the intended start, of operations that were answered completely."""

    first_token_s: tuple[float, ...]
    total_s: tuple[float, ...]


class Run:
    """One record with what is worked out of it, each thing once."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.real = record.meta.mode == "real"

    @property
    def title(self) -> str:
        """The run's name above its pictures and columns."""
        return f"Real run (router: {self.record.meta.router})" if self.real else "Model (simulated)"

    @property
    def short(self) -> str:
        """The same as one word."""
        return "real" if self.real else "model"

    @cached_property
    def pools_of(self) -> dict[str, set[str]]:
        """Request id -> pools that it was sent to."""
        pools: dict[str, set[str]] = defaultdict(set)
        for send in self.record.sends:
            pools[send.request_id].add(send.pool)
        return pools

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """All requests by their start."""
        due = {operation.operation_id: operation.t_intended for operation in self.record.operations}
        marks = []
        for request in sorted(self.record.requests, key=lambda request: request.t_start):
            # A client's own retry was due when it was made; only an operation's first request has an intended start.
            due_s = due.pop(request.operation_id, request.t_start)
            marks.append(Mark(request, due_s, request.t_end - due_s, self._answer(request)))
        return tuple(marks)

    @cached_property
    def answers(self) -> Counter[str]:
        """What clients saw, in the words of a scenario's `expect.answers`, and how often."""
        return Counter(request.answer for request in self.record.requests)

    @cached_property
    def classes(self) -> Counter[Answer]:
        """Requests by class of answer."""
        return Counter(mark.answer for mark in self.marks)

    @cached_property
    def deliveries(self) -> Counter[tuple[str, str]]:
        """(pool, delivery) -> sends."""
        return Counter((send.pool, send.delivery) for send in self.record.sends)

    @cached_property
    def outcomes(self) -> Counter[tuple[str, str, str]]:
        """(pool, delivery, status or cause) -> sends."""
        return Counter((send.pool, send.delivery, _why(send)) for send in self.record.sends)

    @cached_property
    def pools_of_body(self) -> dict[str, list[str]]:
        """Request id -> pools that received its whole body, once for each time; the harness's probes left out."""
        probes = {probe.request_id for probe in self.record.probes}
        pools: defaultdict[str, list[str]] = defaultdict(list)
        for event in self.record.pool_events:
            if event.kind == "body_complete" and event.request_id is not None and event.request_id not in probes:
                pools[event.request_id].append(event.pool)
        return dict(pools)

    @cached_property
    def amplification(self) -> Amplification:
        """Sends and bodies against operations."""
        bodies = [len(pools) for pools in self.pools_of_body.values()]
        return Amplification(
            operations=len(self.record.operations),
            requests=len(self.record.requests),
            sends=len(self.record.sends),
            bodies=sum(bodies),
            bodies_per_request_max=max(bodies, default=0),
        )

    @cached_property
    def latencies(self) -> Latencies:
        """Latencies of complete answers; the first token is that of the request that was answered."""
        answered = {request.operation_id: request for request in self.record.requests if request.end == "done"}
        good = [operation for operation in self.record.operations if operation.ok]
        total = sorted(operation.t_end - operation.t_intended for operation in good)
        first = sorted(
            token - operation.t_intended
            for operation in good
            if (token := _first_token(operation, answered)) is not None
        )
        return Latencies(first_token_s=tuple(first), total_s=tuple(total))

    def _answer(self, request: Request) -> Answer:
        if request.end == "done":
            return self._complete(request)
        if request.answer == "break":
            return Answer.BREAK
        return Answer.ERROR if request.end == "error_frame" else Answer.NONE

    def _complete(self, request: Request) -> Answer:
        if request.code == "maybe_running":
            return Answer.MAYBE_RUNNING
        if request.status is None or not 200 <= request.status < 300:
            return Answer.ERROR
        # Without rows of sends the count that the answer tells must do: the router never sends to one pool twice.
        pools = len(self.pools_of.get(request.request_id, ())) or request.sends or 1
        return Answer.FAILED_OVER if pools > 1 else Answer.FIRST


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed; NaN if there are none.

    Nearest rank, so the result is always a latency that was really seen: p99 of fewer than 100 is the slowest.
    """
    if not ascending:
        return NO_VALUE
    rank = math.ceil(share * len(ascending) - 1e-9)  # 0.9 x 10 must stay 9 in spite of binary fractions
    return ascending[max(rank, 1) - 1]


def span(fault: Fault) -> tuple[float, float]:
    """Return when a fault was on, in seconds; what is not known is taken from the plan."""
    start_s = fault.planned_inject if fault.t_inject is None else fault.t_inject
    return start_s, max(start_s, fault.planned_clear if fault.t_clear is None else fault.t_clear)


def _first_token(operation: Operation, answered: dict[str, Request]) -> float | None:
    request = answered.get(operation.operation_id)
    return None if request is None else request.t_first_token


def _why(send: Send) -> str:
    return str(send.status) if send.status is not None else send.cause or "no cause given"


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else NO_VALUE
