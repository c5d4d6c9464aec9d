"""Which event loop live tests run on: asyncio's own, unless POOLDRILL_TEST_LOOP=uvloop; some run on both."""

import asyncio
import os
from collections.abc import Callable, Mapping

import pytest
import uvloop

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
CHOSEN = os.environ.get("POOLDRILL_TEST_LOOP", "asyncio")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give the loops that a test names by its marker, else the chosen one."""
    marker = item.get_closest_marker("asyncio")
    names = marker.kwargs.get("loop_factories", [CHOSEN]) if marker else [CHOSEN]
    return {name: LOOPS[name] for name in names}
