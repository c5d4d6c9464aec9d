"""The parts of a scenario, its plan, and the schema that editors read."""

import tomllib
from typing import Any

import msgspec
import pytest

from scenarios.load import catalog
from scenarios.plan import first_connect_max_s, plan
from scenarios.schema import SCHEMA_PATH, scenario_schema, schema_text
from scenarios.spec import Router, Scenario, Service
from tests.scenarios.doctored import planned


def test_service_ends_with_its_last_token() -> None:
    assert Service(first_token_s=0.1, token_gap_s=0.02, tokens=6).total_s == pytest.approx(0.2)
    assert Service(first_token_s=0.1, tokens=1).total_s == pytest.approx(0.1)


def test_a_first_connect_leaves_half_of_the_deadline() -> None:
    assert first_connect_max_s(Router(connect_timeout_s=1.0, deadline_s=20.0)) == 1.0
    assert first_connect_max_s(Router(connect_timeout_s=15.0, deadline_s=20.0)) == 10.0


def test_the_plan_is_in_order_of_arrival_with_the_ids_of_clients() -> None:
    operations = plan(planned("refused"))
    assert [operation.t_s for operation in operations] == sorted(operation.t_s for operation in operations)
    assert [operation.operation_id for operation in operations[3:6]] == ["op-0-3", "op-1-0", "op-1-1"]
    assert len({operation.operation_id for operation in operations}) == len(operations) == 14


def test_another_seed_draws_other_arrivals() -> None:
    scenario = planned("refused_under_load")
    drawn = msgspec.structs.replace(
        scenario, load=tuple(msgspec.structs.replace(load, arrivals="poisson") for load in scenario.load)
    )
    assert plan(drawn) == plan(drawn, drawn.seed)
    assert plan(drawn) != plan(drawn, drawn.seed + 1)
    assert plan(scenario) == plan(scenario, scenario.seed + 1)


def test_the_schema_in_the_catalog_is_current() -> None:
    assert SCHEMA_PATH.read_text() == schema_text(), "remedy: pooldrill schema --write"


def test_every_scenario_names_the_schema_for_editors() -> None:
    for path in catalog():
        assert path.read_text().splitlines()[0] == f"#:schema ./{SCHEMA_PATH.name}"
        assert (path.parent / SCHEMA_PATH.name).is_file()


def test_the_schema_forbids_what_the_loader_forbids() -> None:
    parts = scenario_schema()["$defs"]
    assert set(parts) == {
        *("Scenario", "Pool", "Service", "Load", "Fault", "Router", "Selection", "Expect"),
        *("Layer", "Backoff", "Semantics", "Slo"),
        *("Health", "Discovery", "ListTrouble", "Drift", "SwitchOrder"),
    }
    assert all(part["additionalProperties"] is False for part in parts.values() if "enum" not in part)
    assert parts["Scenario"]["required"] == ["name", "title", "seed", "duration_s", "pools", "load", "expect"]


def test_the_catalog_keeps_to_the_schema() -> None:
    schema = scenario_schema()
    for path in catalog():
        assert list(_breaches(tomllib.loads(path.read_text()), schema, schema["$defs"])) == []


def _breaches(value: Any, rule: dict[str, Any], parts: dict[str, Any]) -> Any:
    """Yield where a value breaks the schema, by the few keywords that it uses."""
    if "$ref" in rule:
        rule = parts[rule["$ref"].removeprefix("#/$defs/")]
    elif any("$ref" in other for other in rule.get("anyOf", ())):  # a part that may be left out
        rule = next(other for other in rule["anyOf"] if "$ref" in other)
        rule = parts[rule["$ref"].removeprefix("#/$defs/")]
    for key, item in value.items() if isinstance(value, dict) else ():
        inner = rule.get("properties", {}).get(key, rule.get("additionalProperties"))
        if inner:
            yield from _breaches(item, inner, parts)
        else:
            yield key
    yield from (key for key in rule.get("required", ()) if key not in value)
    if isinstance(value, list) and "items" in rule and isinstance(rule["items"], dict):
        for item in value:
            yield from _breaches(item, rule["items"], parts)
    if "enum" in rule and value not in rule["enum"]:
        yield value
    if isinstance(value, int | float) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield value


def test_parts_cannot_be_changed() -> None:
    scenario: Scenario = planned("refused")
    with pytest.raises(AttributeError):
        scenario.seed = 2  # type: ignore[misc] # what must not work
