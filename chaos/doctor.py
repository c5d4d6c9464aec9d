"""Whether this machine can run drills: the machine itself, the guardian, and every fault made for real once.

A fault that is not what it says makes a drill worthless: "refused" that is accepted and then closed, a black hole that
answers after a second. So each is made against the real Toxiproxy server and a real frontend, and what a probe saw of
it is the finding.
"""

import asyncio
import itertools
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from chaos import machine
from chaos.faults.black_hole import BlackHole
from chaos.faults.cut import Cut
from chaos.faults.fault import Fault, FrontendMode, ProbeIds, Target
from chaos.faults.read_drop import ReadDrop
from chaos.faults.refused import Refused
from chaos.frontend.connection import Listener
from chaos.frontend.log import EventLog
from chaos.frontend.service import FrontendService
from chaos.machine import Finding
from chaos.ports import LOOPBACK, PortError, PortReservations
from chaos.processes import Children, ProcessError
from chaos.provision import SERVER_VERSION, ProvisionError, Server, find_server
from chaos.toxiproxy import Toxiproxy, ToxiproxyError
from scenarios.spec import Pool
from scenarios.world.condition import Condition

GONE_WAIT_S = 2.0
GONE_POLL_S = 0.01
CUT_AFTER_BYTES = 777
FAULTS: Mapping[str, Callable[[], Fault]] = {
    "refused": Refused,
    "black_hole": BlackHole,
    "read_drop": ReadDrop,
    "cut": lambda: Cut(CUT_AFTER_BYTES),
}
REMEDIES = {
    "children": "run where process groups work and orphans are reaped, as under an init process",
    "toxiproxy": "make setup",
    "refused": "free the loopback interface of packet filters and proxies",
    "black_hole": "free the loopback interface of packet filters; on Linux no root is needed",
    "read_drop": "report it with this line",
    "cut": "use the pinned Toxiproxy server",
}

_ORPHAN = """
import subprocess, sys
left = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
print("left", left.pid, flush=True)
"""
_KNOWN_ERRORS = (PortError, ProcessError, ProvisionError, ToxiproxyError, OSError)


async def examine() -> list[Finding]:
    """Examine this machine, in about three seconds. What is wrong with it is a finding, never an exception."""
    findings = [machine.versions(), machine.open_files(), machine.ephemeral_ports(), machine.free_ports()]
    findings.append(await machine.loop_lag())
    with tempfile.TemporaryDirectory(prefix="pooldrill-doctor-") as scratch:
        findings.append(await _finding("children", partial(_orphan, Path(scratch))))
        findings.extend(await faults(Path(scratch)))
    return findings


async def faults(scratch: Path, env: Mapping[str, str] = os.environ) -> list[Finding]:
    """Make and clear every fault once. Without a server each is a finding as well, since no drill can run."""
    try:
        server = await asyncio.to_thread(find_server, env)
        async with _target(server, scratch) as target:
            found = Finding("toxiproxy", ok=True, detail=f"{SERVER_VERSION}, {server}", remedy=REMEDIES["toxiproxy"])
            return [found, *[await _finding(name, partial(_rehearse, make(), target)) for name, make in FAULTS.items()]]
    except _KNOWN_ERRORS as error:
        missing = Finding("toxiproxy", ok=False, detail=str(error), remedy=REMEDIES["toxiproxy"])
        return [missing, *(Finding(name, ok=False, detail="not proved", remedy="see toxiproxy") for name in FAULTS)]


async def _finding(name: str, look: Callable[[], Awaitable[tuple[bool, str]]]) -> Finding:
    try:
        ok, detail = await look()
    except _KNOWN_ERRORS as error:
        ok, detail = False, str(error)
    return Finding(name, ok, detail, REMEDIES[name])


async def _rehearse(fault: Fault, target: Target) -> tuple[bool, str]:
    try:
        on = await fault.inject(target)
    finally:
        off = await fault.clear(target)
    return on.proved and off.proved, f"on: {on.detail}; off: {off.detail}"


@asynccontextmanager
async def _target(server: Server, scratch: Path) -> AsyncIterator[Target]:
    """A frontend in this process, behind a proxy of the real server."""
    numbers = itertools.count()

    def issue() -> ProbeIds:
        number = next(numbers)
        return ProbeIds(operation_id=f"doctor-{number}", request_id=f"doctor-{number}-r0")

    with PortReservations() as ports:
        port = ports.take()
        async with (
            _frontend(port, scratch / "frontend.jsonl") as frontend,
            Children(scratch / "toxiproxy") as children,
            await Toxiproxy.open(server, children=children, ports=ports) as toxiproxy,
        ):
            proxy = await toxiproxy.create("doctor", listen_port=ports.take(), upstream_port=port)
            yield Target("doctor", proxy, _DirectControl(frontend), issue)


@asynccontextmanager
async def _frontend(port: int, log_path: Path) -> AsyncIterator[FrontendService]:
    log = EventLog(log_path)
    clock = asyncio.get_running_loop().time
    frontend = FrontendService(Pool(id="doctor"), name="doctor-0", seed=0, log=log, clock=clock)
    listener = Listener(frontend)
    try:
        await listener.open(LOOPBACK, port)
        yield frontend
    finally:
        await listener.close()
        log.close()


class _DirectControl:
    """Control of a frontend in the same process."""

    def __init__(self, frontend: FrontendService) -> None:
        self._frontend = frontend

    async def set_mode(self, mode: FrontendMode) -> None:
        self._frontend.mode = mode

    async def set_condition(self, condition: Condition) -> None:
        self._frontend.set_condition(condition)


async def _orphan(scratch: Path) -> tuple[bool, str]:
    """Leave a child's child behind, as a crashed child would, end the run, and look for it."""
    async with Children(scratch / "children") as children:
        child = await children.start("parent", [sys.executable, "-S", "-c", _ORPHAN])
        pid = int((await child.ready_line("left")).split()[1])
        await child.stop()
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    while _lives(pid):
        if loop.time() > begin_s + GONE_WAIT_S:
            return False, f"an orphan of a child, pid {pid}, is still there after {GONE_WAIT_S:g} s"
        await asyncio.sleep(GONE_POLL_S)
    return True, f"an orphan of a child is gone {(loop.time() - begin_s) * 1e3:.0f} ms after the end"


def _lives(pid: int) -> bool:
    """Whether a process runs. One that is dead and waits to be reaped does not, where /proc can tell."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except OSError:  # no /proc, or it ended between the two
        return True
    return status.rpartition(")")[2].split()[0] != "Z"
