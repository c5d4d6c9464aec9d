"""Small scenarios for the model, and a run of one told as a story that a test can compare whole."""

from pathlib import Path
from typing import Any

from scenarios.record import Record
from scenarios.spec import Expect, Fault, Load, Pool, Router, Scenario, Service
from simulator.run import run

SERVICE = Service(first_token_s=0.1, token_gap_s=0.05, tokens=4)


def fault(
    kind: str, pool: str = "a", *, at: tuple[float, float] = (1.0, 3.0), after_events: int | None = None
) -> Fault:
    return Fault(kind=kind, pool=pool, inject_s=at[0], clear_s=at[1], after_events=after_events)  # type: ignore[arg-type] # checked by the loader, not by Struct


def load(*, start_s: float = 1.5, count: int = 1, rate_rps: float = 1.0, **fields: Any) -> Load:
    """Return `count` operations, the first at `start_s`."""
    return Load(rate_rps=rate_rps, start_s=start_s, end_s=start_s + count / rate_rps, **fields)


def drill(
    *faults: Fault,
    load: Load | tuple[Load, ...],
    pools: tuple[Pool, ...] | None = None,
    router: Router | None = None,
    seed: int = 1,
    duration_s: float = 6.0,
) -> Scenario:
    """Return a scenario of pools a and b, one frontend each, unless others are given."""
    return Scenario(
        name="drill",
        title="A drill of the model",
        seed=seed,
        duration_s=duration_s,
        pools=pools or (Pool(id="a", service=SERVICE), Pool(id="b", service=SERVICE)),
        load=load if isinstance(load, tuple) else (load,),
        faults=faults,
        router=router or Router(connect_timeout_s=0.5, cooldown=False),
        expect=Expect(answers={"200": (0, 1_000_000)}),
    )


def story(scenario: Scenario, out: Path) -> str:
    """Run a scenario and tell everything that happened, a line each: time in milliseconds, who, what."""
    return "\n".join(told(run(scenario, out)))


def told(record: Record) -> list[str]:
    lines: list[tuple[float, str]] = []
    for fault in record.faults:
        lines += [(fault.t_inject or 0.0, f"{fault.target} {fault.name} comes")]
        lines += [(fault.t_clear or 0.0, f"{fault.target} {fault.name} goes: {fault.proof}")]
    for request in record.requests:
        lines.append((request.t_start, f"{request.request_id} asks"))
        lines.append((request.t_end, f"{request.request_id} got {_got(request)}"))
    for send in record.sends:
        lines.append((send.t_start, f"{send.request_id} send {send.attempt} to {send.frontend}"))
        outcome = " ".join(str(part) for part in (send.delivery, send.status, send.cause) if part is not None)
        lines.append((send.t_end, f"{send.request_id} send {send.attempt} {outcome}"))
    for event in record.pool_events:
        tokens = "" if event.tokens is None else f" {event.tokens} tokens"
        lines.append((event.t, f"{event.frontend} {event.kind} {event.request_id}{tokens}"))
    for operation in record.operations:
        raised = f" {operation.error}" if operation.error else ""
        lines.append((operation.t_end, f"{operation.operation_id} {'ok' if operation.ok else 'failed'}{raised}"))
    return [f"{t * 1000:.1f} {text}" for t, text in sorted(lines, key=lambda line: line[0])]


def _got(request: Any) -> str:
    claims = f"{request.delivery} by {request.pool} after {request.sends}" if request.delivery else "nothing"
    events = f", {request.events} events" if request.stream else ""
    return f"{request.answer}{events} ({claims})"
