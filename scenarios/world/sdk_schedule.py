"""When a stock SDK sends a request again, and how long it sleeps before: rules as data, one row an SDK.

The general form is a truncated exponential back-off: min(initial * factor^k, max) * (1 - jitter * U), k from 0, U drawn
from [0, 1); what a server asks for with Retry-After, and what it says in `x-should-retry`, come before it where the SDK
listens to them.

The rules of openai were read in the source of 3.57.0 and 2.49.0 (`_base_client.py`: `_should_retry`,
`_calculate_retry_timeout`, `request`), and a conformance test holds them to the package that is installed. Those of AWS
were read in botocore 1.44.8 (`retries/standard.py`).
"""

from dataclasses import dataclass
from random import Random
from typing import Literal, Self


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

    `jitter` is the share by which a sleep is shortened at most; 1 is called full jitter. `throttle_initial_s` takes the
    place of `sleep_initial_s` after a status of `throttle_statuses`. A longer Retry-After than `retry_after_max_s`
    forbids the retry, or is passed over for the SDK's own back-off (`retry_after_beyond`). Retried are connections that
    failed, the listed statuses, and all from `statuses_from` on.
    """

    retries_max: int = 2
    sleep_initial_s: float = 0.5
    sleep_max_s: float = 8.0
    factor: float = 2.0
    jitter: float = 0.25
    throttle_initial_s: float | None = None
    throttle_statuses: frozenset[int] = frozenset()
    honours_retry_after: bool = True
    retry_after_max_s: float = 120.0
    retry_after_beyond: Literal["give_up", "own"] = "give_up"
    honours_should_retry: bool = True
    statuses: frozenset[int] = frozenset({408, 409, 429})
    statuses_from: int = 500

    @classmethod
    def openai(cls, *, retries_max: int) -> Self:
        """Return the schedule of `openai.OpenAI(max_retries=retries_max)`, from 3.0 on; 2.54 has it already."""
        return cls(retries_max=retries_max)

    @classmethod
    def openai_2(cls, *, retries_max: int) -> Self:
        """Return the schedule of openai 2 up to 2.49: a Retry-After above a minute is passed over."""
        return cls(retries_max=retries_max, retry_after_max_s=60.0, retry_after_beyond="own")

    @classmethod
    def aws(cls, *, retries_max: int = 2) -> Self:
        """Return the schedule of AWS's SDKs in their mode `standard`; their quota is a budget (router.core.budgets).

        Their own header `x-amz-retry-after`, which no pool here sends, is left out.
        """
        return cls(
            retries_max=retries_max,
            sleep_initial_s=0.05,
            sleep_max_s=20.0,
            jitter=1.0,
            throttle_initial_s=1.0,
            throttle_statuses=frozenset({429}),
            honours_retry_after=False,
            honours_should_retry=False,
            statuses=frozenset({429, 500, 502, 503, 504}),
            statuses_from=600,
        )

    def sleep_before_retry_s(self, result: Result, *, retries_taken: int, draws: Random) -> float | None:
        """Return how long to sleep before the next request of the same call; None: there is none.

        `draws` is asked only where the sleep is the SDK's own choice.
        """
        if retries_taken >= self.retries_max or not self._may_retry(result):
            return None
        asked_s = result.retry_after_s if self.honours_retry_after else None
        if asked_s is not None and 0 < asked_s <= self.retry_after_max_s:
            return asked_s
        longest_s = min(self._initial_s(result) * self.factor**retries_taken, self.sleep_max_s)
        return longest_s * (1 - self.jitter * draws.random())

    def _initial_s(self, result: Result) -> float:
        if self.throttle_initial_s is not None and result.status in self.throttle_statuses:
            return self.throttle_initial_s
        return self.sleep_initial_s

    def _may_retry(self, result: Result) -> bool:
        if result.status is None:
            return True
        if result.status < 400:
            return False
        # An excessive Retry-After comes first: not even `x-should-retry: true` overrules it.
        if self._excessive(result.retry_after_s):
            return False
        if result.should_retry is not None and self.honours_should_retry:
            return result.should_retry
        return result.status in self.statuses or result.status >= self.statuses_from

    def _excessive(self, asked_s: float | None) -> bool:
        refuses = self.honours_retry_after and self.retry_after_beyond == "give_up"
        return refuses and asked_s is not None and asked_s > self.retry_after_max_s
