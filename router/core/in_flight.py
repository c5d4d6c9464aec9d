"""Load counted as leases: what a send holds of a frontend, given back exactly once."""

from collections.abc import Callable

from router.core.topology import Frontend


class FrontendState:
    """What the router remembers of one frontend across requests."""

    __slots__ = ("frontend", "in_flight")

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.in_flight = 0

    def __repr__(self) -> str:
        return f"<{self.frontend.name} in_flight={self.in_flight}>"


class Lease:
    """One send's hold on a frontend, from the decision until its stream has ended."""

    __slots__ = ("_on_change", "open", "slot_taken", "state")

    def __init__(self, state: FrontendState, on_change: Callable[[], None]) -> None:
        self.state = state
        self.open = True
        self.slot_taken = False
        self._on_change = on_change
        state.in_flight += 1

    @property
    def frontend(self) -> Frontend:
        """Where the send goes."""
        return self.state.frontend

    def handed_over(self) -> None:
        """Tell that the body slot was taken; the driver calls it at the very moment the upload's first poll does."""
        self.slot_taken = True

    def release(self) -> None:
        """Give everything back; a second call does nothing."""
        if self.open:
            self.open = False
            self.state.in_flight -= 1
            self._on_change()

    def __repr__(self) -> str:
        return f"<Lease {self.frontend.name} {'open' if self.open else 'released'}>"
