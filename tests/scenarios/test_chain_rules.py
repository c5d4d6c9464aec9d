"""What cannot be meant in a scenario with layers is refused in one line that says where, what and what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scenarios import chain_rules
from scenarios.layers import Layer
from scenarios.load import LoadError, parse
from scenarios.spec import Expect, Fault, Load, Pool, Scenario, Semantics, Service

TEXT = """
name = "mine"
title = "a chain"
seed = 1
duration_s = 10
model_only = "a test"
[[layers]]
name = "sdk"
preset = "openai-3.x"
retries = 3
backoff = { jitter = 0.5 }
[[layers]]
name = "gateway"
retries = 2
[[pools]]
id = "east"
slots = 2
[[load]]
rate_rps = 5
start_s = 0
end_s = 9
[expect]
"""
BASE = parse(TEXT, Path("mine.toml"))


def with_(**changes: Any) -> Scenario:
    """Return the scenario with some of its parts changed."""
    return msgspec.structs.replace(BASE, **changes)


def layer(place: int, **changes: Any) -> Scenario:
    """Return the scenario with one layer changed."""
    layers = list(BASE.layers)
    layers[place] = msgspec.structs.replace(layers[place], **changes)
    return with_(layers=tuple(layers))


def pool(**changes: Any) -> Scenario:
    """Return the scenario with its pool changed."""
    return with_(pools=(msgspec.structs.replace(BASE.pools[0], **changes),))


def load(**changes: Any) -> Scenario:
    """Return the scenario with its load changed."""
    return with_(load=(msgspec.structs.replace(BASE.load[0], **changes),))


def fault(**given: Any) -> Scenario:
    """Return the scenario with a fault."""
    return with_(faults=(Fault(**{"pool": "east", "inject_s": 1.0, "clear_s": 2.0, **given}),))


def test_a_preset_is_filled_in_and_what_the_file_says_wins() -> None:
    sdk = BASE.layers[0]
    assert (sdk.retries, sdk.honours_veto, sdk.in_process) == (3, True, True)
    assert (sdk.backoff.initial_s, sdk.backoff.jitter) == (0.5, 0.5)
    assert BASE.layers[1] == Layer(name="gateway", retries=2)


def test_what_can_be_meant_has_no_problem() -> None:
    assert list(chain_rules.problems(BASE)) == []
    assert list(chain_rules.problems(with_(chain_cap=2, layers=(Layer(name="a", counts_chain=True),)))) == []


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (lambda: layer(0, preset="openai-3"), "layers[0].preset: no preset is called 'openai-3'"),
        (lambda: layer(1, budget="tokens"), "layers[1].budget: 'tokens' is no budget"),
        (lambda: layer(1, budget="window:ttl=3"), "layers[1].budget: window has no knob 'ttl'"),
        (lambda: layer(1, timeout_covers="connect"), "layers[1].timeout_covers: means nothing without"),
        (lambda: layer(1, timeout_spread="exponential"), "layers[1].timeout_spread: means nothing without"),
        (lambda: layer(0, preset="", pools="other"), "layers[0].pools: only the innermost layer"),
        (
            lambda: layer(0, preset="", connect_timeout_s=5.0),
            "layers[0].connect_timeout_s: only the innermost layer connects to pools",
        ),
        (
            lambda: layer(1, attempt_timeout_s=2.0, connect_timeout_s=5.0),
            "layers[1].connect_timeout_s: 5 is never reached: attempt_timeout_s ends an attempt after 2",
        ),
        (lambda: layer(1, clients=3), "layers[1].clients: means nothing unless"),
        (lambda: layer(1, kind="pooldrill"), "layers[1].retries: means nothing for kind pooldrill"),
        (lambda: layer(0, preset="", kind="pooldrill"), "layers[0].kind: only the innermost"),
        (lambda: layer(1, name="sdk"), "layers[0].name: 'sdk' is used 2 times"),
        (lambda: with_(chain_cap=1), "chain_cap: binds no layer"),
        (lambda: with_(layers=(), semantics=Semantics(late_answers="count")), "semantics: means nothing"),
        (lambda: with_(model_only=""), "model_only: is empty, but a real run has no layer like gateway"),
        (
            lambda: with_(model_only="", layers=(Layer(name="app", retries=1), Layer(name="r", kind="pooldrill"))),
            "model_only: is empty, but real clients are raw ones",
        ),
        (lambda: pool(slots=None, queue_max=3), "pools[0].queue_max: means nothing without slots"),
        (lambda: pool(slots=None, order="lifo"), "pools[0].order: means nothing without slots"),
        (lambda: pool(slots=None, service=Service(load_factor=2.0)), "pools[0].service.load_factor: means nothing"),
        (lambda: pool(slots=None, probes_queue=True), "pools[0].probes_queue: means nothing without slots"),
        (lambda: pool(cache_sessions=3), "pools[0].cache_sessions: means nothing unless"),
        (lambda: load(cv=2.0), "load[0].cv: means nothing for even arrivals"),
        (lambda: load(file="x.csv"), "load[0].file: means nothing for even arrivals"),
        (lambda: load(arrivals="replay"), "load[0].file: is missing"),
        (lambda: fault(kind="refused", share=0.5), "faults[0].share: means nothing for refused"),
        (lambda: fault(kind="slow_down"), "faults[0].factor: is missing"),
        (lambda: fault(kind="errors"), "faults[0].share: is missing"),
        (lambda: fault(kind="capacity_loss"), "faults[0].share: or slots must be given"),
        (lambda: fault(kind="capacity_loss", share=0.5, slots=1), "faults[0].share: or slots must be given"),
        (lambda: with_(exact=True), "exact: cannot hold for a chain of layers"),
        (lambda: with_(horizon_s=5.0), "horizon_s: 5 stops the model before duration_s 10"),
        (lambda: with_(warm_up_s=10.0), "warm_up_s: 10 leaves nothing of the run"),
        (
            lambda: with_(expect=Expect(measures={"goodput": (1.0, 0.5)})),
            "expect.measures.goodput: [1, 0.5] is no range",
        ),
    ],
)
def test_refused_in_one_line(scenario: Callable[[], Scenario], says: str) -> None:
    found = [f"{problem.key}: {problem.what}" for problem in chain_rules.problems(scenario())]
    assert any(text.startswith(says) for text in found), found
    assert all(problem.remedy for problem in chain_rules.problems(scenario()))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("retries = 2", "retrys = 2", "layers[1].retrys: unknown key; remedy: did you mean retries?"),
        ("retries = 2", "retries = -1", "layers[1].retries: expected int >= 0; remedy: give an integer"),
        ("retries = 2", 'retry_on = ["6xx"]', "layers[1].retry_on[0]: expected str matching regex"),
        ("retries = 2", 'retry_on = "5xx"', "layers[1].retry_on: expected array, got str; remedy: give a list, each"),
        ("[expect]", "[expect]\nmeasures = { goodput = 1 }", "expect.measures.goodput: expected array"),
    ],
)
def test_what_has_the_wrong_shape_is_refused_with_its_key(old: str, new: str, says: str) -> None:
    with pytest.raises(LoadError) as caught:
        parse(TEXT.replace(old, new, 1) if old != "retries = 2" else TEXT.replace(old, new), Path("mine.toml"))
    assert str(caught.value).startswith(f"mine.toml: {says}")


def test_loads_and_pools_of_the_drills_need_no_word_of_all_this() -> None:
    plain = with_(layers=(), model_only="", load=(Load(rate_rps=5, start_s=0.0, end_s=9.0),), pools=(Pool(id="east"),))
    assert list(chain_rules.problems(plain)) == []


def test_layers_that_multiply_beyond_what_can_be_run_are_refused() -> None:
    layers = tuple(Layer(name=name, retries=999, counts_chain=True) for name in ("app", "sdk", "mesh"))
    endless = msgspec.structs.replace(BASE, layers=layers)
    assert [problem.key for problem in chain_rules.problems(endless)] == ["layers"]
    assert not list(chain_rules.problems(msgspec.structs.replace(endless, chain_cap=2)))
    assert not list(chain_rules.problems(msgspec.structs.replace(BASE, layers=(Layer(name="a", retries=1_000_000),))))
