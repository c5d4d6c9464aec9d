"""What is measured: the router, what it is held against, and the foreign routers that are found, each a process.

A foreign router is looked for on PATH, or where an environment variable says: BENCH_HAPROXY, BENCH_ENVOY,
BENCH_SGLANG_ROUTER, BENCH_VLLM_ROUTER. None is needed. Each gets one thread, as the router has one.
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
START_MAX_S = 30.0
STOP_MAX_S = 5.0
POLL_S = 0.1
IN_FLIGHT_MAX = 20_000
"""Sends under way at one pool; none of the loads comes near."""


class CannotMeasureError(RuntimeError):
    """Something is missing here; one line."""


class Subject:
    """A process that is measured from outside; Linux only."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.name = name
        self.port = port
        self._process = process

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process, all its threads included, to the nanosecond."""
        # The kernel's number for the CPU clock of a process, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime((~self._process.pid << 3) | 2)

    @property
    def memory_bytes(self) -> int:
        """Resident memory."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()


@contextmanager
def started(name: str, folder: Path, command: list[str], port: int | None = None) -> Iterator[Subject]:
    """Run a program and end it. Without `port` it is one of ours and says in its first line where it listens."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT if port is None else folder,
            stdout=subprocess.PIPE if port is None else out,
            stderr=out,
            env={**os.environ, "TOKIO_WORKER_THREADS": "1"},
        )
    try:
        yield Subject(name, process, _port_said(process, log) if port is None else _answering(process, port, log))
    finally:
        process.terminate()
        try:
            process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def ours(module: str, *arguments: str) -> list[str]:
    """Return the command of one of our modules."""
    return [sys.executable, "-m", module, *arguments]


def router(pool_port: int) -> list[str]:
    """Return the command of the router, as it is set by default."""
    pool = f"a=http://{LOOPBACK}:{pool_port}"
    return ours("router", "--port", "0", "--pool", pool, "--in-flight-max", str(IN_FLIGHT_MAX))


def foreign_routers(pool_port: int, folder: Path) -> dict[str, tuple[list[str], int] | None]:
    """Return the command and the port of every foreign router; None: it was not found."""
    return {
        name: None
        if (program := os.environ.get(variable) or shutil.which(name)) is None
        else _command(name, program, pool_port, folder)
        for name, variable in (
            ("haproxy", "BENCH_HAPROXY"),
            ("envoy", "BENCH_ENVOY"),
            ("sglang-router", "BENCH_SGLANG_ROUTER"),
            ("vllm-router", "BENCH_VLLM_ROUTER"),
        )
    }


def _command(name: str, program: str, pool_port: int, folder: Path) -> tuple[list[str], int]:
    port = _free_port()
    if name in {"haproxy", "envoy"}:
        config = folder / f"{name}.{'cfg' if name == 'haproxy' else 'yaml'}"
        config.write_text((_HAPROXY if name == "haproxy" else _ENVOY).format(port=port, pool_port=pool_port))
        if name == "haproxy":
            return [program, "-db", "-f", str(config)], port
        return [program, "-c", str(config), "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"], port
    launch = ["launch"] if name == "sglang-router" else []
    listen = ["--host", LOOPBACK, "--port", str(port), "--prometheus-host", LOOPBACK]
    return [
        program, *launch, *listen, "--prometheus-port", str(_free_port()), "--policy", "round_robin",
        "--log-level", "error", "--worker-urls", f"http://{LOOPBACK}:{pool_port}",
    ], port  # fmt: skip


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _port_said(process: "subprocess.Popen[bytes]", log: Path) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise CannotMeasureError(_not_started(log))
    said = json.loads(line)
    return said if isinstance(said, int) else int(said["url"].rpartition(":")[2])


def _answering(process: "subprocess.Popen[bytes]", port: int, log: Path) -> int:
    """Wait until a request comes through."""
    opener = build_opener(ProxyHandler({}))
    body = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
    asked = Request(f"http://{LOOPBACK}:{port}/v1/chat/completions", body, {"Content-Type": "application/json"})
    give_up_s = time.monotonic() + START_MAX_S
    while process.poll() is None and time.monotonic() < give_up_s:
        try:
            with opener.open(asked, timeout=START_MAX_S):
                return port
        except OSError:
            time.sleep(POLL_S)
    raise CannotMeasureError(_not_started(log))


def _not_started(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"{log.stem} has not started: {lines[-1] if lines else 'it said nothing'}"


_HAPROXY = """\
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    option redispatch 1
    retry-on conn-failure
    http-reuse safe
frontend public
    bind 127.0.0.1:{port}
    default_backend pools
backend pools
    server a 127.0.0.1:{pool_port}
"""
_ENVOY = """\
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: public
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: "/"}}
                route: {{cluster: pools, timeout: 600s, retry_policy: {{retry_on: connect-failure}}}}
  clusters:
  - name: pools
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_requests: 20000, max_pending_requests: 20000}}]}}
    load_assignment:
      cluster_name: pools
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {pool_port}}}}}}}
"""
