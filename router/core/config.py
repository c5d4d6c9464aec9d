"""Every knob of the router's decisions, with its unit, its default and its limits."""

from dataclasses import dataclass, fields
from enum import StrEnum

from router.core.budgets.kinds import check_budget
from router.core.budgets.retry_budget import BudgetError
from router.core.chain import WhenUnknown


class ConfigError(ValueError):
    """A knob has an impossible value; the text names the knob and the remedy."""


class Selection(StrEnum):
    """Who takes a send, among those who could."""

    ROUND_ROBIN = "round_robin"
    LEAST_IN_FLIGHT = "least_in_flight"
    POWER_OF_TWO_CHOICES = "power_of_two_choices"
    PRIMARY_BACKUP = "primary_backup"


class FailBack(StrEnum):
    """How traffic returns to the configured primary once it is usable again."""

    MANUAL = "manual"
    AUTOMATIC = "automatic"


class QueueOrder(StrEnum):
    """Who of those that wait is served next."""

    FIFO = "fifo"
    LIFO = "lifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterConfig:
    """Knobs of the decisions. Times are seconds."""

    connect_timeout_s: float = 5.0
    """Bound on one connect: name lookup, every address, and TLS together."""
    connect_slow_s: float = 0.0
    """A connect that takes longer is suspect: a frontend with one gets no more sends, and only one at a time is waited
    for longer. 0: a twentieth of the connect time-out, at most 0.25. Raise it for pools far away behind TLS."""
    upload_timeout_s: float = 60.0
    """How long a pool may take nothing of a request that is being sent to it; 0: for ever."""
    first_byte_timeout_s: float = 600.0
    """How long a pool that has the whole request may take until its answer begins; 0: until the deadline."""
    idle_timeout_s: float = 300.0
    """Longest silence between two pieces of an answer."""
    total_timeout_s: float = 0.0
    """Bound on one send, from its hand-over to the last byte of its answer; 0: none but the deadline."""
    deadline_s: float = 3600.0
    """Bound on a whole request, from its arrival to the last byte of its answer. A client may lower it."""

    patience_s: float = 2.0
    """How long a request waits while nothing is usable."""
    queue_bytes_max: int = 256 * 2**20
    """Bytes of the bodies of all requests that wait."""
    queue_max: int = 256
    """Requests that wait at one time; 0: none ever waits."""
    queue_order: QueueOrder = QueueOrder.FIFO
    """Who of those that wait is served next; with lifo the one that came first gives way when the queue is full."""
    in_flight_max: int = 1024
    """Sends under way at one pool, running streams included."""
    retry_after_min_s: float = 1.0
    """Shortest time after which a refused client is told to come back."""
    retry_after_spread_s: float = 5.0
    """Clients that are refused together are told to come back spread over so many seconds."""

    selection: Selection = Selection.ROUND_ROBIN
    """Who takes a send, among those who could."""
    failure_memory: int = 10
    """After a failed send a low count in flight is no merit of a frontend until so many good ones: it gets its turn."""

    primary: str = ""
    """The pool that primary_backup prefers; empty: the first by name."""
    switch_on_timeout: bool = True
    """Whether one time-out after hand-over at the active pool sends later requests to the backup."""
    fail_back: FailBack = FailBack.MANUAL
    """How traffic returns to the primary once it is usable again."""
    fail_back_hold_s: float = 60.0
    """How long the primary must have been usable before an automatic return."""

    session_header: str = "x-session-id"
    """The request header by which requests of one session are recognised; they prefer one pool."""
    session_idle_s: float = 600.0
    """A session without a request for so long is forgotten."""
    sessions_max: int = 10_000
    """Sessions remembered; the one that was idle longest is forgotten first."""

    cooldown: bool = True
    """Whether a frontend that fails is benched for later requests."""
    cooldown_failures: int = 3
    """So many failures in a row bench a frontend."""
    cooldown_ratio: float = 0.5
    """Such a share of failed sends within a window benches a frontend."""
    cooldown_ratio_sends_min: int = 20
    """Sends a window needs before its share says anything."""
    cooldown_ratio_window_s: float = 10.0
    """Length of the window over which the share is taken."""
    cooldown_s: float = 5.0
    """How long a frontend rests before it is tried; doubled each time it is benched again without a good send."""
    cooldown_s_max: float = 55.0
    """The longest rest. With the spread it stays within 60 s: openai 2.x ignores a longer Retry-After and comes back
    after half a second."""
    cooldown_on_5xx: bool = True
    """Whether a status of 500 or above counts as a failure; 503 and 529 say "not now" and never do."""

    chain_retries_max: int = 2
    """Re-sends of one operation that all layers together may make; what the layers above report is counted."""
    failover_spends: bool = False
    """Whether a failover of the router's own counts as one of them, though it entered no queue."""
    when_unknown: WhenUnknown = WhenUnknown.FORBID
    """Whether a client is told not to retry what a pool may be running, or is left its own choice while the chain has
    retries."""
    failover_budget: str = "none"
    """Extra limit on the router's own failovers: a kind, or kind:knob=value,... of fixed, token_bucket, window, envoy,
    grpc, aws, aws-2026, adaptive, gateway_api."""

    slow_start_s: float = 10.0
    """Over so many seconds the share of a frontend that has returned rises from nothing to all; 0: at once."""
    trial_pause_s: float = 0.25
    """While everything is benched and requests wait, a frontend is tried again after this pause."""
    trial_probe_timeout_s: float = 5.0
    """Bound on the probe of a trial; its connect has `connect_slow_s`."""
    trials_max: int = 4
    """Trials under way at one time; only one at a time while no frontend of a model is usable."""

    def __post_init__(self) -> None:
        for field in fields(self):
            self._check(field.name, getattr(self, field.name))
        try:
            check_budget(self.failover_budget)
        except BudgetError as wrong:
            raise ConfigError(f"failover_budget: {wrong}") from None
        if self.connect_slow_s > self.connect_timeout_s:
            raise ConfigError(
                f"connect_slow_s must be at most connect_timeout_s ({self.connect_timeout_s:g}),"
                f" got {self.connect_slow_s:g}"
            )
        if self.cooldown_s > self.cooldown_s_max:
            raise ConfigError(
                f"cooldown_s must be at most cooldown_s_max ({self.cooldown_s_max:g}), got {self.cooldown_s:g}"
            )

    @property
    def slow_s(self) -> float:
        """Seconds from which on a connect is suspect."""
        return self.connect_slow_s or min(0.25, self.connect_timeout_s / 20)

    @staticmethod
    def _check(name: str, value: object) -> None:
        if name == "cooldown_ratio":
            if not (isinstance(value, int | float) and 0 < value <= 1):
                raise ConfigError(f"{name} must be a share above 0 and at most 1, got {value}")
        elif isinstance(value, float):
            if name in _MAY_BE_ZERO and value == 0:
                return
            if not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be a positive number of seconds, got {value}")
        elif type(value) is int and value < (0 if name in _MAY_BE_ZERO else 1):
            raise ConfigError(f"{name} must be at least {0 if name in _MAY_BE_ZERO else 1}, got {value}")


_MAY_BE_ZERO = frozenset(
    (
        "chain_retries_max",
        "connect_slow_s",
        "first_byte_timeout_s",
        "queue_bytes_max",
        "queue_max",
        "retry_after_spread_s",
        "slow_start_s",
        "total_timeout_s",
        "upload_timeout_s",
    )
)
