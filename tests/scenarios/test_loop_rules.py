"""Router loops in a scenario: off unless they are asked for, and refused in one line where they mean nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from router.core.config import RouterConfig
from router.core.discovery import DiscoveryConfig
from router.core.drift import DriftConfig
from router.core.health import HealthConfig
from router.core.switchover import SwitchConfig
from scenarios.load import LoadError, parse
from scenarios.loops import Discovery, Drift, Health, SwitchOrder
from scenarios.spec import Router
from tests.scenarios.test_load import document

Data = dict[str, Any]


def looped() -> Data:
    """Return a scenario with every loop on."""
    return {
        "name": "looped",
        "title": "Every loop is on",
        "seed": 1,
        "duration_s": 20.0,
        "model_only": "a test",
        "pools": [{"id": "east"}, {"id": "west"}, {"id": "zulu", "join_s": 5.0, "leave_s": 15.0}],
        "load": [{"rate_rps": 5.0, "start_s": 0.0, "end_s": 20.0}],
        "faults": [
            {"kind": "not_ready", "pool": "west", "inject_s": 4.0, "clear_s": 8.0, "status": 503, "share": 0.5},
            {"kind": "clock_offset", "pool": "west", "inject_s": 6.0, "clear_s": 9.0, "offset_s": -40.0},
        ],
        "layers": [{"name": "router", "kind": "pooldrill"}],
        "router": {
            "selection": "primary_backup",
            "health": {},
            "discovery": {"troubles": [{"kind": "incomplete", "pool": "east", "inject_s": 2.0, "clear_s": 3.0}]},
            "drift": {},
            "switch": {"at_s": 5.0, "to": "west"},
        },
        "expect": {"answers": {"200": [1, 100]}},
    }


def refusal(data: Data) -> str:
    with pytest.raises(LoadError) as caught:
        parse(document(data), Path("looped.toml"))
    text = str(caught.value)
    assert text.startswith("looped.toml: ")
    assert "; remedy: " in text
    assert text.isprintable(), "an error is one line"
    return text


def test_a_scenario_with_every_loop_loads_and_is_off_without_them() -> None:
    router = parse(document(looped()), Path("looped.toml")).router
    assert router.loops == ("health", "discovery", "drift", "switch")
    assert Router().loops == ()
    assert router.config() == RouterConfig(**Router(selection=router.selection).decisions)


@pytest.mark.parametrize(
    ("part", "core", "own"),
    [
        (Health(), HealthConfig(required=True, panic=True), set()),
        (Discovery(), DiscoveryConfig(), {"troubles"}),
        (Drift(), DriftConfig(), set()),
        (SwitchOrder(at_s=1.0, to="west"), SwitchConfig(), {"at_s", "to"}),
    ],
)
def test_knobs_are_the_cores_with_its_names_and_defaults(part: msgspec.Struct, core: Any, own: set[str]) -> None:
    told = {name: value for name, value in msgspec.structs.asdict(part).items() if name not in own}
    assert type(core)(**told) == core
    assert set(told) == set(core.__dataclass_fields__)


def _without(*path: str) -> Callable[[Data], object]:
    def edit(data: Data) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return edit


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda d: d["router"]["health"].update(fal=3), "router.health.fal: unknown key; remedy: did you mean fall?"),
        (lambda d: d["router"]["health"].update(fall=0), "router.health.fall: expected int >= 1"),
        (
            lambda d: d["router"]["discovery"]["troubles"][0].update(pol="x"),
            "router.discovery.troubles[0].pol: unknown key; remedy: did you mean pool?",
        ),
        (
            lambda d: d["layers"].__setitem__(0, {"name": "client"}),
            "router.health: is modelled only for a layer of kind pooldrill",
        ),
        (_without("layers"), "router.health: is modelled only for a layer of kind pooldrill"),
        (_without("router", "discovery"), "pools[2].join_s: means nothing for a router that is given its pools"),
        (
            lambda d: [pool.update(join_s=1.0) for pool in d["pools"]],
            "pools[0].join_s: leaves no pool for the list at the start",
        ),
        (lambda d: d["pools"][2].update(leave_s=5.0), "pools[2].leave_s: 5 is not after join_s 5"),
        (
            lambda d: d["router"]["discovery"]["troubles"][0].update(kind="error"),
            "router.discovery.troubles[0].pool: means nothing for error",
        ),
        (
            lambda d: d["router"]["discovery"]["troubles"][0].pop("pool"),
            "router.discovery.troubles[0].pool: is missing",
        ),
        (
            lambda d: d["router"]["discovery"]["troubles"][0].update(pool="eats"),
            "router.discovery.troubles[0].pool: no pool is called 'eats'; remedy: did you mean east?",
        ),
        (
            lambda d: d["router"]["discovery"]["troubles"][0].update(clear_s=2.0),
            "router.discovery.troubles[0].clear_s: 2 is not after inject_s 2",
        ),
        (
            lambda d: d["router"]["discovery"]["troubles"][0].update(clear_s=21.0),
            "router.discovery.troubles[0].clear_s: 21 is after the run's end at 20",
        ),
        (
            lambda d: d["router"]["discovery"]["troubles"].append({"kind": "empty", "inject_s": 2.5, "clear_s": 4.0}),
            "router.discovery.troubles[1]: overlaps troubles[0] (2 to 3)",
        ),
        (
            lambda d: d["router"].update(selection="round_robin"),
            "router.switch: means nothing for selection round_robin",
        ),
        (lambda d: d["router"]["switch"].update(to="wets"), "router.switch.to: no pool is called 'wets'"),
        (lambda d: d["router"]["switch"].update(at_s=21.0), "router.switch.at_s: 21 is after the run's end at 20"),
        (_without("router", "drift"), "faults[1].kind: clock_offset is seen by nothing; remedy: add [router.drift]"),
        (lambda d: d["faults"][1].update(offset_s=0.0), "faults[1].offset_s: is missing or 0"),
        (lambda d: d["faults"][0].update(offset_s=1.0), "faults[0].offset_s: means nothing for not_ready"),
        (lambda d: d.update(model_only=""), "model_only: is empty, but router.health is modelled only"),
        (
            lambda d: d["faults"].append({"kind": "refused", "pool": "west", "inject_s": 7.0, "clear_s": 9.0}),
            "faults[2]: overlaps faults[0] on west (4 to 8)",
        ),
        (lambda d: d["router"].update(cooldown_s=60.0), "router: cooldown_s must be at most cooldown_s_max (55)"),
    ],
)
def test_refused_in_one_line(edit: Callable[[Data], object], says: str) -> None:
    data = looped()
    edit(data)
    assert says in refusal(data)


def test_faults_that_only_loops_see_ask_for_a_router_that_has_them() -> None:
    data = looped() | {"layers": [{"name": "client"}], "router": {}, "pools": [{"id": "east"}, {"id": "west"}]}
    data["faults"] = data["faults"][:1]
    assert "faults[0].kind: not_ready means nothing without a router whose loops see it" in refusal(data)
