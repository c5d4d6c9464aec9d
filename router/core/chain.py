"""What is left of the re-sends that a whole chain of layers may make for one request: headers in, headers out.

Laws
1. Every re-send that a layer above reports counts 1, whatever its cause, summed over the layers.
2. A header can only lower what is left, and the time that is left; whatever cannot be read changes nothing.
3. Our own failover of an UNSENT request entered no queue and spends nothing, unless `failover_spends`.
4. The layers above are told not to retry when a pool may be running the request, and when nothing is left; what a pool
   says in x-should-retry can only be lowered to false.
5. An SDK that gives up by itself sends again whatever runs; so our answer, with its no, comes a little earlier: by a
   twentieth of its patience, at most 0.25 s.
6. A deadline bounds the whole request, to its last byte. The read time-out of an SDK bounds a silence, so it ends with
   the first byte; the silences after that are the idle time-out's.

| header | what it reports |
| --- | --- |
| x-pooldrill-retries-left | a layer above leaves us so many |
| x-stainless-retry-count | OpenAI's SDKs: this is retry N, from 0 |
| x-envoy-attempt-count | Envoy: this is attempt N, from 1 |
| grpc-previous-rpc-attempts | gRPC (gRFC A6): so many attempts came before |
| amz-sdk-request | AWS SDKs: `attempt=N; max=N; ttl=...`, attempt from 1; max bounds what is left, ttl is not read |
| x-pooldrill-deadline-ms | milliseconds until nobody waits any more |
| x-stainless-read-timeout | OpenAI's SDKs: seconds of silence after which they give up |
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from router.core.delivery import Delivery

RETRIES_LEFT = "x-pooldrill-retries-left"
DEADLINE_MS = "x-pooldrill-deadline-ms"
STAINLESS_RETRY_COUNT = "x-stainless-retry-count"
STAINLESS_READ_TIMEOUT = "x-stainless-read-timeout"
ENVOY_ATTEMPT_COUNT = "x-envoy-attempt-count"
GRPC_PREVIOUS_ATTEMPTS = "grpc-previous-rpc-attempts"
AMZ_SDK_REQUEST = "amz-sdk-request"
SHOULD_RETRY = "x-should-retry"

READ = (
    RETRIES_LEFT, DEADLINE_MS, STAINLESS_RETRY_COUNT, STAINLESS_READ_TIMEOUT, ENVOY_ATTEMPT_COUNT,
    GRPC_PREVIOUS_ATTEMPTS, AMZ_SDK_REQUEST,
)  # fmt: skip
"""Every header that is read."""

_DIGITS_MAX = 15
"""Longer numbers are no counts of anything."""


class WhenUnknown(StrEnum):
    """What the layers above are told when a pool may be running the request."""

    FORBID = "forbid"
    LEAVE_TO_CLIENT = "leave_to_client"


class _GarbageError(ValueError):
    """A header that cannot be read; the text says why."""


class ChainBudget:
    """What one request has left.

    `spent` re-sends are reported by the layers above, `left` remain for everybody together; `patience_s` is the seconds
    that they still wait for a first byte (infinite: they do not say), `within_s` those within which to begin an answer,
    `whole_within_s` those within which to end it; `ignored` names the headers that could not be read, and why.
    """

    __slots__ = (
        "_failover_spends", "_when_unknown", "ignored", "left", "patience_s", "spent", "whole_within_s", "within_s",
    )  # fmt: skip

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        retries_max: int = 2,
        failover_spends: bool = False,
        when_unknown: WhenUnknown = WhenUnknown.FORBID,
    ) -> None:
        """Read the headers of a request; their names are in lower case, or the mapping does not mind."""
        self._failover_spends = failover_spends
        self._when_unknown = when_unknown
        self.ignored: dict[str, str] = {}
        self.spent = 0
        self.patience_s = self.within_s = self.whole_within_s = float("inf")
        allowed = float("inf")
        for name in READ:
            value = headers.get(name)
            if value is None:
                continue
            try:
                spent, left, patience_s = _read(name, value.strip())
            except _GarbageError as why:
                self.ignored[name] = str(why)
                continue
            self.spent += spent
            allowed = min(allowed, left)
            self.patience_s = min(self.patience_s, patience_s)
            if name == STAINLESS_READ_TIMEOUT:
                self.within_s = min(self.within_s, _answered_before(patience_s))
            else:
                self.whole_within_s = min(self.whole_within_s, patience_s)
        self.within_s = min(self.within_s, self.whole_within_s)
        self.left: int = int(max(0, min(retries_max - self.spent, allowed)))

    @property
    def failovers_left(self) -> int:
        """How many failovers this router may make for the request."""
        return self.left if self._failover_spends else 1

    def hurries(self, deadline_s: float) -> bool:
        """Tell whether the layers above wait less than our own deadline; the margin that we leave them is no hurry."""
        return self.patience_s < deadline_s

    def left_after(self, sends: int) -> int:
        """Return what the layers above have left after so many sends of ours."""
        return max(0, self.left - max(0, sends - 1)) if self._failover_spends else self.left

    def headers_out(self, delivery: Delivery, *, sends: int, failed: bool = True) -> Iterator[tuple[str, str]]:
        """Yield the headers of our answer; nobody retries what has not `failed` (a status below 400)."""
        left = self.left_after(sends)
        yield RETRIES_LEFT, str(left)
        forbidden = delivery is Delivery.UNKNOWN and self._when_unknown is WhenUnknown.FORBID
        if failed and (forbidden or not left):
            yield SHOULD_RETRY, "false"

    def __repr__(self) -> str:
        return f"<ChainBudget spent={self.spent} left={self.left}>"


def _read(name: str, value: str) -> tuple[int, float, float]:
    """Return what a header reports: re-sends spent, most that are left, seconds that are left. Raises _GarbageError."""
    endless = float("inf")
    match name:
        case "x-pooldrill-retries-left":
            return 0, _count(value), endless
        case "x-stainless-retry-count" | "grpc-previous-rpc-attempts":
            return _count(value), endless, endless
        case "x-envoy-attempt-count":
            return _attempt(value) - 1, endless, endless
        case "x-pooldrill-deadline-ms":
            return 0, endless, _count(value) / 1000
        case "x-stainless-read-timeout":
            return 0, endless, _seconds(value)
        case _:
            attempt, attempts_max = _amz(value)
            return attempt - 1, attempts_max - attempt, endless


def _count(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= _DIGITS_MAX):
        raise _GarbageError(f"{value[:40]!r} is not a whole number of at most {_DIGITS_MAX} digits")
    return int(value)


def _attempt(value: str) -> int:
    attempt = _count(value)
    if attempt < 1:
        raise _GarbageError("attempts count from 1")
    return attempt


def _seconds(value: str) -> float:
    whole, _, fraction = value.partition(".")
    return _count(whole) + (_count(fraction) / 10 ** len(fraction) if fraction else 0.0)


def _answered_before(silence_s: float) -> float:
    """Return the seconds within which to answer, so that the answer is there before the SDK gives up."""
    return silence_s - min(0.25, silence_s / 20)


def _amz(value: str) -> tuple[int, float]:
    """Return attempt and most attempts (infinite: not told)."""
    told = dict(_pairs(value))
    if "attempt" not in told:
        raise _GarbageError(f"{value[:40]!r} has no attempt=N")
    return _attempt(told["attempt"]), _attempt(told["max"]) if "max" in told else float("inf")


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    for pair in value.split(";"):
        key, _, text = pair.partition("=")
        yield key.strip().lower(), text.strip()
