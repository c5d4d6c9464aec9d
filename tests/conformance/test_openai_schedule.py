"""The SDK's retry schedule against the SDK itself: the real clients and a scripted server on loopback.

Each row is a script for the server. What the schedule says of it must be what the installed package does: how many
requests, with which `x-stainless-retry-count`, and how long it sleeps before each. The schedule is that of the version
which is installed, so the same rows hold for another one that PYTHONPATH puts before it.
"""

import asyncio
import importlib
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import NamedTuple

import openai
import pytest

from scenarios.world.sdk_schedule import Result, SdkSchedule
from tests.conformance.scripted_server import MODEL, Step, serving

SEED = 20
VERSION = tuple(int(part) for part in openai.__version__.split(".")[:2])
KEEPS_TO_A_MINUTE = VERSION < (2, 50)
"""Whether a Retry-After above a minute is passed over; later versions take one of two minutes, and none above."""
TIMEOUT_S = 5.0
"""Of a client whose server answers at once; long enough for any busy machine."""
SILENCE_S = 1.0
"""Of a client whose server says nothing at first."""
MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Say eight words."}]
REFUSAL = "503 with x-should-retry: false, as the router says it of a request that may be running"


class Case(NamedTuple):
    """Steps of the server, each with the result that it is to the schedule."""

    steps: list[tuple[Step, Result]]
    stream: bool = False
    retries_max: int = 2
    timeout_s: float = TIMEOUT_S


def status(status: int, times: int = 1, **named: str) -> list[tuple[Step, Result]]:
    """Return answers of one status; headers by name with _ for -."""
    headers = {name.replace("_", "-"): value for name, value in named.items()}
    step = Step(status=status, headers=headers)
    result = Result(status=status, retry_after_s=_seconds(headers), should_retry=_said(headers))
    return [(step, result)] * times


def _seconds(headers: dict[str, str]) -> float | None:
    if "retry-after-ms" in headers:
        return float(headers["retry-after-ms"]) / 1000
    return float(headers["retry-after"]) if "retry-after" in headers else None


def _said(headers: dict[str, str]) -> bool | None:
    return {"true": True, "false": False}.get(headers.get("x-should-retry", ""))


DROPPED = (Step("drop"), Result())
CUT_SHORT = (Step("cut"), Result())
SILENT = (Step("silence"), Result())
STREAM_CUT = (Step("cut"), Result(status=200, begun=True))
STREAM_BEGUN = (Step(), Result(status=200, begun=True))
GOOD = status(200)

