"""A scenario: what is asked of a router, and what must come out. One TOML file each; see load.py for reading them.

All times are seconds since the run's start unless the name says otherwise. Every field has a default that is safe, or
none at all.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from router.core.config import Selection

Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
PoolName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=32)]
ModelName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", max_length=128)]
"""As it stands in requests and on command lines, where comma and semicolon separate."""
Seconds = Annotated[float, Meta(ge=0, le=3600)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=3600)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
PositiveCount = Annotated[int, Meta(ge=1, le=100_000)]

EXACT_MARGIN_S = 0.2
"""What an exact scenario keeps between a fault's edge and any arrival: ten times the jitter of a busy machine."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parts are immutable, and a key they do not know is an error, never a silent no-op."""


class Service(_Part, frozen=True, kw_only=True):
    """How long a frontend takes: time to the first token, gap between tokens, number of tokens of an answer."""

    first_token_s: Seconds = 0.05
    token_gap_s: Seconds = 0.02
    tokens: PositiveCount = 8

    @property
    def total_s(self) -> float:
        """Seconds from the start of the work to the last token."""
        return self.first_token_s + (self.tokens - 1) * self.token_gap_s


class Pool(_Part, frozen=True, kw_only=True):
    """A pool of equal frontends."""

    id: PoolName
    frontends: Annotated[int, Meta(ge=1, le=16)] = 1
    model: ModelName = "drill-model"
    service: Service = Service()


class Load(_Part, frozen=True, kw_only=True):
    """Operations that arrive in open loop between `start_s` and `end_s`.

    `client` is the program that sends them: raw (aiohttp, no retries) or openai (the real SDK with its own retries).
    """

    rate_rps: Annotated[float, Meta(gt=0, le=1000)]
    start_s: Seconds
    end_s: PositiveSeconds
    arrivals: Literal["even", "poisson"] = "even"
    client: Literal["raw", "openai"] = "raw"
    stream: bool = False
    model: ModelName = "drill-model"
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """Retries of the SDK; a raw client never retries."""
    timeout_s: PositiveSeconds = 30.0
    """The client's own bound on one request."""


class Fault(_Part, frozen=True, kw_only=True):
    """Something that is done to one pool, from `inject_s` to `clear_s`.

    refused: every connect is refused, and what is in flight is cut. black_hole: connects hang, and what is in flight is
    cut. read_drop: the pool reads the whole body, then closes. cut: the connection ends after `after_events` events of
    a streamed answer.
    """

    kind: Literal["refused", "black_hole", "read_drop", "cut"]
    pool: PoolName
    inject_s: PositiveSeconds
    clear_s: PositiveSeconds
    after_events: PositiveCount | None = None


class Router(_Part, frozen=True, kw_only=True):
    """Knobs of the router under test."""

    connect_timeout_s: PositiveSeconds = 1.0
    deadline_s: PositiveSeconds = 20.0
    idle_timeout_s: PositiveSeconds = 10.0
    patience_s: PositiveSeconds = 2.0
    selection: Selection = Selection.ROUND_ROBIN
    cooldown: bool = True
    """Whether a frontend that fails is benched for later requests."""
    cooldown_s: PositiveSeconds = 5.0
    """How long a benched frontend rests before it is tried."""
    slow_start_s: Seconds = 10.0
    """Over so many seconds the share of a frontend that has returned rises; 0: at once."""


Range = Annotated[tuple[int, int], Meta(description="lowest and highest count allowed")]


class Expect(_Part, frozen=True, kw_only=True):
    """What must come out, besides the laws that every run must keep.

    `answers` maps what a client saw of one request to how often: "200" (complete), "503 maybe_running" (status and
    error code), "break" (a stream that broke off visibly). What is not listed must not occur. A count is one number or
    a range [low, high].
    """

    answers: dict[str, int | Range]
    failovers: int | Range | None = None
    """Requests with two sends."""
    sdk_resends: int | Range | None = None
    """Requests beyond the first of their operation."""


class Scenario(_Part, frozen=True, kw_only=True):
    """One drill, described once and run twice: for real and as a model."""

    name: Name
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    story: str = ""
    """What goes wrong and what a good router does, in a sentence or two, for the report."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    exact: bool = False
    """Whether real and modelled run must agree attempt by attempt; the loader checks that they can."""
    duration_s: PositiveSeconds
    pools: Annotated[tuple[Pool, ...], Meta(min_length=1, max_length=16)]
    load: Annotated[tuple[Load, ...], Meta(min_length=1, max_length=16)]
    faults: Annotated[tuple[Fault, ...], Meta(max_length=16)] = ()
    router: Router = Router()
    expect: Expect
