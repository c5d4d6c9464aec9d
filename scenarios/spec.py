"""A scenario: what is asked of a router, and what must come out. One TOML file each; see load.py for reading them.

All times are seconds since the run's start unless the name says otherwise. Every field has a default that is safe, or
none at all.
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from router.core.config import Selection
from scenarios.layers import Background, Layer
from scenarios.parts import (
    Count,
    ModelName,
    Name,
    Part,
    PoolName,
    PositiveCount,
    PositiveSeconds,
    Seconds,
    Share,
    Status,
)

EXACT_MARGIN_S = 0.2
"""What an exact scenario keeps between a fault's edge and any arrival: ten times the jitter of a busy machine."""


ServiceKind = Literal["tokens", "exponential", "deterministic", "lognormal", "by_tokens"]


class Service(Part, frozen=True, kw_only=True):
    """How long a frontend works on one request that has it alone, and how much longer when it is busy.

    tokens: `first_token_s`, then `tokens - 1` gaps of `token_gap_s`; every answer alike. exponential, deterministic,
    lognormal: `mean_s` with `cv2` (squared coefficient of variation, lognormal only); the first token comes with the
    last. by_tokens: prefill = overhead_s + prompt tokens not in the cache * prompt_token_s, then the output tokens but
    one * token_gap_s, by the tokens of the load; `profile` fills these three where it is named.
    """

    kind: ServiceKind = "tokens"
    first_token_s: Seconds = 0.05
    token_gap_s: Seconds = 0.02
    tokens: PositiveCount = 8
    mean_s: PositiveSeconds = 1.0
    cv2: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    profile: Literal["", "8b-h100", "70b-tp8"] = ""
    """Published speeds: an 8B model on one H100, a 70B model on eight; empty: the three knobs as given."""
    overhead_s: Seconds = 0.03
    prompt_token_s: Seconds = 0.0002
    load_factor: Annotated[float, Meta(ge=1, le=100)] = 1.0
    """How many times slower everything runs with all slots busy; rises linearly from 1 with one in flight."""

    @property
    def total_s(self) -> float:
        """Seconds from the start of the work to the last token, alone; of a random service the mean."""
        if self.kind == "tokens":
            return self.first_token_s + (self.tokens - 1) * self.token_gap_s
        return self.mean_s


class Pool(Part, frozen=True, kw_only=True):
    """A pool of equal frontends. Slots, queue, order and cancellation are those of each frontend.

    A frontend without `slots` works on everything at once; then nothing ever waits.
    """

    id: PoolName
    frontends: Annotated[int, Meta(ge=1, le=16)] = 1
    model: ModelName = "drill-model"
    service: Service = Service()
    slots: PositiveCount | None = None
    """Requests that a frontend works on at one time; left out: any number."""
    queue_max: Count | None = None
    """Requests that wait for a slot at most; one more is rejected. Left out: any number."""
    order: Literal["fifo", "lifo"] = "fifo"
    """Who of those that wait is served next."""
    cancel: Literal["never", "queue", "service"] = "service"
    """How far the leaving of a client reaches: not at all (the work is orphaned), what waits, what runs too."""
    reject_status: Status = 503
    """What a request is told that finds the queue full."""
    reject_retry_after_s: PositiveSeconds | None = None
    """The Retry-After that goes with it."""
    cache_sessions: Count = 0
    """Sessions whose prompt a frontend remembers, so that they need no prefill beyond the overhead."""
    probes_queue: bool = False
    """Whether health probes wait in the queue like requests."""
    listed_from_s: Seconds = 0.0
    """When discovery begins to list it; the frontends are there from the start."""
    listed_until_s: PositiveSeconds | None = None
    fail_share: Share = 0.0
    """Share of the requests that are answered with `fail_status` at once, whatever the load."""
    fail_status: Status = 500


