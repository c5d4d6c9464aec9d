"""The layers between a user's program and the pools: who sends again, after what, how often, and what bounds it.

A chain is a list of layers, outermost first. One attempt of a layer is one call of the layer below it; an attempt of
the innermost is a send to a pool. So retries of nested layers multiply, unless something bounds the whole chain.

A layer that names a preset starts from the preset's values; what the file gives besides wins. Where presets come from
stands beside each.
"""

from typing import Annotated, Any, Literal

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


_OPENAI = {
    "retries": 2,
    "retry_on": ("connect", "lost", "timeout", "408", "409", "429", "5xx"),
    "in_process": True,
    "backoff": Backoff(initial_s=0.5, max_s=8.0, jitter=0.25),
    "honours_retry_after": True,
    "honours_veto": True,
    "attempt_timeout_s": 600.0,
    "timeout_covers": "first_byte",
}

PRESETS: dict[str, dict[str, Any]] = {
    # OpenAI's Python SDK, `_base_client.py`: 2 retries, 0.5 s doubling to 8 s, a quarter of it jitter.
    "openai-2.x": {**_OPENAI, "retry_after_s_max": 60.0, "retry_after_beyond": "own"},
    "openai-3.x": {**_OPENAI, "retry_after_s_max": 120.0, "retry_after_beyond": "give_up"},
    # LiteLLM's proxy: its num_retries, the SDK's max_retries below it and its fallbacks multiply to 18 sends.
    "litellm": {
        "retries": 17,
        "retry_on": ("connect", "lost", "timeout", "408", "409", "429", "5xx"),
        "pools": "other",
    },
    # sglang-router and vllm-router: max_retries 5 attempts, 50 ms growing by 1.5 to 30 s.
    "sglang-router": {
        "retries": 4,
        "retry_on": ("connect", "lost", "timeout", "408", "429", "500", "502", "503", "504"),
        "pools": "other",
        "backoff": Backoff(initial_s=0.05, max_s=30.0, factor=1.5, jitter=0.2),
    },
    "vllm-router": {
        "retries": 4,
        "retry_on": ("connect", "lost", "timeout", "408", "429", "500", "502", "503", "504"),
        "pools": "other",
        "backoff": Backoff(initial_s=0.05, max_s=30.0, factor=1.5, jitter=0.2),
    },
    # Envoy AI Gateway's example of a BackendTrafficPolicy: numRetries 5, 100 ms base, 10 s at most.
    "envoy-ai-gateway": {
        "retries": 5,
        "retry_on": ("connect", "lost", "timeout", "429", "500", "502", "503", "504"),
        "pools": "other",
        "backoff": Backoff(initial_s=0.1, max_s=10.0, jitter=1.0),
    },
    # Envoy, retry_on: connect-failure with num_retries 1, its default; full jitter between 25 ms and 250 ms.
    "envoy-connect-failure": {
        "retries": 1,
        "retry_on": ("connect",),
        "pools": "other",
        "backoff": Backoff(initial_s=0.025, max_s=0.25, jitter=1.0),
    },
    # HAProxy: retries 3 of failed connects, 1 s apart to the same server; redispatch is another knob.
    "haproxy": {
        "retries": 3,
        "retry_on": ("connect",),
        "pools": "same",
        "backoff": Backoff(initial_s=1.0, max_s=1.0, factor=1.0),
    },
    # AWS SDKs, retry mode standard: 3 attempts, full jitter, cap 20 s; the quota is one per client.
    "aws-legacy": {
        "retries": 2,
        "retry_on": ("connect", "lost", "timeout", "429", "500", "502", "503", "504"),
        "in_process": True,
        "budget": "aws",
        "budget_scope": "client",
        "backoff": Backoff(initial_s=1.0, max_s=20.0, jitter=1.0),
    },
    "aws-2026": {
        "retries": 2,
        "retry_on": ("connect", "lost", "timeout", "429", "500", "502", "503", "504"),
        "in_process": True,
        "budget": "aws-2026",
        "budget_scope": "client",
        "backoff": Backoff(initial_s=0.05, max_s=20.0, jitter=1.0),
    },
    # gRPC service config: at most 5 attempts, retryThrottling maxTokens 10, tokenRatio 0.1 (gRFC A6).
    "grpc": {
        "retries": 4,
        "retry_on": ("connect", "503"),
        "in_process": True,
        "budget": "grpc",
        "budget_scope": "client",
        "backoff": Backoff(initial_s=0.1, max_s=1.0, jitter=0.2),
    },
    # Finagle's RetryBudget, as in Linkerd and tower: 20 % of the calls of 10 s, and 10 a second.
    "finagle": {
        "retries": 25,
        "retry_on": ("connect", "lost", "5xx"),
        "in_process": True,
        "budget": "window",
        "budget_scope": "client",
    },
    # SRE book, "Handling Overload": 3 attempts of one request, retries at most 10 % of a client's requests.
    "sre": {
        "retries": 2,
        "in_process": True,
        "budget": "token_bucket:ratio=0.1",
        "budget_scope": "client",
        "backoff": Backoff(initial_s=0.1, max_s=5.0, jitter=1.0),
    },
}
"""Layers as they come: preset -> what differs from the defaults of a Layer."""


def preset_layer(preset: str, **given: Any) -> Layer:
    """Return a layer that starts from a preset; its name is the preset's unless one is given. Raises KeyError."""
    name = preset.split("-", 1)[0]
    return Layer(**{"name": name, "preset": preset, **PRESETS[preset], **given})


STACKS: dict[str, tuple[Layer, ...]] = {
    # The stack that the failover drill began with: an SDK with 3 retries before a gateway with 2: 12 sends at most.
    "drill-article-before": (
        preset_layer("openai-3.x", name="sdk", retries=3, attempt_timeout_s=30.0),
        Layer(
            name="gateway",
            retries=2,
            retry_on=("connect", "lost", "timeout", "5xx"),
            attempt_timeout_s=1.5,
            timeout_covers="connect",
            pools="same",
        ),
    ),
    # And the one it ended with: one owner of retries, a cap over the chain, failover at once.
    "drill-article-after": (
        preset_layer("openai-3.x", name="sdk", retries=2, attempt_timeout_s=30.0, counts_chain=True),
        Layer(name="gateway", kind="pooldrill"),
    ),
}
"""Whole chains by name, outermost first; a cap over the chain is the scenario's (`chain_cap`)."""
