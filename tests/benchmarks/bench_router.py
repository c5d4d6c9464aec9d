"""What the router costs and adds, against what it could cost: python -m tests.benchmarks.bench_router [--quick].

Everything is a process of its own on loopback. Each round measures every subject with the same load: requests one after
the other, in another order each time, and streams all at the same time. What counts are ratios within a round, since a
busy machine moves both sides of them; absolute figures are shown for orientation. Exit code 1: a bound is missed by
more than the noise, that is in more than three rounds of four. 3: not measurable here.
"""

import argparse
import asyncio
import os
import platform
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.load import BadAnswerError, Stream, ask, streams
from tests.benchmarks.subjects import CannotMeasureError, Subject, foreign_routers, ours, router, started

ROUTER, RELAY, DRIVER = "router", "relay", "driver"
EXPLAINED = {
    ROUTER: "this router, default settings",
    RELAY: "aiohttp's server and ClientSession, nothing else",
    DRIVER: "this router's driver without slot, generator and deadline",
}
CONNECTIONS = 16
INTERVAL_MS = 25
"""Pause between two events of a stream; 40 tokens a second."""
SLOW_INTERVAL_MS = 10_000
EVENTS_MANY = 1_000_000
BURSTS = 4
SETTLE_S = 0.5

PER_REQUEST_OF_RELAY_MAX = 1.3
PER_TOKEN_OF_RELAY_MAX = 1.25
PER_REQUEST_OF_DRIVER_MAX = 1.25
PER_TOKEN_OF_DRIVER_MAX = 1.02
ADDED_MS_MAX = 0.5
OPEN_STREAMS_MB_MAX = 350.0
GROWTH_MB_MAX = 4.0
STRETCH_S_PER_1000 = 0.09
STRETCH_US_PER_TOKEN = 20.0
MEGABYTE = 10**6
COLUMNS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured. `open_streams` and `tiny_events` are for the memory's figures."""

    rounds: int
    requests: int
    requests_alone: int
    streams: int
    streaming_s: float
    open_streams: int = 9_000
    tiny_events: int = EVENTS_MANY


FULL = Effort(rounds=11, requests=3_200, requests_alone=500, streams=40, streaming_s=5.0)
QUICK = Effort(rounds=5, requests=1_600, requests_alone=200, streams=40, streaming_s=2.0)


@dataclass(slots=True)
class Series:
    """One subject's figures, one of each kind a round."""

    s_per_1000: list[float] = field(default_factory=list)
    """CPU seconds of 1000 requests."""
    us_per_token: list[float] = field(default_factory=list)
    added_ms: list[float] = field(default_factory=list)
    """Median latency of requests one after the other, above that of the same requests straight to the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory of the router in megabytes."""

    idle_mb: float
    open_streams: int
    refused: int
    open_mb: float
    growth_mb: float
    """From a tenth of the tiny events to all of them."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A bound and what was measured, a value a round."""

    what: str
    bound: float
    values: Sequence[float]
    stretch: bool = False

    @property
    def missed(self) -> bool:
        """Tell whether it is missed by more than the noise."""
        return quantile(self.values, 0.25) > self.bound

    @property
    def mark(self) -> str:
        """Say how it stands in a word."""
        if statistics.median(self.values) <= self.bound:
            return "pass"
        if not self.missed:
            return "noise"  # the median is above, but not by more than the rounds differ
        return "not yet" if self.stretch else "MISSED"


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which the share of values lies, in straight lines between them."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


# --- measuring ------------------------------------------------------------------------------------------------------


async def measure_requests(subject: Subject, series: Series, direct_ms: float, effort: Effort) -> None:
    """Add one figure of requests and one of latency."""
    begin_s = subject.cpu_s
    await ask(subject.port, count=effort.requests, connections=CONNECTIONS)
    series.s_per_1000.append((subject.cpu_s - begin_s) / effort.requests * 1000)
    series.added_ms.append(await median_ms(subject.port, effort) - direct_ms)


async def measure_tokens(subjects: list[Subject], found: dict[str, Series], effort: Effort) -> None:
    """Add one figure of tokens to each: all at the same time, so that whatever else the machine does befalls all."""
    word = f"paced-{INTERVAL_MS}-{int(effort.streaming_s * 1000 / INTERVAL_MS) * 100}"  # more than will be read
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(streams(each.port, word, effort.streams)) for each in subjects]
        for subject, some in zip(subjects, opened, strict=True):
            if len(some) < effort.streams:
                raise BadAnswerError(f"{subject.name} has refused {effort.streams - len(some)} streams")
        await asyncio.sleep(SETTLE_S)
        begun = [(each.cpu_s, events_of(some)) for each, some in zip(subjects, opened, strict=True)]
        await asyncio.sleep(effort.streaming_s)
        for subject, some, (begin_s, events) in zip(subjects, opened, begun, strict=True):
            spent_s, read = subject.cpu_s - begin_s, events_of(some) - events
            found[subject.name].us_per_token.append(spent_s / read * 1e6)
    await asyncio.sleep(SETTLE_S / 5)  # what was cut is cleared away before the next is measured


