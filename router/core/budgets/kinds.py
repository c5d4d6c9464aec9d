"""A budget from its description: `kind` or `kind:knob=value,knob=value`, e.g. `window:retry_ratio=0.1,ttl_s=30`."""

from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from enum import StrEnum
from typing import Any

from router.core.budgets.adaptive import Adaptive, AdaptiveKnobs
from router.core.budgets.aws import Aws, AwsKnobs
from router.core.budgets.envoy import Envoy, EnvoyKnobs
from router.core.budgets.fixed import Fixed, FixedKnobs
from router.core.budgets.gateway_api import GatewayApi, GatewayApiKnobs
from router.core.budgets.grpc import Grpc, GrpcKnobs
from router.core.budgets.retry_budget import BudgetError, RetryBudget
from router.core.budgets.token_bucket import TokenBucket, TokenBucketKnobs
from router.core.budgets.window import Window, WindowKnobs
from router.core.random_source import RandomSource

NONE = "none"


@dataclass(frozen=True, slots=True)
class _Kind:
    knobs: type
    build: Callable[[Any, RandomSource], RetryBudget]
    preset: Callable[[], Any] | None = None
    """Knobs where they are not the defaults."""


_KINDS: dict[str, _Kind] = {
    "fixed": _Kind(FixedKnobs, lambda knobs, _: Fixed(knobs)),
    "token_bucket": _Kind(TokenBucketKnobs, lambda knobs, _: TokenBucket(knobs)),
    "window": _Kind(WindowKnobs, lambda knobs, _: Window(knobs)),
    "envoy": _Kind(EnvoyKnobs, lambda knobs, _: Envoy(knobs)),
    "grpc": _Kind(GrpcKnobs, lambda knobs, _: Grpc(knobs)),
    "aws": _Kind(AwsKnobs, lambda knobs, _: Aws(knobs)),
    "aws-2026": _Kind(AwsKnobs, lambda knobs, _: Aws(knobs), AwsKnobs.of_2026),
    "adaptive": _Kind(AdaptiveKnobs, Adaptive),
    "gateway_api": _Kind(GatewayApiKnobs, lambda knobs, _: GatewayApi(knobs)),
}
KINDS = (NONE, *_KINDS)
"""Names of all kinds."""


def budget_of(description: str, rng: RandomSource) -> RetryBudget | None:
    """Build the budget that is described; None for `none`. Raises BudgetError in one line."""
    found = _read(description)
    return None if found is None else found[0].build(found[1], rng)


def check_budget(description: str) -> None:
    """Check a description. Raises BudgetError in one line."""
    _read(description)


def knobs_of(description: str) -> Any:
    """Return the knobs that are described, of the kind's own type; None for `none`. Raises BudgetError in one line."""
    found = _read(description)
    return None if found is None else found[1]


def _read(description: str) -> tuple[_Kind, Any] | None:
    name, _, listed = description.partition(":")
    if name == NONE and not listed:
        return None
    kind = _KINDS.get(name)
    if kind is None:
        raise BudgetError(f"{description!r} is no budget; remedy: one of {', '.join(KINDS)}, then :knob=value,...")
    return kind, _knobs(name, kind, listed)


def _knobs(name: str, kind: _Kind, listed: str) -> Any:
    known = {field.name: field for field in fields(kind.knobs)}
    values: dict[str, Any] = {}
    if kind.preset is not None:
        preset = kind.preset()
        values = {field: getattr(preset, field) for field in known}
    for item in filter(None, listed.split(",")):
        knob, _, value = (part.strip() for part in item.partition("="))
        if knob not in known:
            raise BudgetError(f"{name} has no knob {knob!r}; remedy: one of {', '.join(known)}")
        values[knob] = _value(known[knob], value)
    return kind.knobs(**values)


def _value(knob: "Field[Any]", text: str) -> float | StrEnum:
    assert isinstance(knob.type, type)
    try:
        value: float | StrEnum = knob.type(text)
    except ValueError:
        words = f"one of {', '.join(knob.type)}" if issubclass(knob.type, StrEnum) else f"of type {knob.type.__name__}"
        raise BudgetError(f"{knob.name} must be {words}, got {text!r}") from None
    return value
