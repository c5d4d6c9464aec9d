"""The toxics of Toxiproxy 2.12, checked before they are sent.

The server ignores attributes it does not know, takes a missing one as 0, and dies of some values: a slicer of size 0
recurses for ever, a negative bandwidth slices out of bounds. So a `Toxic` names every attribute of its type, within
limits. Randomness is drawn in the harness, never in the server, whose seed has no effect: no jitter, toxicity 0 or 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

HOUR_MS = 3_600_000
HOUR_US = 3_600_000_000
BYTES_MAX = 2**40

Direction = Literal["upstream", "downstream"]
"""Upstream: from the client to the server. Downstream: from the server to the client."""

_NOTHING_ELSE = range(1)
_LIMITS: Mapping[str, Mapping[str, range]] = {
    # milliseconds added to everything
    "latency": {"latency": range(HOUR_MS + 1), "jitter": _NOTHING_ELSE},
    # kilobytes per second; 0 holds everything back until the toxic is removed, without loss
    "bandwidth": {"rate": range(10_000_001)},
    # milliseconds between the end of the data and the close
    "slow_close": {"delay": range(HOUR_MS + 1)},
    # milliseconds until the close, everything swallowed meanwhile; 0: no close before the toxic is removed
    "timeout": {"timeout": range(HOUR_MS + 1)},
    # milliseconds until a reset
    "reset_peer": {"timeout": range(HOUR_MS + 1)},
    # bytes, bytes, microseconds between two slices
    "slicer": {"average_size": range(1, BYTES_MAX), "size_variation": range(BYTES_MAX), "delay": range(HOUR_US + 1)},
    # bytes that pass, counted for each connection, before it is closed
    "limit_data": {"bytes": range(BYTES_MAX)},
}


class ToxicError(ValueError):
    """A toxic that must not be sent; the text is one line and says what is allowed."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Toxic:
    """One toxic: `attributes` in the server's own names and units. Raises ToxicError.

    `name` defaults to TYPE_STREAM, as the server's does. Toxicity 0 keeps a toxic in place without effect.
    """

    type: str
    attributes: Mapping[str, int]
    stream: Direction = "downstream"
    name: str = ""
    toxicity: Literal[0, 1] = 1

    def __post_init__(self) -> None:
        limits = _LIMITS.get(self.type)
        if limits is None:
            raise ToxicError(f"toxic {self.type!r}: no such type; there are {', '.join(_LIMITS)}")
        if self.stream not in {"upstream", "downstream"}:
            raise ToxicError(f"toxic {self.type}: stream is {self.stream!r}; use upstream or downstream")
        if self.toxicity not in {0, 1}:
            raise ToxicError(
                f"toxic {self.type}: toxicity is {self.toxicity}; use 1, or 0 for none: draw chance elsewhere"
            )
        if self.attributes.keys() != limits.keys():
            raise ToxicError(f"toxic {self.type}: attributes are {sorted(self.attributes)}; use {sorted(limits)}")
        for attribute, value in self.attributes.items():
            _check_value(f"toxic {self.type}: {attribute}", value, limits[attribute])
        if self.type == "slicer" and self.attributes["size_variation"] >= self.attributes["average_size"]:
            raise ToxicError("toxic slicer: size_variation must be less than average_size")
        # A frozen instance is completed here, so that equal toxics compare equal and nobody changes one later.
        object.__setattr__(self, "name", self.name or f"{self.type}_{self.stream}")
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))


def _check_value(what: str, value: object, allowed: range) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ToxicError(f"{what} is {value!r}; use a whole number")
    if value not in allowed:
        raise ToxicError(f"{what} is {value}; use {allowed[0]} to {allowed[-1]}")