def events_of(opened: Sequence[Stream]) -> int:
    """Count what has come of streams."""
    return sum(stream.events for stream in opened)


async def median_ms(port: int, effort: Effort) -> float:
    """Return the median latency of requests one after the other."""
    return statistics.median(await ask(port, count=effort.requests_alone, connections=1)) * 1000


async def measure_rounds(subjects: list[Subject], pool_port: int, effort: Effort) -> dict[str, Series]:
    """Measure every subject in every round."""
    found = {subject.name: Series() for subject in subjects}
    for subject in subjects:
        await ask(subject.port, count=500, connections=CONNECTIONS)  # warm
    for number in range(effort.rounds):
        turn = number % len(subjects)
        for subject in subjects[turn:] + subjects[:turn]:
            await measure_requests(subject, found[subject.name], await median_ms(pool_port, effort), effort)
        await measure_tokens(subjects[turn:] + subjects[:turn], found, effort)
        tell(f"round {number + 1} of {effort.rounds}")
    return found


async def measure_memory(subject: Subject, effort: Effort) -> Memory:
    """Measure a router that has just started."""
    await ask(subject.port, count=500, connections=CONNECTIONS)
    idle_bytes = subject.memory_bytes
    growth_bytes = await growth(subject, effort.tiny_events)
    tell(f"{effort.tiny_events} tiny events")
    count = min(effort.open_streams, streams_possible())
    async with streams(subject.port, f"paced-{SLOW_INTERVAL_MS}-1000", count) as opened:
        await asyncio.sleep(SETTLE_S)
        open_bytes = subject.memory_bytes
    tell(f"{count} open streams")
    return Memory(
        idle_mb=idle_bytes / MEGABYTE,
        open_streams=count,
        refused=count - len(opened),
        open_mb=open_bytes / MEGABYTE,
        growth_mb=growth_bytes / MEGABYTE,
    )


async def growth(subject: Subject, events: int) -> int:
    """Return by how many bytes the router has grown from a tenth of so many tiny events to all of them."""
    async with streams(subject.port, f"burst-0-{events // BURSTS}", BURSTS) as opened:
        while events_of(opened) < events // 10:  # noqa: ASYNC110  (nobody would set an event)
            await asyncio.sleep(0.01)
        begin_bytes = subject.memory_bytes
        await asyncio.gather(*(stream.ended for stream in opened))
        return subject.memory_bytes - begin_bytes


def streams_possible() -> int:
    """Return how many streams the limit of descriptors allows; each takes two of the router."""
    return (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 500) // 2


