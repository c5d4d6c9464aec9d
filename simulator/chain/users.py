"""Users: operations arrive in open loop, whatever became of the ones before, and end with what they were told."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scenarios.spec import Load, Scenario
from scenarios.world.arrivals import Ask, arrivals, asks
from simulator.chain.calls import Attempt, Call, Operation
from simulator.chain.clockwork import Clockwork, Wake
from simulator.chain.columns import Operations
from simulator.chain.gateway import Gateway
from simulator.chain.layer import GenericLayer
from simulator.chain.results import OK, OK_END, Result
from simulator.chain.work import Units


class Arrivals(NamedTuple):
    """All operations of a run in the order of arrival: when, of which load entry, its number there, what it asks."""

    t_s: Sequence[float]
    load: Sequence[int]
    turn: Sequence[int]
    asks: Sequence[Ask] | None


def arrivals_of(scenario: Scenario, seed: int) -> Arrivals:
    """Return every operation that a seed makes arrive: the same ones that a real run of that seed has."""
    times = [arrivals(load, seed, index) for index, load in enumerate(scenario.load)]
    t_s = np.concatenate([np.asarray(part, dtype=float) for part in times])
    load = np.repeat(np.arange(len(times)), [len(part) for part in times])
    turn = np.concatenate([np.arange(len(part)) for part in times])
    order = np.argsort(t_s, kind="stable")
    found: list[Ask] | None = None
    if any(map(_asks_something, scenario.load)) or any(pool.service.kind == "by_tokens" for pool in scenario.pools):
        every = [
            ask for index, part in enumerate(times) for ask in _first(scenario.load[index], seed, index, len(part))
        ]
        found = [every[place] for place in order.tolist()]
    return Arrivals(t_s[order].tolist(), load[order].tolist(), turn[order].tolist(), found)


def _asks_something(load: Load) -> bool:
    return load.sessions > 0


def _first(load: Load, seed: int, index: int, count: int) -> Iterator[Ask]:
    for _, ask in zip(range(count), asks(load, seed, index), strict=False):
        yield ask


class Users:
    """Makes the operations arrive and writes down how they end. `chain` is the outermost layer."""

    def __init__(
        self, clockwork: Clockwork, chain: GenericLayer | Gateway, scenario: Scenario, arriving: Arrivals, units: Units
    ) -> None:
        self.rows = Operations(len(arriving.t_s))
        self.live = len(arriving.t_s)
        self.arrived = 0
        self._clockwork = clockwork
        self._chain = chain
        self._asks = arriving.asks
        self._count = len(arriving.t_s)
        self._t_s = arriving.t_s
        self._load = arriving.load
        # What all operations of one load entry share, and what returns the unit draw of its next one.
        loads = zip(scenario.load, units.next, strict=True)
        self._kinds = [(load.model, load.stream, unit) for load, unit in loads]
        self._inner_layers = max(0, len(scenario.layers) - 1)
        self._start = chain.start
        self._sessions: dict[str, int] = {}
        if arriving.t_s:
            clockwork.at(arriving.t_s[0], self._arrive)

    def _arrive(self, wake: Wake) -> None:
        index = self.arrived
        self.arrived = following = index + 1
        t_s, load = self._t_s[index], self._load[index]
        model, stream, unit = self._kinds[load]
        operation = Operation(index, load, model, t_s, unit())
        operation.stream = stream
        if self._inner_layers:
            operation.turns = [0] * self._inner_layers
        if self._asks is not None:
            self._ask(operation, self._asks[index])
        # Before the operation begins: at one moment arrivals come in their order, then what they lead to.
        if following < self._count:
            self._clockwork.again(self._t_s[following], wake)
        self._start(operation, t_s)

    def _ask(self, operation: Operation, ask: Ask) -> None:
        operation.session = ask.session
        operation.prompt_tokens = ask.prompt_tokens
        operation.output_tokens = ask.output_tokens
        if ask.session is not None:
            self.rows.session[operation.index] = self._sessions.setdefault(ask.session, len(self._sessions))

    def ended(self, operation: Operation, result: Result) -> None:
        """Write down how an operation ended."""
        rows, index, now_s = self.rows, operation.index, self._clockwork.monotonic()
        rows.t_end_s[index] = now_s
        rows.end[index] = result.end
        rows.status[index] = result.status
        if result.code:
            rows.code[index] = result.code
        self.live -= 1
        if result.end == OK_END:
            child = operation.child
            while child.__class__ is Call:
                child = child.child
            if isinstance(child, Attempt):
                rows.t_first_s[index] = child.first_token_s if operation.stream else now_s
        # Without their cycles operation and attempts are freed at once, and the collector of cycles has nothing to do.
        operation.child = None
        del operation.operation

    def late(self, attempt: Attempt) -> None:
        """Take the answer to an attempt that was given up: whoever still waits for the operation has it now."""
        operation: Operation | None = getattr(attempt.parent, "operation", None)
        if operation is None or not operation.live:
            return
        operation.live = False
        self._chain.leave_child(operation, self._clockwork.now)
        operation.child = attempt
        self.ended(operation, OK)

    def sessions(self) -> dict[str, int]:
        """Return the number of each session in the table."""
        return self._sessions
