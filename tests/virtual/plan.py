"""What a world consists of: its pools, its knobs, and a list of events that is all that happens in it.

A world is data: the same world gives the same run, and one with fewer events is a world too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from router.core.config import RouterConfig
from router.core.topology import Pool
from router.settings import ShellConfig
from tests.virtual.network import Cut

ROUTER = ("127.0.0.1", 8080)
FIRST_POOL_PORT = 9001


class Kind(StrEnum):
    """How a pool answers one request."""

    PLAIN = "plain"  # with a length
    CHUNKED = "chunked"  # server-sent events
    UNTIL_CLOSE = "until_close"  # server-sent events that the connection's end ends
    ERROR = "error"  # a status of 400 or above
    EMPTY = "empty"  # 204
    SILENT = "silent"
    DROPPED = "dropped"  # reads the request, then closes
    GARBAGE = "garbage"  # bytes that are not HTTP
    BAD_CHUNK = "bad_chunk"  # bytes that are not HTTP, in the middle of a stream


class Break(StrEnum):
    """How a pool stops in the middle of an answer."""

    FIN = "fin"
    RESET = "reset"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What whichever pool gets a request does with it."""

    kind: Kind = Kind.PLAIN
    status: int = 200
    think_s: float = 0.0
    """From the request to the head of the answer."""
    pieces: int = 1
    piece_bytes: int = 30
    pause_s: float = 0.0
    """Before each piece but the first."""
    breaks_at: int | None = None
    """Byte of the answer, head included, after which it breaks off; None: it does not."""
    breaks_by: Break = Break.FIN
    early: bool = False
    """Answered once the head has come, without the body."""
    reads_bytes: int | None = None
    """So many bytes of the body are read, then no more; None: all."""
    closes: bool = False
    """The connection is closed after the answer, without a word of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A client asks for something. Asks of one lane follow each other on one connection, if it is kept."""

    at_s: float
    name: str
    lane: int
    answer: Answer
    body_bytes: int = 60
    model: str = "m"
    session: str | None = None
    deadline_ms: int | None = None
    upload_pieces: int = 1
    upload_pause_s: float = 0.0
    chunked: bool = False
    """The upload has no length."""
    old: bool = False
    """The client speaks HTTP/1.0: the connection's end is the end of an answer without a length."""
    expects: bool = False
    """The body is sent once the router says so."""
    leaves_s: float | None = None
    """So long after it began the client closes its connection; None: it stays."""
    read_pause_s: float = 0.0
    """How long the client pauses after each read."""
    lists: bool = False
    """The client asks for the list of models, and for nothing else."""


class What(StrEnum):
    """What may befall a frontend."""

    REFUSES = "refuses"
    HOLE = "hole"
    STALL = "stall"
    RESTART = "restart"
    CUT_FIN = "cut_fin"
    CUT_RESET = "cut_reset"
    CLOSES_IDLE = "closes_idle"
    SAYS_UNASKED = "says_unasked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something befalls a frontend, for a while where it has a length."""

    at_s: float
    frontend: str
    what: What
    for_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCut:
    """The next connection to a frontend will be cut."""

    at_s: float
    frontend: str
    cut: Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The policy gets another list of pools."""

    at_s: float
    pools: tuple[str, ...]
    draining: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Frontends that their pools have no longer, or not yet."""

    def listed(self, pools: Iterable[Pool]) -> list[Pool]:
        """Return the list that it stands for, made of all pools that there are."""
        return [
            Pool(
                pool.name,
                tuple(one for one in pool.frontends if one.name not in self.without),
                pool.models,
                draining=pool.name in self.draining,
            )
            for pool in pools
            if pool.name in self.pools
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """The router gets a SIGTERM, and a second one after `again_s` (None: it does not)."""

    at_s: float
    again_s: float | None = None


Event = Ask | Trouble | NextCut | Publish | Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One run. Times of events are seconds since the router was ready."""

    seed: int
    pools: tuple[Pool, ...]
    events: tuple[Event, ...]
    first: Publish | None = None
    """What of the pools the router is told at its start; None: all of them."""
    rules: RouterConfig = field(default_factory=RouterConfig)
    shell: ShellConfig = field(default_factory=ShellConfig)
    latency_s: float = 0.0002
    buffer_bytes: int = 256 * 1024
    tick_s: float = 0.0
    mixes: bool = False
    """What is ready at one time is taken in a mixed order."""

    @property
    def first_pools(self) -> tuple[Pool, ...]:
        """Return the pools that the router is told at its start."""
        return self.pools if self.first is None else tuple(p for p in self.first.listed(self.pools) if p.frontends)

    @property
    def asks(self) -> list[Ask]:
        """Return the requests for inference."""
        return [event for event in self.events if isinstance(event, Ask) and not event.lists]

    @property
    def lists(self) -> list[Ask]:
        """Return the requests for lists of models."""
        return [event for event in self.events if isinstance(event, Ask) and event.lists]

    @property
    def signal(self) -> Signal | None:
        """Return the SIGTERM that comes while something may be under way; None: it comes at the end."""
        return next((event for event in self.events if isinstance(event, Signal)), None)

    def keep(self, numbers: Iterable[int]) -> "World":
        """Return the same world with these of its events only."""
        kept = set(numbers)
        return replace(self, events=tuple(event for number, event in enumerate(self.events) if number in kept))


def pool_of(name: str, first_port: int, frontends: int, models: tuple[str, ...] = ()) -> Pool:
    """Return a pool whose frontends have one port each."""
    urls = [f"http://127.0.0.1:{first_port + number}" for number in range(frontends)]
    return Pool.of_urls(name, urls, models)