def raise_descriptors() -> None:
    """Use all descriptors that this process may; its children inherit that."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def measure(effort: Effort, folder: Path) -> tuple[dict[str, Series], Memory, dict[str, str]]:
    """Measure everything; returns the figures, and why which foreign router has none. Raises CannotMeasureError."""
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        pool = stack.enter_context(started("pool", folder, ours("tests.benchmarks.fixed_pool")))
        subjects = [
            stack.enter_context(started(ROUTER, folder, router(pool.port))),
            stack.enter_context(started(RELAY, folder, ours("tests.benchmarks.relay", str(pool.port)))),
            stack.enter_context(started(DRIVER, folder, ours("tests.benchmarks.driver_without_rule", str(pool.port)))),
        ]
        for name, how in foreign_routers(pool.port, folder).items():
            if how is None:
                missing[name] = "not found"
                continue
            try:
                subjects.append(stack.enter_context(started(name, folder, *how)))
            except CannotMeasureError as error:
                missing[name] = str(error)
        found = await measure_rounds(subjects, pool.port, effort)
    with ExitStack() as stack:
        pool = stack.enter_context(started("pool", folder, ours("tests.benchmarks.fixed_pool")))
        memory = await measure_memory(stack.enter_context(started(ROUTER, folder, router(pool.port))), effort)
    return found, memory, missing


# --- telling --------------------------------------------------------------------------------------------------------


def gates(found: dict[str, Series], memory: Memory) -> list[Gate]:
    """Return every bound with what was measured."""
    mine, relay, driver = found[ROUTER], found[RELAY], found[DRIVER]
    sglang = found.get("sglang-router")
    some = [
        Gate("CPU per request / relay", PER_REQUEST_OF_RELAY_MAX, ratios(mine.s_per_1000, relay.s_per_1000)),
        Gate("CPU per token / relay", PER_TOKEN_OF_RELAY_MAX, ratios(mine.us_per_token, relay.us_per_token)),
        Gate("CPU per request / driver", PER_REQUEST_OF_DRIVER_MAX, ratios(mine.s_per_1000, driver.s_per_1000)),
        Gate("CPU per token / driver", PER_TOKEN_OF_DRIVER_MAX, ratios(mine.us_per_token, driver.us_per_token)),
        Gate("added median latency, ms", ADDED_MS_MAX, mine.added_ms),
        Gate(f"MB with {memory.open_streams} open streams", OPEN_STREAMS_MB_MAX, [memory.open_mb]),
        Gate("of them refused", 0, [memory.refused]),
        Gate("MB grown over tiny events", GROWTH_MB_MAX, [memory.growth_mb]),
    ]
    if sglang is None:
        some.append(Gate("CPU s per 1000 requests", STRETCH_S_PER_1000, mine.s_per_1000, stretch=True))
    else:
        of_sglang = ratios(mine.s_per_1000, sglang.s_per_1000)
        some.append(Gate("CPU per request / sglang-router", 1.0, of_sglang, stretch=True))
    some.append(Gate("CPU us per token", STRETCH_US_PER_TOKEN, mine.us_per_token, stretch=True))
    return some


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the ratio of every round."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def report(found: dict[str, Series], memory: Memory, missing: dict[str, str]) -> list[str]:
    """Return the tables, at most COLUMNS wide."""
    lines = [f"{'':14}{'CPU s/1000 requests':>22}{'CPU us/token':>22}{'added median ms':>22}"]
    for name, series in found.items():
        cells = (spread(series.s_per_1000, 3), spread(series.us_per_token, 1), spread(series.added_ms, 2))
        lines.append(f"{name:14}{''.join(f'{cell:>22}' for cell in cells)}")
    lines += [f"{name:14}   {why}"[:COLUMNS] for name, why in missing.items()]
    lines += ["Medians; in brackets the middle half of the rounds.", ""]
    lines += [f"{name:14}{what}" for name, what in EXPLAINED.items()]
    lines += ["", f"{'':38}{'at most':>9}{'measured':>23}"]
    lines += [_row(gate) for gate in gates(found, memory)]
    lines.append(f"Idle, the router has {memory.idle_mb:.0f} MB.")
    return lines


def _row(gate: Gate) -> str:
    what = f"{gate.what}{' (goal)' if gate.stretch else ''}"
    return f"{what:38}{gate.bound:9g}{spread(gate.values, 3 if max(gate.values) < 10 else 1):>23}  {gate.mark}"


def spread(values: Sequence[float], digits: int) -> str:
    """Say the median and, of several values, between which the middle half lies."""
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({quantile(values, 0.25):.{digits}f}-{quantile(values, 0.75):.{digits}f})"


def tell(what: str) -> None:
    """Say how far it is, where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r{what:40}", end="", file=sys.stderr, flush=True)


def machine() -> str:
    """Say what this runs on; a high load says that others use it too."""
    load = os.getloadavg()[0]
    return f"{platform.system()}, {os.cpu_count()} cores, load {load:.1f}, CPython {platform.python_version()}"


def main(argv: list[str]) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench_router", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under a minute, less exact")
    effort = QUICK if parser.parse_args(argv).quick else FULL
    if sys.platform != "linux":
        print("CPU and memory of other processes: not available on this system, only on Linux", file=sys.stderr)
        return 3
    raise_descriptors()
    print(machine())
    try:
        with tempfile.TemporaryDirectory() as folder:
            found, memory, missing = asyncio.run(measure(effort, Path(folder)))
    except CannotMeasureError as error:
        print(error, file=sys.stderr)
        return 3
    except BadAnswerError as error:
        print(error, file=sys.stderr)
        return 1
    tell("")
    print("\n".join(report(found, memory, missing)))
    if memory.open_streams < effort.open_streams:
        print(f"only {memory.open_streams} streams: the limit of descriptors (ulimit -Hn) allows no more")
    missed = [gate.what for gate in gates(found, memory) if gate.missed and not gate.stretch]
    if missed:
        print(f"missed: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
