"""Which event loop a router runs on: asyncio's own, or uvloop where that is installed and asked for."""

import asyncio
from collections.abc import Callable

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


class NoUvloop(RuntimeError):
    """uvloop was asked for and is not there; one line with the remedy."""


def loop_maker(*, uvloop: bool) -> MakeLoop:
    """Return what makes the event loop. Raises NoUvloop."""
    if not uvloop:
        return asyncio.new_event_loop
    try:
        from uvloop import new_event_loop  # noqa: PLC0415  (an extra, and its import is for its users alone)
    except ImportError:
        raise NoUvloop(
            "--uvloop: the package uvloop is not installed; remedy: pip install uvloop, or leave --uvloop out"
        ) from None
    return new_event_loop
