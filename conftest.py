"""Binds the scenario suite to the two runners: `pytest scenarios/` runs every scenario for real and as a model."""

from pathlib import Path

import pytest

from pooldrill import RUNNERS
from scenarios.collect import ScenarioPlugin

pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the place of the records be chosen."""
    group = parser.getgroup("pooldrill", "scenarios")
    group.addoption(
        "--out", type=Path, default=None, metavar="DIR", help="where records go (default: out/ in the root)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect .toml files of the suite as scenarios."""
    out: Path | None = config.getoption("--out")
    chosen = config.rootpath / "out" if out is None else config.invocation_params.dir / out
    config.pluginmanager.register(ScenarioPlugin(RUNNERS, chosen), "pooldrill-scenarios")
