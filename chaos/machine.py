"""What drills ask of a machine: versions, open files, ports, and an event loop that is on time."""

import asyncio
import importlib.metadata
import platform
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from chaos import lag
from chaos.ports import PORT_MAX, PORT_MIN, PortError, PortReservations
from scenarios.fitness import LAG_MAX_S
from scenarios.record import Sample

LAG_WATCH_S = 1.0
OPEN_FILES_MIN = 1_024
PORTS_MIN = 64
PACKAGES = ("aiohttp", "openai", "simpy", "toxiproxy-python")
AIOHTTP_MIN = (3, 12)
"""From here on aiohttp sends not even a request's head before the first piece of its body is taken."""
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined: what was measured, and what to do about it if it is not as it should be."""

    name: str
    ok: bool
    detail: str
    remedy: str


def versions() -> Finding:
    """Versions of Python and of the packages that a run's behaviour depends on."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    detail = ", ".join([f"Python {platform.python_version()}", *(f"{name} {text}" for name, text in found.items())])
    aiohttp = tuple(int(part) for part in found["aiohttp"].split(".")[:2])
    needed = ".".join(str(part) for part in AIOHTTP_MIN)
    return Finding("versions", aiohttp >= AIOHTTP_MIN, detail, f"aiohttp {needed} or newer is needed: make setup")


def open_files() -> Finding:
    """How many files and sockets a process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    detail = f"{'unlimited' if unlimited else soft}, needed {OPEN_FILES_MIN}"
    return Finding("open_files", unlimited or soft >= OPEN_FILES_MIN, detail, "ulimit -n 4096")


def ephemeral_ports(setting: Path = EPHEMERAL_RANGE) -> Finding:
    """Whether outgoing connections are given ports that the proxies listen on. `setting` is where Linux tells."""
    remedy = f"sysctl net.ipv4.ip_local_port_range='{PORT_MAX + 1} 60999'"
    try:
        first = int(setting.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return Finding("ephemeral_ports", sys.platform != "linux", f"unknown: {setting} cannot be read", remedy)
    detail = f"from {first}; proxies listen from {PORT_MIN} to {PORT_MAX}"
    return Finding("ephemeral_ports", first > PORT_MAX, detail, remedy)


def free_ports() -> Finding:
    """Whether there are enough ports that the proxies can listen on."""
    remedy = "stop the servers or runs that hold them"
    with PortReservations() as ports:
        try:
            taken = [ports.take() for _ in range(PORTS_MIN)]
        except PortError as error:
            return Finding("free_ports", ok=False, detail=str(error), remedy=remedy)
    return Finding("free_ports", ok=True, detail=f"{PORTS_MIN} of {taken[0]}-{taken[-1]}", remedy=remedy)


async def loop_lag() -> Finding:
    """How late an event loop is on this machine now."""
    samples: list[Sample] = []
    watch = asyncio.create_task(lag.watch("doctor", samples.append))
    await asyncio.sleep(LAG_WATCH_S)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    worst_s = max(sample.value for sample in samples)
    detail = f"at most {worst_s * 1e3:.1f} ms in {LAG_WATCH_S:g} s; allowed {LAG_MAX_S * 1e3:g} ms"
    return Finding("loop_lag", worst_s <= LAG_MAX_S, detail, "stop what keeps the processors busy")