CASES = {
    "a good answer": Case(GOOD),
    "408": Case(status(408) + GOOD),
    "409": Case(status(409) + GOOD),
    "429": Case(status(429) + GOOD),
    "500 to the end": Case(status(500, 3)),
    "502, then 503, then good": Case(status(502) + status(503) + GOOD),
    "504 to the end": Case(status(504, 3)),
    "508": Case(status(508) + GOOD),
    "529": Case(status(529) + GOOD),
    "400": Case(status(400)),
    "401": Case(status(401)),
    "404": Case(status(404)),
    "413": Case(status(413)),
    "422": Case(status(422)),
    "no retries": Case(status(503), retries_max=0),
    "sleeps double up to 8 s": Case(status(503, 8), retries_max=7),
    REFUSAL: Case(status(503, x_should_retry="false")),
    "400 with x-should-retry: true": Case(status(400, x_should_retry="true") + GOOD),
    "x-should-retry: maybe": Case(status(503, x_should_retry="maybe") + GOOD),
    "Retry-After 2": Case(status(503, retry_after="2") + status(429, retry_after="1.5") + GOOD),
    "Retry-After 120": Case(status(503, retry_after="120") + GOOD),
    "Retry-After 121": Case(status(503, retry_after="121")),
    "Retry-After 121 with x-should-retry: true": Case(status(503, retry_after="121", x_should_retry="true")),
    "Retry-After 0": Case(status(503, retry_after="0") + GOOD),
    "Retry-After -1": Case(status(503, retry_after="-1") + GOOD),
    "Retry-After inf": Case(
        [(Step(status=503, headers={"retry-after": "inf"}), Result(status=503, retry_after_s=None)), *GOOD]
    ),
    "Retry-After 60": Case(status(503, retry_after="60") + GOOD),
    "Retry-After 61": Case(status(503, retry_after="61") + GOOD),
    "Retry-After soon": Case(
        [(Step(status=503, headers={"retry-after": "soon"}), Result(status=503, retry_after_s=None)), *GOOD]
    ),
    "retry-after-ms 60001": Case(status(503, retry_after_ms="60001") + GOOD),
    "retry-after-ms 120001": Case(status(503, retry_after_ms="120001") + GOOD),
    "retry-after-ms before retry-after": Case(status(503, retry_after_ms="1500", retry_after="9") + GOOD),
    "Retry-After with x-should-retry: false": Case(status(503, retry_after="2", x_should_retry="false")),
    "dropped without an answer": Case([DROPPED, DROPPED, *GOOD]),
    "dropped to the end": Case([DROPPED, DROPPED, DROPPED]),
    "a plain answer cut short": Case([CUT_SHORT, *GOOD]),
    "silence": Case([SILENT, *GOOD], timeout_s=SILENCE_S, retries_max=1),
    "a stream": Case([STREAM_BEGUN], stream=True),
    "a stream cut short": Case([STREAM_CUT], stream=True),
    "503, then a stream cut short": Case([*status(503), STREAM_CUT], stream=True),
    "dropped before a stream": Case([DROPPED, STREAM_BEGUN], stream=True),
}


class Seen(NamedTuple):
    """What was done: the retry count of each request, and the sleeps between them."""

    retry_counts: list[int]
    sleeps_s: list[float]


def schedule_of(retries_max: int) -> SdkSchedule:
    """Return the schedule of the version that is installed."""
    made = SdkSchedule.openai_2 if KEEPS_TO_A_MINUTE else SdkSchedule.openai
    return made(retries_max=retries_max)


def by_schedule(case: Case) -> Seen:
    """Return what the schedule does with a script."""
    schedule, draws = schedule_of(case.retries_max), Random(SEED)
    seen = Seen([], [])
    for taken, (_, result) in enumerate([*case.steps, *GOOD]):  # the server is good beyond its script
        seen.retry_counts.append(taken)
        sleep_s = schedule.sleep_before_retry_s(result, retries_taken=taken, draws=draws)
        if sleep_s is None:
            break
        seen.sleeps_s.append(sleep_s)
    return seen


def patched(monkeypatch: pytest.MonkeyPatch, *, sleeps_s: list[float]) -> None:
    """Let both clients note their sleeps instead of sleeping, and draw what the schedule draws."""

    async def sleep(delay_s: float) -> None:
        sleeps_s.append(delay_s)

    draws = Random(SEED)
    monkeypatch.setattr("openai._base_client.random", draws.random)
    monkeypatch.setattr("openai._base_client.anyio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr("openai._base_client.time", SimpleNamespace(sleep=sleeps_s.append, time=lambda: 0.0))


def ask(url: str, case: Case) -> None:
    with (
        # No certificates are needed here, and loading them takes longer than all the rest.
        openai.DefaultHttpxClient(trust_env=False, verify=False) as http,
        openai.OpenAI(
            base_url=url, api_key="drill", max_retries=case.retries_max, timeout=case.timeout_s, http_client=http
        ) as client,
    ):
        answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=case.stream)
        if isinstance(answer, openai.Stream):
            with answer:
                for _ in answer:
                    pass


