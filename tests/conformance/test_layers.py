"""Layers of retries for real: an application that tries again what the SDK has tried again, and the model of both."""

from types import SimpleNamespace

import openai
import pytest

from scenarios.layers import Layer
from scenarios.presets import preset
from simulator import chain as model
from tests.conformance.scripted_server import MODEL, Step, serving
from tests.simulator.chains import chain, pool

APPLICATION_TRIES = 4
"""With the SDK's three, the 12 sends that were reported for one answer of 429."""


def application(url: str) -> int:
    """Ask again what has failed, as programs around an SDK do. Returns how often it was raised to the user."""
    raised = 0
    with (
        openai.DefaultHttpxClient(trust_env=False, verify=False) as http,
        openai.OpenAI(base_url=url, api_key="drill", http_client=http) as client,
    ):
        for _ in range(APPLICATION_TRIES):
            try:
                client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Say a word."}])
            except openai.RateLimitError:
                raised += 1
    return raised


def modelled(status: int) -> float:
    """Return the sends of one operation by the model of the same two layers."""
    layers = (
        Layer(name="application", retries=APPLICATION_TRIES - 1, retry_on=("429",), in_process=True),
        preset("openai-3.x").layers[0],
    )
    pools = (pool(slots=None, fail_share=1.0, fail_status=status),)
    return model.run(chain(*layers, pools=pools, operations=3)).sends_per_operation()


@pytest.mark.parametrize("vetoed", [False, True], ids=["left to the layers", "with x-should-retry: false"])
def test_an_application_around_the_sdk(vetoed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A veto is heard by the SDK alone: the application's own tries stay."""
    monkeypatch.setattr("openai._base_client.time", SimpleNamespace(sleep=lambda _: None, time=lambda: 0.0))
    refusal = Step(status=429, headers={"x-should-retry": "false"} if vetoed else {})
    with serving([refusal] * 20) as server:
        assert application(server.url) == APPLICATION_TRIES
        sends = len(server.asked)
    assert sends == (APPLICATION_TRIES if vetoed else modelled(429))
    assert vetoed or sends == 12
