"""What a retry budget lets through: attempts for each call, in the mean of a long run, by kind.

| kind | attempts a call when each fails with chance p | source |
| --- | --- | --- |
| none, fixed | A_N(p) = (1 - p^n) / (1 - p) | telescoping |
| token_bucket, each call | min(A_N, 1 + r) | SRE book, "Handling Overload"; Brooker |
| token_bucket, each success | min(A_N, 1 / (1 - r(1 - p))) | Brooker, "Fixing retries with token buckets" |
| window | min(A_N, 1 + r + floor / lambda) | Finagle, Linkerd, tower |
| gateway_api | min(A_N, max(1 / (1 - percent), 1 + floor / lambda)) | GEP-3388 |
| envoy | min(A_N, max(1 / (1 - percent), 1 + floor / (lambda T))) | Envoy, `retry_budget` |
| grpc | A_N below p = ratio / (1 + ratio), 1 above | gRFC A6 |
| aws | min(A_N, 1 + (1 - p) / (C p)) | AWS SDKs, standard mode |
| adaptive | min(A_N, max(1, K mu / lambda)) | SRE book, client-side throttling |

lambda is the rate of the calls that share one budget: a budget for each of 100 clients sees a hundredth of the load,
and its floor counts a hundred times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from router.core.budgets.adaptive import AdaptiveKnobs
from router.core.budgets.aws import AwsKnobs
from router.core.budgets.envoy import EnvoyKnobs
from router.core.budgets.fixed import FixedKnobs
from router.core.budgets.gateway_api import GatewayApiKnobs
from router.core.budgets.grpc import GrpcKnobs
from router.core.budgets.token_bucket import DepositOn, TokenBucketKnobs
from router.core.budgets.window import WindowKnobs
from scenarios.theory.attempts import expected_attempts

_GRID = tuple(step / 1000 for step in range(1, 1001))
"""Chances to fail at which the worst case is looked for."""
_ENDLESS = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The calls that share one budget; None: not known, so that what depends on it does not bound anything.

    `rate_rps`: what arrives a second; `attempt_s`: how long an attempt lasts; `capacity_rps`: what is accepted at most.
    """

    rate_rps: float | None = None
    attempt_s: float | None = None
    capacity_rps: float | None = None


def mean_amplification(knobs: Any, *, failure_p: float, attempts_max: int, traffic: Traffic) -> float:
    """Return the attempts of a call, each of which fails with chance `failure_p`, under a budget (None: none)."""
    attempts = expected_attempts(failure_p, min(attempts_max, _attempts_allowed(knobs)))
    allowed = _ALLOWED.get(type(knobs))
    return attempts if allowed is None else min(attempts, allowed(knobs, failure_p, traffic))


def worst_amplification(knobs: Any, *, attempts_max: int, traffic: Traffic) -> float:
    """Return the most attempts of a call in the mean of a long run, whatever the chance to fail."""
    if type(knobs) not in _ALLOWED:  # more failures are then more attempts
        return mean_amplification(knobs, failure_p=1.0, attempts_max=attempts_max, traffic=traffic)
    return max(
        mean_amplification(knobs, failure_p=failure_p, attempts_max=attempts_max, traffic=traffic)
        for failure_p in (*_GRID, *_edges(knobs))
    )


def burst_retries(knobs: Any) -> float:
    """Return the retries that a rested budget allows at once, before its long run begins; infinite: no bound."""
    burst = _BURST.get(type(knobs))
    return _ENDLESS if burst is None else burst(knobs)


def floor_retries(knobs: Any, traffic: Traffic) -> float:
    """Return the retries for each call that a floor allows whatever else happens; infinite: not known at this traffic.

    0 for a kind without a floor.
    """
    floor_rps = floor_retries_rps(knobs, traffic)
    if not floor_rps:
        return 0.0
    return floor_rps / traffic.rate_rps if traffic.rate_rps else _ENDLESS


def floor_retries_rps(knobs: Any, traffic: Traffic) -> float:
    """Return the retries a second that one budget's floor allows; infinite where it depends on what is not known."""
    match knobs:
        case WindowKnobs():
            return knobs.min_retries_per_second
        case GatewayApiKnobs():
            return knobs.min_retry_rate_count / knobs.min_retry_rate_interval_s
        case EnvoyKnobs(min_retry_concurrency=floor):
            if not floor:
                return 0.0
            return floor / traffic.attempt_s if traffic.attempt_s else _ENDLESS
    return 0.0


