"""The layers between a user's program and the pools: who sends again, after what, how often, and what bounds it.

A chain is a list of layers, outermost first. One attempt of a layer is one call of the layer below it; an attempt of
the innermost is a send to a pool. So retries of nested layers multiply, unless something bounds the whole chain.

A layer that names a preset starts from the preset's values (`scenarios/presets/`); what the file gives besides wins.
"""

from typing import Annotated, Literal

from msgspec import Meta

from scenarios.parts import Count, LayerName, Part, PositiveCount, PositiveSeconds, Seconds, Share

RetryWord = Annotated[str, Meta(pattern=r"^(connect|lost|timeout|[45](\d\d|xx))$")]
"""What a layer may retry on: connect (provably unsent), lost (the connection ended after hand-over), timeout (its own
attempt time-out, or one that the layer below reports), a status, or a class of them such as 5xx."""

RETRY_ON_DEFAULT = ("connect", "lost", "timeout", "429", "5xx")


class Backoff(Part, frozen=True, kw_only=True):
    """How long a layer sleeps before its next attempt: initial_s * factor^n, at most max_s, n from 0.

    `jitter` is the share of the sleep that is drawn: the sleep is multiplied by U(1 - jitter, 1]; 0 draws nothing,
    0.25 is what OpenAI's SDKs do, 1 is full jitter. `spread = "exponential"` draws the whole sleep from an exponential
    distribution with that mean instead (a customer of a textbook's retrial queue).
    """

    initial_s: Seconds = 0.0
    max_s: Seconds = 8.0
    factor: Annotated[float, Meta(ge=1, le=10)] = 2.0
    jitter: Share = 0.0
    spread: Literal["uniform", "exponential"] = "uniform"


class Layer(Part, frozen=True, kw_only=True):
    """One layer: what it does about an attempt that failed. Times are seconds.

    kind generic: a program, SDK, mesh or gateway that retries by these knobs. kind pooldrill: the decisions of this
    project's router with the knobs of `[router]`; only the innermost layer can be one, and of the knobs below it has
    `instances` alone.
    """

    name: LayerName
    kind: Literal["generic", "pooldrill"] = "generic"
    preset: str = ""
    """The preset it starts from; empty: the defaults below."""

    retries: Count = 0
    """Most attempts after the first, of one call."""
    retry_on: tuple[RetryWord, ...] = RETRY_ON_DEFAULT
    attempt_timeout_s: PositiveSeconds | None = None
    """Bound on one attempt; whoever gives up leaves, and the pool's `cancel` says what becomes of the work."""
    timeout_covers: Literal["connect", "queue", "first_byte", "whole"] = "whole"
    """Until when an attempt can run into its time-out: until the connection stands, until work on it begins, until the
    first token, until the last."""
    timeout_spread: Literal["fixed", "exponential"] = "fixed"
    """exponential: each attempt's time-out is drawn with that mean (a textbook's impatient customer)."""
    connect_timeout_s: PositiveSeconds | None = None
    """Bound on the connect of one attempt, beside `attempt_timeout_s`. It strikes in the innermost layer alone: a
    connect to another layer stands at once. What it ends was provably unsent: connect where `retry_on` has that word,
    else timeout."""
    deadline_s: PositiveSeconds | None = None
    """Bound on one call with all its attempts and sleeps."""
    backoff: Backoff = Backoff()

    budget: str = "none"
    """A retry budget: a kind, or kind:knob=value,... as in `failover_budget`."""
    budget_scope: Literal["request", "client", "instance", "global"] = "instance"
    """What shares one budget: a call, a client's calls, an instance's calls, all calls of the layer."""
    budget_gates: Literal["retries", "attempts"] = "retries"
    """Whether first attempts ask the budget too, as with throttling at the client."""
    clients: PositiveCount = 1
    """Clients of the layer, for a budget of scope client; operations belong to them in turn."""
    instances: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Equal instances of the layer, each with its own state; operations meet them in turn."""

    honours_retry_after: bool = False
    """Whether a Retry-After takes the place of the back-off."""
    retry_after_s_max: PositiveSeconds = 120.0
    """The longest Retry-After that is honoured."""
    retry_after_beyond: Literal["give_up", "own"] = "give_up"
    """What a longer one leads to: no retry, or the layer's own back-off."""
    honours_veto: bool = False
    """Whether `x-should-retry: false` forbids the retry."""
    counts_chain: bool = False
    """Whether the layer's retries count for the chain's cap, and the cap and the deadline carried along bind it."""
    in_process: bool = False
    """Whether it lives in the caller's program: then a failed connect, a loss or a time-out is reported as such. A
    layer of its own reports them as a gateway does: 503, 502, 504."""

    pools: Literal["same", "other"] = "same"
    """Where the innermost layer sends again: to the same pool, or to another one where there is one."""
    balance: Literal["round_robin", "random", "primary"] = "round_robin"
    """How the innermost layer chooses a pool for a first attempt; primary: the first that is listed."""
