"""Everything one router process is told at its start."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from router.core.config import ConfigError, RouterConfig
from router.core.topology import Pool
from router.credentials import Secret
from router.tls import PoolTls

PORT_MAX = 65_535
WORKERS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellConfig:
    """Knobs of the data path."""

    body_bytes_max: int = 64 * 2**20
    """Largest request body; a larger one is answered 413, early where its length is declared."""
    buffered_bytes_max: int = 2**30
    """Bytes of the bodies of all requests together, shared evenly by workers; one that does not fit is answered 503. A
    declared length counts from the start."""
    body_timeout_s: float = 120.0
    """Longest time in which a request's body must have come whole; else 408."""
    body_idle_timeout_s: float = 20.0
    """Longest silence between two pieces of a request's body; else 408."""
    head_timeout_s: float = 10.0
    """Longest time from the first byte of a request's head to its end; else 408."""
    keep_alive_timeout_s: float = 75.0
    """How long a client's idle connection is kept."""
    connections_max: int = 16_384
    """Connections of clients at one time, of each worker; one too many is answered 503 and closed."""
    reuse_idle_s: float = 4.0
    """How long an idle connection to a pool is kept for reuse; 0: never. Keep it below the pool's own idle time
    (uvicorn and vLLM close after 5 s), else requests run into connections that the pool is just closing."""
    models_timeout_s: float = 2.0
    """How long GET /v1/models waits for the pools; who is slower is left out."""
    drain_delay_s: float = 0.0
    """How long after SIGTERM new connections are still taken, while /readyz says 503 and every answer closes its
    connection: what a load balancer needs to look elsewhere."""
    drain_timeout_s: float = 60.0
    """How long running streams may go on after SIGTERM and the delay; a second signal ends them at once."""
    seed: int = -1
    """Seed of the random choices of routing, for runs that must repeat; negative: another one at each start."""
    metrics_prefix: str = "pooldrill_router"
    """What the names of all metrics begin with."""

    def __post_init__(self) -> None:
        if self.body_bytes_max < 1:
            raise ConfigError(f"body_bytes_max must be at least 1 byte, got {self.body_bytes_max}")
        if self.buffered_bytes_max < self.body_bytes_max:
            raise ConfigError(
                f"buffered_bytes_max must be at least body_bytes_max ({self.body_bytes_max}),"
                f" got {self.buffered_bytes_max}"
            )
        if self.connections_max < 1:
            raise ConfigError(f"connections_max must be at least 1, got {self.connections_max}")
        if not 0 <= self.drain_delay_s < float("inf"):
            raise ConfigError(f"drain_delay_s must be 0 or a positive number of seconds, got {self.drain_delay_s}")
        if not 0 <= self.reuse_idle_s < float("inf"):
            raise ConfigError(f"reuse_idle_s must be 0 or a positive number of seconds, got {self.reuse_idle_s}")
        for knob in fields(self):
            value = getattr(self, knob.name)
            if knob.name.endswith("_timeout_s") and not 0 < value < float("inf"):
                raise ConfigError(f"{knob.name} must be a positive number of seconds, got {value}")
        if not self.metrics_prefix.isascii() or not self.metrics_prefix.isidentifier():
            raise ConfigError(
                f"metrics_prefix must be letters, digits and underscores, no digit first, got {self.metrics_prefix!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One router: its pools, its knobs, and where it listens. Port 0: any free one."""

    pools: tuple[Pool, ...]
    tls: Mapping[str, PoolTls] = field(default_factory=dict)
    """How pools with https are spoken to, by name; the others are verified against the machine's authorities."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """The Authorization of the pools that have their own, by name."""
    rules: RouterConfig = field(default_factory=RouterConfig)
    shell: ShellConfig = field(default_factory=ShellConfig)
    host: str = "127.0.0.1"
    port: int = 0
    admin_port: int | None = None
    """Port of 127.0.0.1 for /metrics; None: no admin listener."""
    send_log: Path | None = None
    """File that gets a line for every send; None: no such log."""
    uvloop: bool = False
    """Whether the event loop is uvloop's."""
    workers: int = 1
    """Processes that share the port."""

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= WORKERS_MAX:
            raise ConfigError(f"workers must be from 1 to {WORKERS_MAX}, got {self.workers}")
        if self.workers > 1 and self.admin_port:
            last = self.admin_port + self.workers - 1
            if last > PORT_MAX or self.admin_port <= self.port <= last:
                raise ConfigError(
                    f"admin_port: each worker has its own, from {self.admin_port} to {last}; they must be ports and"
                    " none of them the public one"
                )
