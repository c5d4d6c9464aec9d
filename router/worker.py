"""What a worker process has from its supervisor, and what of the settings is its own."""

import os
import secrets
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from router.settings import Settings


def own_name() -> str:
    """Return a name for a router, another one at each start."""
    return f"pooldrill-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One of `count` processes that share a port; `index` is from 0 on."""

    index: int
    count: int
    name: str
    """What all of them call themselves, so that a request that comes back to another of them is recognised."""
    port: int
    """The shared port, chosen by the supervisor where any was asked for."""
    lifeline: int
    """File descriptor that is closed at the other end when the supervisor is gone."""
    ready: int
    """File descriptor that takes one line when this worker listens."""

    def settings(self, shared: Settings) -> Settings:
        """Return this worker's own: its admin port and send log are its alone, and so are its random choices."""
        log, seed = shared.send_log, shared.shell.seed
        return replace(
            shared,
            port=self.port,
            admin_port=shared.admin_port + self.index if shared.admin_port else shared.admin_port,
            send_log=None if log is None else log.with_name(f"{log.name}.{self.index}"),
            shell=shared.shell if seed < 0 else replace(shared.shell, seed=seed + self.index),
        )

    def say_ready(self, line: dict[str, Any]) -> None:
        """Tell the supervisor that this worker listens."""
        with os.fdopen(self.ready, "wb") as out:
            out.write(msgspec.json.encode(line) + b"\n")
