"""The decisions of one router, as methods: decide, observe, again, release.

`forward()` (forwarding.py) is a thin generator around them; a model that needs speed calls them directly. Nothing here
waits, and nothing here knows what the time is: clock and random source come from outside.
"""

from collections.abc import Callable

from router.core.clock import Clock
from router.core.config import RouterConfig
from router.core.delivery import Delivery, Outcome
from router.core.in_flight import FrontendState, Lease
from router.core.refusal import Reason
from router.core.selection import Candidate, RoundRobin, Selector
from router.core.tally import Tally
from router.core.topology import Catalog


class Request:
    """What the decisions must know of one client request.

    `until_s` is the deadline on the monotonic clock; `retries_left` is what the layers above have left for us.
    """

    __slots__ = ("model", "retries_left", "session", "until_s")

    def __init__(self, model: str, until_s: float, *, retries_left: int = 1, session: str | None = None) -> None:
        self.model = model
        self.until_s = until_s
        self.retries_left = retries_left
        self.session = session


class Send:
    """Effect: hand the request to `lease.frontend`. Answered with an Outcome.

    The driver gives up connecting at `connect_until_s` and everything before headers at `until_s` (monotonic seconds),
    and calls `lease.handed_over()` when the body slot is taken.
    """

    __slots__ = ("attempt", "connect_until_s", "lease", "until_s")

    def __init__(self, lease: Lease, attempt: int, connect_until_s: float, until_s: float) -> None:
        self.lease = lease
        self.attempt = attempt
        self.connect_until_s = connect_until_s
        self.until_s = until_s

    def __repr__(self) -> str:
        return f"Send({self.lease.frontend.name} #{self.attempt})"


class Policy:
    """State and decisions of one router."""

    def __init__(self, config: RouterConfig, clock: Clock, selector: Selector, catalog: Catalog) -> None:
        self.config = config
        self.clock = clock
        self.tally = Tally()
        self.waiting = 0
        self.on_change: Callable[[], None] = _nobody_listens
        """Called when something that a waiting request could use has changed; the driver hangs its wake-up here."""
        self._selector = selector
        self._states: dict[str, FrontendState] = {}
        self._leaving: list[FrontendState] = []
        self._candidates: dict[str, tuple[Candidate, ...]] = {}
        self.catalog = catalog
        self.publish(catalog)

    def publish(self, catalog: Catalog) -> None:
        """Take a new list of pools.

        What is remembered of a frontend survives as long as its name and address do, or a send to it is under way.
        """
        known = {state.frontend: state for state in (*self._states.values(), *self._leaving)}
        self.catalog = catalog
        self._states = {
            f.name: known.pop(f) if f in known else FrontendState(f) for pool in catalog.pools for f in pool.frontends
        }
        self._leaving = [state for state in known.values() if state.in_flight]
        self._candidates.clear()
        self._changed()

    def serves(self, model: str) -> bool:
        """Tell whether the model may be asked for; while no pool is known at all, nothing can be said against it."""
        return not self.catalog.pools or bool(self.catalog.pools_for(model))

    def decide(self, request: Request, *, tried: Lease | None = None) -> Send | None:
        """Choose the next send and take its lease; None: nothing can be tried now.

        `tried` is the lease of the first send: its pool is never chosen again.
        """
        candidates = self._candidates_for(request.model)
        if tried is not None:
            candidates = self._without(candidates, tried.frontend.pool)
        if not candidates:
            return None
        model = self.catalog.cursor_for(request.model)
        state = self._selector.choose(model, candidates, second=tried is not None)
        attempt = 1 if tried is None else 2
        return Send(Lease(state, self._changed), attempt, self._connect_until_s(request, attempt), request.until_s)

    def observe(self, send: Send, outcome: Outcome) -> None:
        """Learn from how a send ended."""
        self.tally.send_ended(send.lease.frontend.pool, outcome)

    def again(self, request: Request, send: Send, outcome: Outcome) -> Send | Reason:
        """Return the next send after a failed one, or the reason why there is none."""
        if outcome.delivery is not Delivery.UNSENT:
            return Reason.MAYBE_SENT
        if send.attempt > 1:
            return Reason.TWO_SENDS
        if request.retries_left < 1:
            return Reason.BUDGET
        if self.clock.monotonic() >= request.until_s:
            return Reason.DEADLINE
        return self.decide(request, tried=send.lease) or Reason.NO_OTHER_POOL

    def retry_after_s(self) -> float:
        """Seconds after which a refused client may find something usable."""
        return self.config.patience_s

    def in_flight(self) -> dict[str, int]:
        """Leases held now, by pool; a pool that is gone is listed until its last send has ended."""
        counts = {pool.name: 0 for pool in self.catalog.pools}
        for state in (*self._states.values(), *(s for s in self._leaving if s.in_flight)):
            counts[state.frontend.pool] = counts.get(state.frontend.pool, 0) + state.in_flight
        return counts

    def _connect_until_s(self, request: Request, attempt: int) -> float:
        now = self.clock.monotonic()
        left = request.until_s - now
        # The first connect may use half of what is left, so that a failover still fits before the deadline.
        return now + min(self.config.connect_timeout_s, left / 2 if attempt == 1 else left)

    def _candidates_for(self, asked: str) -> tuple[Candidate, ...]:
        model = self.catalog.cursor_for(asked)
        found = self._candidates.get(model)
        if found is None:
            found = self._candidates[model] = tuple(
                Candidate(pool.name, [self._states[f.name] for f in pool.frontends])
                for pool in self.catalog.pools_for(model)
                if not pool.draining
            )
        return found

    @staticmethod
    def _without(candidates: tuple[Candidate, ...], pool: str) -> tuple[Candidate, ...]:
        return tuple(c for c in candidates if c.pool != pool)

    def _changed(self) -> None:
        if self.waiting:
            self.on_change()


def _nobody_listens() -> None:
    """Stand in until a driver wants to be told of changes."""


def build_policy(config: RouterConfig, clock: Clock, catalog: Catalog) -> Policy:
    """Build a working policy; the only constructor that router, model and tests use."""
    return Policy(config, clock, RoundRobin(), catalog)
