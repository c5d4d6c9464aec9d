"""Findings about pools: their load, their queues, and what is left when one is lost."""

import math
from collections import defaultdict
from collections.abc import Iterator

from scenarios.static.figures import Figures
from scenarios.static.finding import Finding
from scenarios.static.numbers import count, percent, seconds
from scenarios.static.stack import Stack, Station
from scenarios.theory.queueing import queue_bound

BUSY = 0.9
"""Utilisation above which queues grow long before anything fails."""


def on_pools(stack: Stack, figures: Figures) -> Iterator[Finding]:
    """Yield what is wrong with the pools."""
    yield from _load(stack, figures)
    yield from _queues(stack)
    yield from _one_lost(stack, figures)


def _load(stack: Stack, figures: Figures) -> Iterator[Finding]:
    if figures.utilisation is None or stack.rate_rps is None or stack.capacity_rps is None:
        return
    loaded = f"{count(stack.rate_rps)}/s of {count(stack.capacity_rps)}/s"
    if figures.utilisation >= 1:
        yield Finding(
            severity="error",
            check="overloaded_anyway",
            at="",
            number=figures.utilisation,
            unit="utilisation",
            what=f"{loaded} is {percent(figures.utilisation)}: too much without any fault",
            why="Queues grow as long as the load lasts, whatever the retries do.",
            turn="slots or frontends of the pools, or less load",
        )
    elif figures.utilisation >= figures.safe_utilisation and figures.entries_mean_max > 1:
        yield _may_collapse(stack, figures, loaded)


def _may_collapse(stack: Stack, figures: Figures, loaded: str) -> Finding:
    exposed = [station for station in stack.used if _is_exposed(station, stack)]
    sends = count(figures.entries_mean_max)
    why = (
        f"Clients give up and send again, pools work on for those who left: up to {sends} sends an operation. Once a "
        "queue is longer than clients wait, it can stay so after the fault has gone."
    )
    if any(station.assumed for station in exposed):
        why = f"If the pools finish what nobody waits for any more: {why[0].lower()}{why[1:]}"
    if not exposed:
        why = "Retries alone would overload the pools; a short queue, LIFO or cancelled work keeps answers in time."
    return Finding(
        severity="error" if exposed else "note",
        check="safe_utilisation",
        at=", ".join(station.id for station in exposed),
        number=figures.utilisation,
        unit="utilisation",
        what=f"{loaded} is {percent(figures.utilisation or 0)}; recovery is certain below "
        f"{percent(figures.safe_utilisation)}",
        why=why,
        turn="fewer attempts (retries, chain_cap, budget), or queue_max below what clients wait for, or cancel = "
        '"service", or order = "lifo"'
        if exposed
        else "nothing, as long as that stays",
    )


def _is_exposed(station: Station, stack: Stack) -> bool:
    """Tell whether a pool can be busy with nothing but work that nobody waits for any more."""
    if station.newest_first or not station.finishes_orphans:
        return False
    bound = math.inf if station.capacity_rps is None else queue_bound(station.capacity_rps, stack.patience_s)
    return station.queue_max is None or station.queue_max >= bound


def _queues(stack: Stack) -> Iterator[Finding]:
    """Yield one finding for all pools that are alike."""
    alike: dict[tuple[float, int | None], list[str]] = defaultdict(list)
    for station in stack.used:
        if station.capacity_rps is not None and not station.assumed and _is_exposed(station, stack):
            alike[station.capacity_rps, station.queue_max].append(station.id)
    if math.isfinite(stack.patience_s):
        for (capacity_rps, queue_max), names in alike.items():
            yield _queue(", ".join(names), capacity_rps, queue_max, stack.patience_s)


def _queue(names: str, capacity_rps: float, queue_max: int | None, patience_s: float) -> Finding:
    holds = "has no bound"
    if queue_max is not None:
        holds = f"holds {queue_max}, {seconds(queue_max / capacity_rps)} of work"
    half = max(1, math.floor(queue_bound(capacity_rps, patience_s) / 2))
    return Finding(
        severity="warning" if queue_max is None else "error",
        check="queue_bound",
        at=names,
        number=queue_max,
        unit="requests",
        what=f"the queue {holds}; clients wait {seconds(patience_s)}",
        why=f"A first-in-first-out queue of mu x T = {count(capacity_rps)}/s x {seconds(patience_s)} or more serves"
        " only those who have already left.",
        turn=f'queue_max = {half} (half of mu x T), or order = "lifo", or cancel = "service"',
    )


def _one_lost(stack: Stack, figures: Figures) -> Iterator[Finding]:
    if len(stack.stations) == 1:
        yield Finding(
            severity="warning",
            check="one_pool_lost",
            at=stack.stations[0].id,
            number=1.0,
            unit="pools",
            what="it is the only pool",
            why="When it is lost there is nowhere to go; retries then only wait.",
            turn="a second pool",
        )
        return
    idle = ", ".join(station.id for station in stack.stations if not station.used)
    if idle:
        yield Finding(
            severity="warning",
            check="one_pool_lost",
            at=", ".join(station.id for station in stack.used),
            number=float(len(stack.used)),
            unit="pools",
            what=f"all is sent there and sent again there, nothing to {idle}",
            why="When it is lost the others stand idle, and retries only wait.",
            turn=f'pools = "other" in {stack.stages[-1].name}',
        )
        return
    lost = figures.utilisation_one_lost
    if lost is None or lost < BUSY:
        return
    yield Finding(
        severity="error" if lost >= 1 else "warning",
        check="one_pool_lost",
        at="",
        number=lost,
        unit="utilisation",
        what=f"with the largest pool lost the others run at {percent(lost)}",
        why="Failover moves the load, it does not remove it: the backup melts next."
        if lost >= 1
        else "There is little left for retries and for bursts.",
        turn="more capacity in each pool, or shed load: the others hold at "
        f"{count((stack.rate_rps or 0) * BUSY / lost)}/s ({percent(BUSY)})",
    )
