"""A real run of a scenario, made again when the machine was too busy to prove anything."""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from chaos.claim import claim
from chaos.performance import Performance
from chaos.provision import Server, ensure_server
from chaos.routers import reference
from chaos.slots import slot
from scenarios.fitness import LAG_MAX_S, too_busy
from scenarios.record import Record, Sample, record_path, write
from scenarios.spec import Scenario

BUSY_RETRIES_MAX = 2
"""How often a run is made again because the machine was too busy."""


class BusyError(RuntimeError):
    """The machine was too busy at every try."""

    exit_code: ClassVar[int] = 3


def run(scenario: Scenario, out: Path, *, router_command: Sequence[str] | None = None) -> Record:
    """Run a scenario for real, write its record to OUT/NAME.real.jsonl, and return it. For the main thread.

    `router_command` begins the argv of another router, one that takes the reference router's options. The logs of all
    processes stay in OUT/NAME.real.logs. Raises BusyError (its last record is written, marked invalid), ClaimError
    where another run writes to the same place, OSError where `out` cannot be written, and errors of the parts; all but
    OSError carry an `exit_code`.
    """
    server = ensure_server()
    path = record_path(out, scenario.name, "real")
    with claim(path.with_suffix("")):
        return _run(scenario, path, server, router_command)


def _run(scenario: Scenario, path: Path, server: Server, router_command: Sequence[str] | None) -> Record:
    command = tuple(reference.COMMAND if router_command is None else router_command)
    router = "reference" if router_command is None else shlex.join(command)
    tries_max = 1 + BUSY_RETRIES_MAX
    for tries in range(1, tries_max + 1):
        with slot(), _first_error():
            record = asyncio.run(Performance(scenario, path.with_suffix(".logs"), router).run(server, command))
        reason = too_busy(record)
        record = Record(msgspec.structs.replace(record.meta, invalid=reason, tries=tries), record.rows)
        if not reason:
            break
        if tries < tries_max:
            _tell(f"{scenario.name}: {reason}; try {tries + 1} of {tries_max}")
    write(record, path)
    if reason:
        raise BusyError(f"{scenario.name}: {reason}; the same at each of {tries_max} tries; remedy: stop other work")
    if (late := latest(record)) is not None and late.value > LAG_MAX_S:
        told = f"{late.source} was {late.value:.3f} s late at {late.t:.1f} s"
        _tell(f"{scenario.name}: {told}; counted all the same, since the scenario is not exact")
    return record


def latest(record: Record) -> Sample | None:
    """Return the worst lateness of an event loop since the run's start."""
    lags = (sample for sample in record.samples if sample.kind == "loop_lag_s" and sample.t > 0)
    return max(lags, key=lambda sample: sample.value, default=None)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def _first_error() -> Iterator[None]:
    """Raise the first error of a group by itself: the others are its consequences, or say the same."""
    try:
        yield
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from group
