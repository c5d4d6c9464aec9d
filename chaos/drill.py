"""A real run of a scenario, made again when the machine was too busy to prove anything."""

import asyncio
import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from chaos.claim import claim
from chaos.performance import Performance
from chaos.provision import Server, ensure_server
from chaos.routers import reference
from chaos.slots import slot
from scenarios.record import Record, record_path, write
from scenarios.spec import EXACT_MARGIN_S, Scenario

BUSY_RETRIES_MAX = 2
"""How often a run is made again because the machine was too busy."""
LAG_MAX_S = EXACT_MARGIN_S / 2
"""Loop lag above which the run of an exact scenario proves nothing."""


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
    for _ in range(1 + BUSY_RETRIES_MAX):
        with slot(), _first_error():
            record = asyncio.run(Performance(scenario, path.with_suffix(".logs"), router).run(server, command))
        reason = too_busy(record)
        if not reason:
            write(record, path)
            return record
    write(Record(msgspec.structs.replace(record.meta, invalid=reason), record.rows), path)
    tries = 1 + BUSY_RETRIES_MAX
    raise BusyError(f"{scenario.name}: {reason}; the same at each of {tries} tries; remedy: stop other work")


def too_busy(record: Record) -> str:
    """Say why the machine was too busy for this run; empty if it was not. Only exact scenarios have such a bound."""
    if not record.scenario.exact:
        return ""
    late = [s for s in record.samples if s.kind == "loop_lag_s" and s.t > 0 and s.value > LAG_MAX_S]
    if not late:
        return ""
    worst = max(late, key=lambda sample: sample.value)
    return f"machine too busy: {worst.source} was {worst.value:.3f} s late at {worst.t:.1f} s, at most {LAG_MAX_S:g} s"


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
