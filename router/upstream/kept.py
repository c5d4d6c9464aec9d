"""Connections that are kept for reuse: the one that was idle shortest is taken first, so that the others can end."""

from router.upstream.connection import Connection
from router.upstream.origin import Origin

IDLE_MAX = 1024
"""Connections kept for one frontend; what ends beyond them is closed."""


class Kept:
    """Idle connections, by where they lead."""

    def __init__(self) -> None:
        self._by_origin: dict[Origin, dict[Connection, None]] = {}

    def take(self, origin: Origin) -> Connection | None:
        """Take out a connection that is alive as far as anybody can see; dead ones on the way are cut."""
        idle = self._by_origin.get(origin)
        while idle:
            connection, _ = idle.popitem()
            if not connection.is_dead():
                return connection
            connection.cut()
        return None

    def keep(self, connection: Connection) -> bool:
        """Keep a connection, if there is room."""
        idle = self._by_origin.setdefault(connection.origin, {})
        if len(idle) >= IDLE_MAX:
            return False
        idle[connection] = None
        return True

    def forget(self, connection: Connection) -> None:
        """Forget a connection that has ended; a second call does nothing."""
        idle = self._by_origin.get(connection.origin)
        if idle is not None:
            idle.pop(connection, None)
            if not idle:
                del self._by_origin[connection.origin]
