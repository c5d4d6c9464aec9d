"""Clients are warm before they are measured, and a loop's lateness is seen."""

import asyncio
import time

import pytest

from chaos import lag
from chaos.clients.client import client_for, load_libraries
from chaos.clients.ledger import Ledger
from chaos.warm_up import WarmUpError, warm_up
from scenarios.record import Sample
from scenarios.spec import Load


def loads(model: str = "drill-model") -> list[Load]:
    raw = Load(rate_rps=1, start_s=0, end_s=1, model=model)
    return [raw, Load(rate_rps=1, start_s=0, end_s=1, model=model, client="openai", stream=True)]


async def test_every_client_asks_and_nothing_is_written_down() -> None:
    ledger = Ledger()
    await load_libraries(loads("some-model"))
    clients = [client_for(load, "http://127.0.0.1:1", ledger) for load in loads("some-model")]
    await warm_up(list(zip(loads("some-model"), clients, strict=True)))
    assert (ledger.operations, ledger.requests) == ([], [])
    for client in clients:
        await client.__aexit__(None, None, None)


async def test_a_client_that_cannot_ask_is_an_error() -> None:
    [raw, _] = loads()
    async with client_for(raw, "http://127.0.0.1:1", Ledger()) as client:
        other = Load(rate_rps=1, start_s=0, end_s=1, model="other")
        with pytest.raises(WarmUpError, match="the raw client got '404 model_not_found'") as caught:
            await warm_up([(other, client)])
    assert caught.value.exit_code == 3


async def test_a_loop_that_stood_still_is_late() -> None:
    samples: list[Sample] = []
    watch = asyncio.create_task(lag.watch("me", samples.append))
    await asyncio.sleep(0.05)
    time.sleep(0.3)  # noqa: ASYNC251 - that is the point
    await asyncio.sleep(0.05)
    watch.cancel()
    await asyncio.wait([watch])
    assert max(sample.value for sample in samples) >= 0.2
    assert {(sample.kind, sample.source) for sample in samples} == {("loop_lag_s", "me")}


async def test_a_window_gives_a_sample_and_the_last_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "WINDOW_S", 0.1)
    samples: list[Sample] = []
    start_s = asyncio.get_running_loop().time()
    watch = asyncio.create_task(lag.watch("me", samples.append))
    await asyncio.sleep(0.35)
    watch.cancel()
    await asyncio.wait([watch])
    assert len(samples) >= 2
    assert [sample.t for sample in samples] == sorted(sample.t for sample in samples)
    assert samples[-1].t - start_s >= 0.35
