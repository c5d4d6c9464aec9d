"""The reference router, and whatever takes its command line, as the process under test."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scenarios.spec import Router

COMMAND = (sys.executable, "-P", "-m", "router")
"""How it is started. -P keeps modules of the working directory out of its way."""
METRICS_PREFIX = "pooldrill_router_"
READY_PATH = "/readyz"


@dataclass(frozen=True, slots=True)
class PoolAddresses:
    """A pool as the router is told of it: where its frontends listen, in their order."""

    id: str
    model: str
    urls: tuple[str, ...]


def arguments(
    knobs: Router, pools: Sequence[PoolAddresses], *, seed: int, port: int, admin_port: int, send_log: Path
) -> list[str]:
    """Return the arguments that follow the command."""
    options = {
        "--port": str(port),
        "--admin-port": str(admin_port),
        "--send-log": str(send_log),
        "--seed": str(seed),
        # The model opens a connection for each send: what befalls a reused one (cause stale) depends on which it is.
        "--reuse-idle-s": "0",
    }
    told = [part for option in options.items() for part in option]
    for name, value in knobs.decisions.items():
        told += _option(name.replace("_", "-"), value)
    for pool in pools:
        told += ["--pool", f"{pool.id}={','.join(pool.urls)};model={pool.model}"]
    return told


def _option(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]
