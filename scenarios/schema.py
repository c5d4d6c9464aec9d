"""The JSON Schema of scenario files, which tells editors keys, types and limits as they are typed."""

import json
from pathlib import Path
from typing import Any

import msgspec

from scenarios.load import CATALOG
from scenarios.spec import Scenario

SCHEMA_PATH = CATALOG / "scenario.schema.json"
"""Where the scenarios of the catalog look for it: their first line is `#:schema ./scenario.schema.json`."""


def scenario_schema() -> dict[str, Any]:
    """Return the schema, made from the types in spec.py."""
    schema = msgspec.json.schema(Scenario)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Pooldrill scenario", **schema}


def schema_text() -> str:
    """Return the schema as the file in the catalog has it."""
    return json.dumps(scenario_schema(), indent=2) + "\n"


def write_schema(path: Path = SCHEMA_PATH) -> Path:
    """Write the schema, and return where."""
    path.write_text(schema_text(), encoding="utf-8")
    return path