class Load(Part, frozen=True, kw_only=True):
    """Operations that arrive in open loop between `start_s` and `end_s`; several entries add up.

    `client` is the program that sends them: raw (aiohttp, no retries) or openai (the real SDK with its own retries);
    in a scenario with layers the outermost layer takes its place.
    """

    rate_rps: Annotated[float, Meta(gt=0, le=1000)]
    start_s: Seconds
    end_s: PositiveSeconds
    arrivals: Literal["even", "poisson", "gamma", "replay"] = "even"
    """even; poisson; gamma: independent gaps of the coefficient of variation `cv`; replay: the times in `file`."""
    cv: Annotated[float, Meta(gt=0, le=100)] = 1.0
    file: str = ""
    """CSV of a replay, beside the scenario: one line an operation, seconds from `start_s` first, then, where they are
    there, prompt and output tokens. Times are stretched so that the mean rate is `rate_rps`."""
    replayed: tuple[tuple[float, int, int], ...] = ()
    """What `file` holds, stretched, in seconds since the run's start: read by the loader, never written by hand."""
    client: Literal["raw", "openai"] = "raw"
    stream: bool = False
    model: ModelName = "drill-model"
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """Retries of the SDK; a raw client never retries."""
    timeout_s: PositiveSeconds = 30.0
    """The client's own bound on one request."""
    sessions: Count = 0
    """Sessions that the operations belong to, drawn evenly; 0: none has one."""
    prompt_tokens: PositiveCount = 1155
    """Mean; the tokens of a prompt, for a service by tokens. The default is that of Azure's 2023 chat trace."""
    prompt_cv2: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    """Squared coefficient of variation (lognormal); 0: every prompt alike."""
    output_tokens: PositiveCount = 211
    """Mean; the tokens of an answer, for a service by tokens."""
    output_cv2: Annotated[float, Meta(ge=0, le=1000)] = 0.0


class Fault(Part, frozen=True, kw_only=True):
    """Something that is done to one pool, from `inject_s` to `clear_s`; correlated faults share their times.

    refused: every connect is refused, and what is in flight is cut. black_hole: connects hang, and what is in flight is
    cut. read_drop: the pool reads the whole body, then closes. cut: the connection ends after `after_events` events of
    a streamed answer. capacity_loss: each frontend loses a `share` of its slots, or so many `slots`. slow_down: work
    takes `factor` times as long. errors: a `share` of the requests is answered `status` at once.
    """

    kind: Literal["refused", "black_hole", "read_drop", "cut", "capacity_loss", "slow_down", "errors"]
    pool: PoolName
    inject_s: PositiveSeconds
    clear_s: PositiveSeconds
    after_events: PositiveCount | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    slots: PositiveCount | None = None
    factor: Annotated[float, Meta(gt=1, le=1000)] | None = None
    status: Status | None = None


POOL_FAULTS = ("capacity_loss", "slow_down", "errors")
"""Faults of the pool itself: of what it can do, not of the way to it."""


class Router(Part, frozen=True, kw_only=True):
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


Span = Annotated[tuple[float, float], Meta(description="lowest and highest value allowed")]
RunClass = Literal["unaffected", "degraded", "recovers", "metastable", "overloaded_anyway"]


class Expect(Part, frozen=True, kw_only=True):
    """What must come out, besides the laws that every run must keep.

    `answers` maps what a client saw of one request to how often: "200" (complete), "503 maybe_running" (status and
    error code), "break" (a stream that broke off visibly). What is not listed must not occur. A count is one number or
    a range [low, high]. `measures` maps the name of a measure to the range in which it must lie. A scenario with layers
    may leave `answers` out: then any answer may occur.
    """

    answers: dict[str, int | Range] = field(default_factory=dict)
    failovers: int | Range | None = None
    """Requests with two sends."""
    sdk_resends: int | Range | None = None
    """Requests beyond the first of their operation."""
    measures: dict[str, Span] = field(default_factory=dict)
    run_class: RunClass | None = None
    """What the run must be called, against its control arm without faults."""


class Semantics(Part, frozen=True, kw_only=True):
    """Meanings that silently change results; the others are knobs of a layer, a pool or a budget."""

    late_answers: Literal["lost", "count"] = "lost"
    """Whether an answer to an attempt that its caller has given up ends the operation well."""
    cheap_rejects: Literal["backoff", "at_once"] = "backoff"
    """Whether a rejection by a full queue is retried after the back-off, or in the same moment."""


class Slo(Part, frozen=True, kw_only=True):
    """What a good answer is: its first token within `ttft_s`, its last within `total_s` of the intended start."""

    ttft_s: PositiveSeconds | None = None
    total_s: PositiveSeconds | None = None


class Scenario(Part, frozen=True, kw_only=True):
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

    layers: Annotated[tuple[Layer, ...], Meta(max_length=8)] = ()
    """The chain between users and pools, outermost first; with any, the queue-level model runs the scenario."""
    background: Background = Background()
    chain_cap: Count | None = None
    """Re-sends of one operation that all layers which count the chain may make together; left out: no cap."""
    semantics: Semantics = Semantics()
    model_only: str = ""
    """Why there is no real run of it; empty: there is one."""
    slo: Slo = Slo()
    horizon_s: Annotated[float, Meta(gt=0, le=36_000)] | None = None
    """When the model stops, whatever is still under way; left out: when all has ended."""
    warm_up_s: Seconds = 0.0
    """Operations that arrive before it are left out of statistics."""
    replications: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Runs of the model with their own draws, where statistics are asked for."""
