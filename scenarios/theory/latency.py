"""The longest that a first request waits when nothing answers: time-outs and sleeps of all layers, nested.

A layer makes retries + 1 attempts; each lasts as long as everything below it takes, or the layer's own time-out for an
attempt or a connect, if that is shorter; between attempts it sleeps; its deadline ends all of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one layer goes on. Times are seconds; None: no bound."""

    retries: int = 0
    attempt_timeout_s: float | None = None
    connect_timeout_s: float | None = None
    """Bound on an attempt whose connect hangs; of the innermost layer, for connects to other layers stand at once."""
    deadline_s: float | None = None
    sleeps_s: tuple[float, ...] = ()
    """Longest sleep before each retry, the first one first; what is missing is 0."""

    def __post_init__(self) -> None:
        assert len(self.sleeps_s) <= self.retries, "a sleep belongs to a retry"

    @property
    def attempt_max_s(self) -> float:
        """How long the layer lets an attempt last of which nothing is heard."""
        return min(_bound(self.attempt_timeout_s), _bound(self.connect_timeout_s))

    def of_attempts(self, below_s: float) -> float:
        """Return how long its attempts take in all, if one takes `below_s` unless it is ended; no deadline."""
        attempt_s = min(below_s, self.attempt_max_s)
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


def worst_under_cap_s(
    layers: Sequence[Patience], counts: Sequence[bool], resends_max: int, hang_s: float = float("inf")
) -> list[float]:
    """Return the longest wait at each layer under a cap of re-sends over the chain; `counts`: whether a layer obeys it.

    The cap is spent from the inside out, as it happens when nothing answers: the innermost layer fails first. A layer
    that is given up makes no more re-sends.
    """
    return [
        _capped(layers[depth:], counts[depth:], resends_max, hang_s, float("inf"))[0] for depth in range(len(layers))
    ]


def _capped(
    layers: Sequence[Patience], counts: Sequence[bool], left: int, hang_s: float, until_s: float
) -> tuple[float, int]:
    """Return how long the first layer's caller waits, at most `until_s`, and how many re-sends are left then."""
    if not layers:
        return min(hang_s, until_s), left
    layer, took_s = layers[0], 0.0
    until_s = min(until_s, _bound(layer.deadline_s))
    sleeps_s = [0.0, *layer.sleeps_s] + [0.0] * (layer.retries - len(layer.sleeps_s))
    for turn, sleep_s in enumerate(sleeps_s):
        took_s += sleep_s
        if took_s >= until_s or (turn and counts[0] and not left):
            took_s -= sleep_s if took_s < until_s else 0.0  # who has none left does not sleep either
            break
        left -= turn > 0 and counts[0]
        left_before = left
        attempt_until_s = min(layer.attempt_max_s, until_s - took_s)
        attempt_s, left = _capped(layers[1:], counts[1:], left, hang_s, attempt_until_s)
        took_s += attempt_s
        if not counts[0] and left == left_before:  # nothing is spent: all further attempts are like this one
            took_s += (layer.retries - turn) * attempt_s + math.fsum(sleeps_s[turn + 1 :])
            break
    return min(took_s, until_s), left


def exponential_sleeps_s(initial_s: float, longest_s: float, retries: int, *, factor: float = 2.0) -> tuple[float, ...]:
    """Return the longest sleep before each retry of an exponential back-off with an upper bound."""
    sleeps_s, sleep_s = [], min(initial_s, longest_s)
    for _ in range(retries):
        sleeps_s.append(sleep_s)
        sleep_s = min(sleep_s * factor, longest_s)
    return tuple(sleeps_s)


def _bound(bound_s: float | None) -> float:
    return float("inf") if bound_s is None else bound_s
