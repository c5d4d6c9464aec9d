"""Load counted as leases: what a send holds of a frontend, given back exactly once.

One full-price connect. A cooldown alone cannot bound what a black hole costs under open load: everything that arrives
within one connect time-out pays it too. So per frontend at most one send, the leader, may wait the whole connect
time-out; those that come while it is pending follow: they wait only `slow_s` and move on, which is safe, since an
abandoned connect is unsent. A frontend whose leader has been pending for longer than `slow_s` takes no new sends.
"""

from collections.abc import Callable

from router.core.clock import Clock
from router.core.cooldown import Cooldown, Standing
from router.core.topology import Frontend


class PoolState:
    """What the router remembers of one pool across requests."""

    __slots__ = ("in_flight", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight = 0

    def __repr__(self) -> str:
        return f"<{self.name} in_flight={self.in_flight}>"


class FrontendState:
    """What the router remembers of one frontend across requests."""

    __slots__ = ("cooldown", "frontend", "in_flight", "pool")

    def __init__(self, frontend: Frontend, pool: PoolState, cooldown: Cooldown) -> None:
        self.frontend = frontend
        self.pool = pool
        self.cooldown = cooldown
        self.in_flight = 0

    @property
    def wary(self) -> bool:
        """Tell whether it failed lately, so that a low count in flight is no merit."""
        return self.cooldown.wary > 0

    @property
    def on_trial(self) -> bool:
        """Tell whether a trial of it is under way."""
        return self.cooldown.standing is Standing.ON_TRIAL

    def __repr__(self) -> str:
        return f"<{self.frontend.name} in_flight={self.in_flight} {self.cooldown.standing}>"


class Ledger:
    """All leases of one router: how full its pools are, and which connects are pending."""

    def __init__(self, clock: Clock, on_change: Callable[[], None], *, in_flight_max: int, slow_s: float) -> None:
        self._clock = clock
        self._in_flight_max = in_flight_max
        self._slow_s = slow_s
        self._on_change = on_change
        self._full = 0
        self._connecting: dict[FrontendState, tuple[float, Lease]] = {}
        """Frontend -> since when, and whose; the one pending longest is the first."""

    def take(self, state: FrontendState, now: float) -> "Lease":
        """Take a lease for one send."""
        state.in_flight += 1
        pool = state.pool
        pool.in_flight += 1
        if pool.in_flight == self._in_flight_max:
            self._full += 1
        lease = Lease(state, self, now)
        if state not in self._connecting:
            self._connecting[state] = (now, lease)
            lease.leads = True
        return lease

    def all_free(self, now: float) -> bool:
        """Tell whether no pool is full and no connect is suspect."""
        if self._full:
            return False
        oldest = next(iter(self._connecting.values()), None)
        return oldest is None or now - oldest[0] <= self._slow_s

    def has_room(self, pool: PoolState) -> bool:
        """Tell whether a pool can take one more send."""
        return pool.in_flight < self._in_flight_max

    def is_suspect(self, state: FrontendState, now: float) -> bool:
        """Tell whether a connect to the frontend has been pending for too long."""
        pending = self._connecting.get(state)
        return pending is not None and now - pending[0] > self._slow_s

    def handed_over(self, lease: "Lease") -> None:
        """Note that a send's connection stands: its frontend can be reached."""
        pending = self._connecting.pop(lease.state, None)
        if pending is None:
            return
        leader = pending[1]
        if leader is lease:
            lease.leads = False
        else:
            # A follower came through: the leader merely has bad luck, and the suspicion starts anew.
            leader.overtaken = True
            self._connecting[lease.state] = (self._clock.monotonic(), leader)
        self._on_change()

    def give_back(self, lease: "Lease") -> None:
        """Take back what a send held."""
        state, pool = lease.state, lease.state.pool
        if lease.leads:
            lease.leads = False
            del self._connecting[state]
        if pool.in_flight == self._in_flight_max:
            self._full -= 1
        state.in_flight -= 1
        pool.in_flight -= 1
        self._on_change()

    @property
    def leaders(self) -> dict[FrontendState, "Lease"]:
        """Return the sends whose connect is pending at full price, by frontend."""
        return {state: lease for state, (_, lease) in self._connecting.items()}


class Lease:
    """One send's hold on a frontend, from the decision at `began_s` until its stream has ended.

    `leads` while its connect is the one that may wait the whole connect time-out; `overtaken` tells that meanwhile
    another send's connect came through.
    """

    __slots__ = ("_ledger", "began_s", "leads", "open", "overtaken", "slot_taken", "state")

    def __init__(self, state: FrontendState, ledger: Ledger, began_s: float) -> None:
        self.state = state
        self.began_s = began_s
        self.open = True
        self.leads = False
        self.overtaken = False
        self.slot_taken = False
        self._ledger = ledger

    @property
    def frontend(self) -> Frontend:
        """Where the send goes."""
        return self.state.frontend

    def handed_over(self) -> None:
        """Tell that the body slot was taken; the driver calls it at the very moment the upload's first poll does."""
        if self.open and not self.slot_taken:
            self.slot_taken = True
            self._ledger.handed_over(self)

    def release(self) -> None:
        """Give everything back; a second call does nothing."""
        if self.open:
            self.open = False
            self._ledger.give_back(self)

    def __repr__(self) -> str:
        return f"<Lease {self.frontend.name} {'open' if self.open else 'released'}>"
