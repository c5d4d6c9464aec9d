"""Verbs about scenarios: list and schema."""

import textwrap
from pathlib import Path

from scenarios.load import LoadError, catalog, load
from scenarios.schema import SCHEMA_PATH, schema_text, write_schema
from scenarios.usage import Parser

WIDTH_MAX = 80


def list_(argv: list[str]) -> int:
    """List the scenarios of the catalog; exit code 2 if one of them cannot be read."""
    parser = Parser(prog="pooldrill list", description="List the scenarios that come with Pooldrill.")
    parser.parse_args(argv)
    width = max(len(path.stem) for path in catalog())
    print(f"{'scenario':<{width}}  {'agrees':<7}  what goes wrong")
    bad = 0
    for path in catalog():
        try:
            scenario = load(path)
        except LoadError as error:
            print(f"{path.stem:<{width}}  {error}")
            bad += 1
        else:
            # What is only modelled has no real run to agree with.
            agrees = "-" if scenario.model_only else "exactly" if scenario.exact else "closely"
            print(f"{scenario.name:<{width}}  {agrees:<7}  {_fitting(scenario.title, WIDTH_MAX - width - 11)}")
    return 2 if bad else 0


def schema(argv: list[str]) -> int:
    """Print the JSON Schema of scenario files, or write it into the catalog."""
    parser = Parser(prog="pooldrill schema", description="Print the JSON Schema of scenario files, for editors.")
    parser.add_argument("--write", action="store_true", help=f"write it to {_shown(SCHEMA_PATH)} instead")
    if parser.parse_args(argv).write:
        print(write_schema())
    else:
        print(schema_text(), end="")
    return 0


def _fitting(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder="...")


def _shown(path: Path) -> Path:
    return path.relative_to(Path(__file__).parent.parent)
