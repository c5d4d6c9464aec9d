"""Retry layers as the field ships them: one TOML file each, with where its numbers were read.

A layer of a scenario takes one by its name (`preset = "litellm"`); what it gives besides wins. A file of several layers
is a whole stack, outermost first: something for `pooldrill check --preset NAME`, not for one layer.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from scenarios.layers import Layer
from scenarios.parts import Count, Part

PRESETS = Path(__file__).parent


class PresetError(ValueError):
    """A preset cannot be used; the text is one line with file, what is wrong and the remedy."""

    exit_code: ClassVar[int] = 2


class Preset(Part, frozen=True, kw_only=True):
    """One file: layers from outermost to innermost. `source`: where the numbers were read; `chain_cap` as in spec."""

    title: Annotated[str, Meta(min_length=1, max_length=78)]
    source: Annotated[str, Meta(min_length=1, max_length=120)]
    chain_cap: Count | None = None
    layers: Annotated[tuple[Layer, ...], Meta(min_length=1, max_length=8)]


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


@cache
def layer_preset_names() -> tuple[str, ...]:
    """Return the names of those that are one layer, sorted."""
    return tuple(name for name in preset_names() if len(_data(name)["layers"]) == 1)


@cache
def preset(name: str) -> Preset:
    """Return a preset. Raises KeyError if there is none of this name, PresetError if its file cannot be used."""
    if name not in preset_names():
        raise KeyError(name)
    data = _data(name)
    try:
        return msgspec.convert({**data, "layers": [filled(layer) for layer in data["layers"]]}, Preset)
    except msgspec.ValidationError as error:
        raise PresetError(f"{PRESETS / name}.toml: {error}; remedy: mend it, or install Pooldrill again") from None


def filled(layer: dict[str, Any]) -> dict[str, Any]:
    """Fill in what a layer takes from its preset, as keys of TOML; one that is not known is left to the rules."""
    name = layer.get("preset")
    if name not in layer_preset_names():
        return layer
    taken = _data(str(name))["layers"][0]
    both = {**taken, **layer}
    if isinstance(taken.get("backoff"), dict) and isinstance(layer.get("backoff"), dict):
        both["backoff"] = {**taken["backoff"], **layer["backoff"]}
    return both


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((PRESETS / f"{name}.toml").read_text(encoding="utf-8"))
