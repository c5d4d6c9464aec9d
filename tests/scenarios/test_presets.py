"""Presets: every file can be used, keeps the rules of layers, and has its worst case right."""

from pathlib import Path

import pytest

from scenarios import presets
from scenarios.chain_rules import layer_problems
from scenarios.load import LoadError, parse
from scenarios.presets import PresetError, filled, layer_preset_names, preset, preset_names


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_keeps_the_rules_and_names_its_source(name: str) -> None:
    stack = preset(name)
    assert stack.source.isprintable()
    assert stack.title.isprintable()
    *_, innermost = stack.layers
    for index, layer in enumerate(stack.layers):
        assert not list(layer_problems(f"layers[{index}]", layer, innermost=layer is innermost))
    assert (stack.chain_cap is None) == (not any(layer.counts_chain for layer in stack.layers))


def test_all_that_the_field_ships_is_there() -> None:
    assert set(preset_names()) == {
        "aws-2026", "aws-legacy", "drill-article-after", "drill-article-before", "envoy-ai-gateway",
        "envoy-connect-failure", "finagle", "grpc", "haproxy", "litellm", "openai-2.x", "openai-3.x", "sglang", "sre",
        "vllm-router",
    }  # fmt: skip
    assert set(preset_names()) - set(layer_preset_names()) == {"drill-article-after", "drill-article-before"}


def test_what_a_layer_gives_wins_over_its_preset() -> None:
    layer = filled({"name": "mine", "preset": "openai-3.x", "retries": 5, "backoff": {"jitter": 0.5}})
    assert (layer["name"], layer["retries"], layer["retry_after_s_max"]) == ("mine", 5, 120.0)
    assert layer["backoff"] == {"initial_s": 0.5, "max_s": 8.0, "jitter": 0.5}
    assert filled({"name": "mine", "retries": 1}) == {"name": "mine", "retries": 1}
    assert filled({"preset": "drill-article-before"}) == {"preset": "drill-article-before"}, "a stack is no layer"


SCENARIO = """
name = "layered"
title = "One layer of a preset"
seed = 1
duration_s = 5.0
model_only = "queues"
pools = [{ id = "a" }]
load = [{ rate_rps = 5.0, start_s = 0.0, end_s = 2.0 }]
layers = [{ name = "outer", preset = "PRESET" }]
expect = {}
"""


def test_a_scenario_takes_a_preset() -> None:
    scenario = parse(SCENARIO.replace("PRESET", "litellm"), Path("layered.toml"))
    assert (scenario.layers[0].name, scenario.layers[0].retries) == ("outer", 17)


def test_a_preset_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(LoadError, match=r"no preset is called 'sglan'; remedy: did you mean sglang\?"):
        parse(SCENARIO.replace("PRESET", "sglan"), Path("layered.toml"))


def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.toml").write_text('title = "Odd"\nsource = "none"\n[[layers]]\nname = "odd"\nretrys = 1\n')
    monkeypatch.setattr(presets, "PRESETS", tmp_path)
    caches = (preset_names, layer_preset_names, preset, presets._data)
    for cached in caches:
        cached.cache_clear()
    try:
        with pytest.raises(PresetError, match=r"odd\.toml: .*`retrys`.*; remedy: ") as caught:
            preset("odd")
        with pytest.raises(KeyError):
            preset("even")
    finally:
        for cached in caches:
            cached.cache_clear()
    assert str(caught.value).isprintable()
