"""Live tests on the virtual clock: the same body, real sockets exchanged for the network in memory."""

import asyncio
import functools
import inspect
import socket
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any
from unittest import mock

from tests.router import raw_pool
from tests.virtual.loop import run, virtual_loop
from tests.virtual.network import Network

Row = Callable[..., Any]


def rows_of(*modules: ModuleType, but: Collection[str] = ()) -> dict[str, Row]:
    """Return the live tests of some modules, ready to be collected; `but` names those that need a real machine."""
    rows: dict[str, Row] = {}
    for module in modules:
        own = {name: row for name, row in vars(module).items() if name.startswith("test_") and _is_live(row)}
        assert not own.keys() & rows.keys(), f"two tests have one name: {own.keys() & rows.keys()}"
        rows |= own
    missing = [name for name in but if name not in rows]
    assert not missing, f"there is no {missing}"
    return {name: on_virtual_clock(row) for name, row in rows.items() if name not in but}


def on_virtual_clock(row: Row) -> Row:
    """Return a test that runs another's body on the virtual clock, with its fixtures and parameters."""

    @functools.wraps(row)
    def test(*args: Any, **more: Any) -> None:
        with (
            mock.patch.object(raw_pool.BlackHole, "__aenter__", _open_hole),
            mock.patch.object(raw_pool.BlackHole, "__aexit__", _close_hole),
        ):
            run(row(*args, **more), Network())

    return test


def _is_live(row: Row) -> bool:
    return inspect.iscoroutinefunction(row)


async def _open_hole(hole: raw_pool.BlackHole) -> raw_pool.BlackHole:
    virtual_loop().network.link(_address(hole)).hole = True
    return hole


async def _close_hole(hole: raw_pool.BlackHole, *_: object) -> None:
    hole._socket.close()
    await asyncio.sleep(0)


def _address(hole: raw_pool.BlackHole) -> tuple[str, int]:
    own: socket.socket = hole._socket
    host, port = own.getsockname()
    return host, port
