"""When a stock SDK sends a request again, and how long it sleeps before.

The rules were read in the source of openai 3.57.0 (`_base_client.py`: `_should_retry`, `_calculate_retry_timeout`,
`request`), and a conformance test holds them to the package that is installed.
"""

from dataclasses import dataclass
from random import Random
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one HTTP request came to, as far as its client may act on it.

    `status` None: there was no whole answer (no connection, a time-out, a plain answer cut short). `begun`: the answer
    is a stream, and its head has reached the caller; what happens to it afterwards is the caller's. `retry_after_s` and
    `should_retry` are what the headers `retry-after` and `x-should-retry` say; None: nothing.
    """

    status: int | None = None
    begun: bool = False
    retry_after_s: float | None = None
    should_retry: bool | None = None

    def __post_init__(self) -> None:
        if self.begun and (self.status is None or self.status >= 400):
            raise ValueError(f"only a good answer is handed to the caller as a stream, got status {self.status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkSchedule:
    """The retry rules of one SDK as data; the defaults are those of openai 3.57.0. Times are seconds.

    `jitter` is the share by which a sleep is shortened at most. A longer Retry-After than `retry_after_max_s` forbids
    the retry.
    """

    retries_max: int = 2
    sleep_initial_s: float = 0.5
    sleep_max_s: float = 8.0
    jitter: float = 0.25
    retry_after_max_s: float = 120.0
    statuses: frozenset[int] = frozenset({408, 409, 429})
    statuses_from: int = 500

    @classmethod
    def openai(cls, *, retries_max: int) -> Self:
        """Return the schedule of `openai.OpenAI(max_retries=retries_max)`."""
        return cls(retries_max=retries_max)

    def sleep_before_retry_s(self, result: Result, *, retries_taken: int, draws: Random) -> float | None:
        """Return how long to sleep before the next request of the same call; None: there is none.

        `draws` is asked only where the sleep is the SDK's own choice.
        """
        if retries_taken >= self.retries_max or not self._may_retry(result):
            return None
        asked_s = result.retry_after_s
        if asked_s is not None and 0 < asked_s <= self.retry_after_max_s:
            return asked_s
        longest_s = min(self.sleep_initial_s * 2.0**retries_taken, self.sleep_max_s)
        return longest_s * (1 - self.jitter * draws.random())

    def _may_retry(self, result: Result) -> bool:
        if result.status is None:
            return True
        if result.status < 400:
            return False
        # An excessive Retry-After comes first: not even `x-should-retry: true` overrules it.
        if result.retry_after_s is not None and result.retry_after_s > self.retry_after_max_s:
            return False
        if result.should_retry is not None:
            return result.should_retry
        return result.status in self.statuses or result.status >= self.statuses_from
