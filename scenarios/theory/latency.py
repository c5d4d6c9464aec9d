"""The longest that a first request waits when nothing answers: time-outs and sleeps of all layers, nested.

A layer makes retries + 1 attempts; each lasts as long as everything below it takes, or the layer's own time-out for an
attempt, if that is shorter; between attempts it sleeps; its deadline ends all of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one layer goes on. Times are seconds; None: no bound."""

    retries: int = 0
    attempt_timeout_s: float | None = None
    deadline_s: float | None = None
    sleeps_s: tuple[float, ...] = ()
    """Longest sleep before each retry, the first one first; what is missing is 0."""

    def __post_init__(self) -> None:
        assert len(self.sleeps_s) <= self.retries, "a sleep belongs to a retry"

    def of_attempts(self, below_s: float) -> float:
        """Return how long its attempts take in all, if one takes `below_s` unless it is ended; no deadline."""
        attempt_s = min(below_s, _bound(self.attempt_timeout_s))
        return (self.retries + 1) * attempt_s + math.fsum(self.sleeps_s)

    def worst_s(self, below_s: float) -> float:
        """Return the longest that its caller waits for nothing."""
        return min(self.of_attempts(below_s), _bound(self.deadline_s))


def worst_first_request_s(layers: Sequence[Patience], hang_s: float = float("inf")) -> float:
    """Return the longest wait for nothing, layers from outermost to innermost.

    `hang_s` is how long one send lasts by itself where nothing answers; infinite: until somebody gives up.
    """
    return worst_by_layer_s(layers, hang_s)[0] if layers else hang_s


def worst_by_layer_s(layers: Sequence[Patience], hang_s: float = float("inf")) -> list[float]:
    """Return the same as each layer's caller sees it, in the order of the layers."""
    waits: list[float] = []
    below_s = hang_s
    for layer in reversed(layers):
        below_s = layer.worst_s(below_s)
        waits.append(below_s)
    return waits[::-1]


def exponential_sleeps_s(initial_s: float, longest_s: float, retries: int, *, factor: float = 2.0) -> tuple[float, ...]:
    """Return the longest sleep before each retry of an exponential back-off with an upper bound."""
    return tuple(min(initial_s * factor**turn, longest_s) for turn in range(retries))


def _bound(bound_s: float | None) -> float:
    return float("inf") if bound_s is None else bound_s