async def ask_async(url: str, case: Case) -> None:
    async with (
        openai.DefaultAsyncHttpxClient(trust_env=False, verify=False) as http,
        openai.AsyncOpenAI(
            base_url=url, api_key="drill", max_retries=case.retries_max, timeout=case.timeout_s, http_client=http
        ) as client,
    ):
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=case.stream)
        if isinstance(answer, openai.AsyncStream):
            async with answer:
                async for _ in answer:
                    pass


def ask_in_a_loop(url: str, case: Case) -> None:
    asyncio.run(ask_async(url, case))


def errors() -> tuple[type[Exception], ...]:
    """Return what a call can raise: before version 3 a stream that breaks off raises what the HTTP client does."""
    if VERSION >= (3, 0):
        return (openai.OpenAIError,)
    broken: type[Exception] = importlib.import_module("httpx").HTTPError
    return (openai.OpenAIError, broken)


def is_good(case: Case) -> bool:
    """Whether the call ends well, by the schedule."""
    last = len(by_schedule(case).retry_counts) - 1
    step, result = [*case.steps, *GOOD][last]
    return step.act == "answer" and result.status == 200


def by_client(case: Case, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], None]) -> Seen:
    """Return what a client did with the script; `run` makes one call to a URL."""
    sleeps_s: list[float] = []
    patched(monkeypatch, sleeps_s=sleeps_s)
    with serving([step for step, _ in case.steps]) as server:
        if is_good(case):
            run(server.url)
        else:
            with pytest.raises(errors()):
                run(server.url)
        counts = [int(headers["x-stainless-retry-count"]) for headers in server.asked]
    return Seen(counts, sleeps_s)


@pytest.mark.parametrize("client", [ask, ask_in_a_loop], ids=["OpenAI", "AsyncOpenAI"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_schedule_is_what_the_client_does(
    case: Case, client: Callable[[str, Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = by_client(case, monkeypatch, lambda url: client(url, case))
    expected = by_schedule(case)
    assert done.retry_counts == expected.retry_counts == list(range(len(expected.retry_counts)))
    assert done.sleeps_s == pytest.approx(expected.sleeps_s, abs=1e-12)


def test_a_connect_that_is_refused_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps_s: list[float] = []
    patched(monkeypatch, sleeps_s=sleeps_s)
    with serving([]) as server:
        url = server.url
    refused = Case([(Step("drop"), Result())] * 3)
    with pytest.raises(openai.APIConnectionError):
        ask(url, refused)  # nobody listens there any more
    assert sleeps_s == pytest.approx(by_schedule(refused).sleeps_s, abs=1e-12)


def test_a_retry_after_that_is_a_date_counts_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule takes seconds; a date is turned into them by the client's own clock, here at 0."""
    for at_s in (7.0, 90.0, 500.0, -5.0):
        step = Step(status=503, headers={"retry-after": formatdate(at_s, usegmt=True)})
        case = Case([(step, Result(status=503, retry_after_s=at_s)), *GOOD])
        done = by_client(case, monkeypatch, partial(ask, case=case))
        assert done.sleeps_s == by_schedule(case).sleeps_s
        assert at_s != 7.0 or done.sleeps_s == [7.0]


def test_the_defaults_are_the_packages_own() -> None:
    schedule = schedule_of(2)
    assert schedule.retries_max == openai.DEFAULT_MAX_RETRIES
    assert schedule.sleep_initial_s == openai._constants.INITIAL_RETRY_DELAY
    assert schedule.sleep_max_s == openai._constants.MAX_RETRY_DELAY
    if not KEEPS_TO_A_MINUTE:  # before, the minute stood in the code
        assert schedule.retry_after_max_s == openai._constants.MAX_RETRY_AFTER_DELAY


def test_a_script_says_what_is_done_to_its_end() -> None:
    """Every row but those that versions take differently is used up, so none tests less than it says."""
    for name, case in CASES.items():
        if not name.startswith(("Retry-After 1", "retry-after-ms 1")):
            assert len(by_schedule(case).retry_counts) == len(case.steps), name
