"""What the static check sees of presets: one, or several on top of each other."""

from collections.abc import Sequence

import msgspec

from scenarios.keys import nearest
from scenarios.layers import Layer
from scenarios.presets import Preset, preset, preset_names
from scenarios.spec import Router
from scenarios.static.of_scenario import of_layers
from scenarios.static.stack import Stack, Station
from scenarios.usage import UsageError


def of_presets(
    names: Sequence[str],
    *,
    rate_rps: float | None = None,
    clients: int = 1,
    pools: int | None = None,
    capacity_rps: float | None = None,
) -> Stack:
    """Return the stack of presets, outermost first, before so many pools of `capacity_rps` each. Raises UsageError.

    `clients` have a budget each where a preset's budget is a client's; `rate_rps` is that of all of them together.
    """
    found = [known(name) for name in names]
    caps = [each.chain_cap for each in found if each.chain_cap is not None]
    layers = [_shared(layer, clients) for each in found for layer in each.layers]
    return Stack(
        name=" + ".join(names),
        title=found[0].title if len(found) == 1 else "presets, outermost first",
        stages=tuple(of_layers(layers, Router())),
        stations=_stations(pools, capacity_rps),
        rate_rps=rate_rps,
        resends_max=min(caps, default=None),
    )


def _shared(layer: Layer, clients: int) -> Layer:
    return msgspec.structs.replace(layer, clients=clients) if layer.budget_scope == "client" else layer


def known(name: str) -> Preset:
    """Return a preset. Raises UsageError with the nearest name."""
    try:
        return preset(name)
    except KeyError:
        meant = nearest(name, preset_names())
        remedy = f"did you mean {meant}?" if meant else "see pooldrill check --list-presets"
        raise UsageError(f"no preset is called {name!r}; remedy: {remedy}") from None


def _stations(pools: int | None, capacity_rps: float | None) -> tuple[Station, ...]:
    if pools is None and capacity_rps is None:
        return ()
    return tuple(Station(id=f"pool{turn + 1}", capacity_rps=capacity_rps, assumed=True) for turn in range(pools or 1))