def share_retries(knobs: Any) -> float:
    """Return the retries for each call that the share of a budget with a floor allows, in a long failure."""
    match knobs:
        case WindowKnobs():
            return knobs.retry_ratio
        case GatewayApiKnobs():
            return _inverse(1 - knobs.percent / 100) - 1
        case EnvoyKnobs():
            return _inverse(1 - knobs.budget_percent / 100) - 1
    return 0.0


def binding_rate_rps(knobs: Any, *, attempts_max: int, traffic: Traffic) -> float:
    """Return the rate of the calls of one budget above which its floor lets less through than no budget would.

    Infinite: at no rate, since the share alone allows as much; 0 for a kind without a floor.
    """
    share, retries_max = share_retries(knobs), attempts_max - 1
    if share >= retries_max:
        return _ENDLESS
    # A window adds its floor to its share; the other kinds take the greater of both.
    by_floor = retries_max - share if isinstance(knobs, WindowKnobs) else retries_max
    return floor_retries_rps(knobs, traffic) / by_floor


def _token_bucket(knobs: TokenBucketKnobs, failure_p: float, _traffic: Traffic) -> float:
    if knobs.deposit_on is DepositOn.CALL:
        return 1 + knobs.ratio
    return _inverse(1 - knobs.ratio * (1 - failure_p))


def _window(knobs: WindowKnobs, _failure_p: float, traffic: Traffic) -> float:
    return 1 + share_retries(knobs) + floor_retries(knobs, traffic)


def _share_or_floor(knobs: GatewayApiKnobs | EnvoyKnobs, _failure_p: float, traffic: Traffic) -> float:
    return 1 + max(share_retries(knobs), floor_retries(knobs, traffic))


def _grpc(knobs: GrpcKnobs, failure_p: float, _traffic: Traffic) -> float:
    return _ENDLESS if failure_p < _grpc_edge(knobs) else 1.0


def _aws(knobs: AwsKnobs, failure_p: float, _traffic: Traffic) -> float:
    cost = min(knobs.retry_cost, knobs.timeout_cost)
    return 1 + knobs.no_retry_increment * (1 - failure_p) / (cost * failure_p) if failure_p else _ENDLESS


def _adaptive(knobs: AdaptiveKnobs, _failure_p: float, traffic: Traffic) -> float:
    if not traffic.rate_rps or not traffic.capacity_rps:
        return _ENDLESS
    return max(1.0, knobs.k * traffic.capacity_rps / traffic.rate_rps)


_ALLOWED: dict[type, Callable[[Any, float, Traffic], float]] = {
    TokenBucketKnobs: _token_bucket,
    WindowKnobs: _window,
    GatewayApiKnobs: _share_or_floor,
    EnvoyKnobs: _share_or_floor,
    GrpcKnobs: _grpc,
    AwsKnobs: _aws,
    AdaptiveKnobs: _adaptive,
}
"""Attempts of a call that a budget allows beside the number of attempts: (knobs, chance to fail, traffic)."""

_BURST: dict[type, Callable[[Any], float]] = {
    TokenBucketKnobs: lambda knobs: knobs.tokens_max,
    WindowKnobs: lambda knobs: knobs.min_retries_per_second * knobs.ttl_s,
    GatewayApiKnobs: lambda knobs: knobs.min_retry_rate_count,
    EnvoyKnobs: lambda knobs: knobs.min_retry_concurrency,
    GrpcKnobs: lambda knobs: knobs.max_tokens / 2,
    AwsKnobs: lambda knobs: knobs.quota // min(knobs.retry_cost, knobs.timeout_cost),
}


def _attempts_allowed(knobs: Any) -> float:
    match knobs:
        case FixedKnobs():
            return knobs.max_retries + 1
        case AwsKnobs():
            return knobs.max_attempts
    return _ENDLESS


def _grpc_edge(knobs: GrpcKnobs) -> float:
    return knobs.token_ratio / (1 + knobs.token_ratio)


def _edges(knobs: Any) -> tuple[float, ...]:
    """Return the chances to fail just short of which a budget shuts."""
    return (_grpc_edge(knobs) * (1 - 1e-9),) if isinstance(knobs, GrpcKnobs) else ()


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else _ENDLESS
