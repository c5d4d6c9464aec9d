"""The decisions of one router, as methods: decide, observe, again, release.

`forward()` (forwarding.py) is a thin generator around them; a model that needs speed calls them directly:

    step = policy.decide(request)              a Send, a Waiting (sleep, then policy.woke(it)), or a Reason
    policy.observe(send, outcome)              learn; then, if it was answered, relay and policy.relayed(send, end)
    policy.release(send)                       always, whatever happened
    step = policy.again(send, outcome)         after a failed send: the next Send, or the Reason why there is none

Nothing here waits, and nothing here knows what the time is: clock and random source come from outside.
"""

from collections.abc import Callable, Mapping

from router.core.admission import WaitQueue
from router.core.affinity import Key, Pins
from router.core.alarms import Alarms
from router.core.benched_alarm import BenchedAlarm
from router.core.budgets.kinds import budget_of
from router.core.chain import ChainBudget
from router.core.clock import Clock
from router.core.config import RouterConfig, Selection
from router.core.cooldown import Cooldown, Verdict, verdict_of
from router.core.delivery import OWN_TIMEOUTS, Cause, Delivery, Outcome
from router.core.effects import End, Request, Send, Waiting
from router.core.failover_budget import FailoverBudget
from router.core.in_flight import FrontendState, Ledger
from router.core.primary import Primary
from router.core.random_source import RandomSource
from router.core.refusal import Reason
from router.core.roster import Group, Roster
from router.core.selection import Candidate, selector_of
from router.core.tally import Tally
from router.core.topology import Catalog, Frontend
from router.core.trials import Trials
from router.core.usable import Usable

Ready = Callable[[Frontend, str], bool]
"""Tells whether a frontend is ready for a model; the names of models are those of `Catalog.cursor_for`."""

# In the hot path of router and model: CPython 3.11 takes ten times as long to look a member up on its class.
_ANSWERED, _COMPLETE = Delivery.ANSWERED, End.COMPLETE
_GOOD, _HANGS = Verdict.GOOD, Verdict.HANGS


class Policy:
    """State and decisions of one router."""

    def __init__(
        self, config: RouterConfig, clock: Clock, rng: RandomSource, catalog: Catalog, *, ready: Ready
    ) -> None:
        self.config = config
        self.clock = clock
        self.tally = Tally()
        self.queue = WaitQueue(config)
        self.primary = Primary(config, clock.monotonic()) if config.selection is Selection.PRIMARY_BACKUP else None
        self.roster = Roster(lambda: Cooldown(config), ready)
        budget = budget_of(config.failover_budget, rng)
        self.budget = None if budget is None else FailoverBudget(budget)
        self._rng = rng
        self._ledger = Ledger(clock, self._changed, in_flight_max=config.in_flight_max, slow_s=config.slow_s)
        self._pins = Pins(idle_s=config.session_idle_s, sessions_max=config.sessions_max)
        self.usable = Usable(self.roster, self._ledger, rng)
        self.trials = Trials(
            self.roster,
            self.queue,
            clock,
            self._standing_changed,
            pause_s=config.trial_pause_s,
            trials_max=config.trials_max,
        )
        self.alarms = Alarms()
        self._benched_alarm = BenchedAlarm(self.alarms, self.roster, clock)
        self._selector = selector_of(config, rng, self.primary)
        self.publish(catalog)

    # ---- who is there

    @property
    def catalog(self) -> Catalog:
        """The present list of pools."""
        return self.roster.catalog

    def publish(self, catalog: Catalog) -> None:
        """Take a new list of pools; what is known of a frontend survives as long as its name and address do."""
        self.roster.publish(catalog)
        self.usable.roster_changed()
        self._pools_changed()

    def ready_changed(self) -> None:
        """Take in that some frontend has become ready for a model, or is no longer."""
        self.roster.refresh()
        self._pools_changed()

    @property
    def waiting(self) -> int:
        """Requests that wait now."""
        return self.queue.count

    def in_flight(self) -> dict[str, int]:
        """Leases held now, by pool; a pool that is gone is listed until its last send has ended."""
        return self.roster.in_flight()

    def chain_of(self, headers: Mapping[str, str]) -> ChainBudget:
        """Read what the layers above have spent and left, from the headers of a request."""
        config = self.config
        chain = ChainBudget(
            headers,
            retries_max=config.chain_retries_max,
            failover_spends=config.failover_spends,
            when_unknown=config.when_unknown,
        )
        if chain.ignored:
            self.tally.headers_ignored.update(chain.ignored.keys())
        return chain

    # ---- the rule

    def decide(self, request: Request) -> Send | Waiting | Reason:
        """Choose the first send and take its lease; nothing usable: a place in the queue, or why there is none."""
        now = self.clock.monotonic()
        group = self.roster.group_for(request.model)
        if now >= request.until_s:
            return Reason.DEADLINE
        if not self.queue.must_join(group.model):
            send = self._first(request, group, now)
            if send is not None:
                return send
        if not self._known(request.model):
            return Reason.UNKNOWN_MODEL
        waiting = Waiting(request, group.model, min(request.until_s, now + self.config.patience_s))
        if not self.queue.join(waiting):
            return Reason.OVERLOADED
        if group.all_benched():
            self.trials.wake()
        return waiting

    def woke(self, waiting: Waiting) -> Send | Waiting | Reason:
        """Decide again for a request that waited: a send, the same wait once more, or why there is none."""
        now = self.clock.monotonic()
        group = self.roster.group_for(waiting.request.model)
        step: Send | Waiting | Reason | None = None
        if now >= waiting.request.until_s:
            step = Reason.DEADLINE
        elif self.queue.is_next(waiting):
            step = self._first(waiting.request, group, now)
        if step is None:
            if now < waiting.until_s and self.queue.holds(waiting):
                return waiting
            step = self._why_none(waiting, group)
        self.queue.leave(waiting)
        return step

    def withdraw(self, waiting: Waiting) -> None:
        """Take in that the client of a waiting request left."""
        self.queue.leave(waiting)

    def observe(self, send: Send, outcome: Outcome) -> None:
        """Learn from how a send ended; of an answer only that there is one, its stream is still to come."""
        send.outcome = outcome
        state, now = send.lease.state, self.clock.monotonic()
        self.tally.send_ended(state.frontend.pool, outcome)
        key = None if send.request.session is None else self._session_of(send.request)
        if key is not None:
            self._pins.ended(key, state.frontend.pool, outcome)
        if outcome.delivery is _ANSWERED:
            return
        self._learn_of(send, verdict_of(outcome, hang=send.hang, on_5xx=True), str(outcome.cause))
        if self.primary is not None and _says_of_pool(send, outcome):
            self.primary.timed_out(state.frontend.pool, now, began_s=send.lease.began_s)

    def relayed(self, send: Send, end: End) -> None:
        """Learn from how an answer ended."""
        assert send.outcome is not None, "an answer was observed before it was passed on"
        send.end = end
        if end is _COMPLETE:
            verdict = verdict_of(send.outcome, hang=send.hang, on_5xx=self.config.cooldown_on_5xx)
            if verdict is not _GOOD:
                self._learn_of(send, verdict, str(send.outcome.status))
                return
            # What _learn_of does with a good send, which benches nothing, written out: it is what nearly all are.
            lease = send.lease
            cooldown = lease.state.cooldown
            if lease.began_s >= cooldown.returned_s:
                cooldown.learn(verdict, self.clock.monotonic(), "")
        else:
            self._learn_of(send, Verdict.BAD if end.blames_pool else Verdict.NEUTRAL, f"stream {end}")

    def again(self, send: Send, outcome: Outcome) -> Send | Reason:
        """Return the next send after a failed one, or the reason why there is none."""
        step = self._again(send, outcome)
        if isinstance(step, Send):
            self.tally.failovers[send.lease.frontend.pool, step.lease.frontend.pool] += 1
        else:
            self.tally.failovers_refused[step] += 1
        return step

    def release(self, send: Send) -> None:
        """Give back what a send held; one that has no outcome is counted as a send without an answer."""
        send.lease.release()
        if send.outcome is None:
            self.tally.send_ended(send.lease.frontend.pool, None)
        if self.budget is not None:
            self.budget.ended(send, self.clock.monotonic())

    def retry_after_s(self, model: str) -> float:
        """Seconds after which a refused client may find something usable, spread so that not all return at once."""
        now = self.clock.monotonic()
        group = self.roster.group_for(model)
        rest_s = 0.0
        if group.all_benched():
            rest_s = min((state.cooldown.until_s - now for state in group.states()), default=0.0)
        spread_s = self._rng.random() * self.config.retry_after_spread_s
        return max(rest_s, self.config.retry_after_min_s) + spread_s

    # ---- inside

    def _first(self, request: Request, group: Group, now: float) -> Send | None:
        """Choose the first send among what is usable now; None: nothing is."""
        candidates = self.usable.among(group.candidates, now)
        return self._choose(request, group, candidates, now) if candidates else None

    def _choose(
        self, request: Request, group: Group, candidates: tuple[Candidate, ...], now: float, *, second: bool = False
    ) -> Send:
        """Choose among candidates, of which there is at least one, and take a lease."""
        if self.primary is not None:
            self.primary.at(now)
        key = None if request.session is None else self._session_of(request)
        pinned = None if key is None else self._pinned(key, candidates, now)
        candidate = pinned or self._selector.pool(group.model, candidates, second=second)
        state = self._selector.frontend(candidate, second=second)
        if key is not None:
            self._pins.chosen(key, candidate.pool.name, now)
        return self._send(request, state, now, attempt=1 + second)

    def _send(self, request: Request, state: FrontendState, now: float, *, attempt: int) -> Send:
        lease = self._ledger.take(state, now)
        config, left_s = self.config, request.until_s - now
        if attempt == 1:
            left_s /= 2  # the first connect leaves half of what is left, so that a failover still fits
            if self.budget is not None:
                self.budget.begins(request, now)
        if not lease.leads:
            return Send(request, lease, attempt, now + min(config.slow_s, left_s), Verdict.NEUTRAL)
        if left_s >= config.connect_timeout_s:
            return Send(request, lease, attempt, now + config.connect_timeout_s, _HANGS)
        # A client in a hurry must not bench anything: a bound that is short even for a slow connect says nothing.
        hang = Verdict.BAD if left_s > config.slow_s else Verdict.NEUTRAL
        return Send(request, lease, attempt, now + left_s, hang)

    def _why_none(self, waiting: Waiting, group: Group) -> Reason:
        """Name the bound that ended a wait: full pools and a full queue are overload, all else is no usable pool."""
        full = any(not self._ledger.has_room(candidate.pool) for candidate in group.candidates)
        return Reason.OVERLOADED if full or not self.queue.holds(waiting) else Reason.NO_POOL

    def _again(self, send: Send, outcome: Outcome) -> Send | Reason:
        now = self.clock.monotonic()
        final = self._why_final(send, outcome, now)
        if final is not None:
            return final
        group, tried = self.roster.group_for(send.request.model), send.lease.frontend.pool
        others = self.usable.among(self._without(group.candidates, tried), now)
        if not others:
            return Reason.NO_OTHER_POOL
        # Asked only where there is somewhere to go, or a retry would be paid for that is never made.
        if self.budget is not None and not self.budget.allows(send.request, now):
            return Reason.BUDGET
        return self._choose(send.request, group, others, now, second=True)

    @staticmethod
    def _why_final(send: Send, outcome: Outcome, now: float) -> Reason | None:
        """Tell why a request must not be sent again, wherever that might be; None: it may."""
        if outcome.delivery is not Delivery.UNSENT:
            return Reason.MAYBE_SENT
        if outcome.cause is Cause.DEADLINE or now >= send.request.until_s:
            return Reason.DEADLINE
        if send.attempt > 1:
            return Reason.TWO_SENDS
        return Reason.BUDGET if send.request.retries_left < 1 else None

    @staticmethod
    def _without(candidates: tuple[Candidate, ...], pool: str) -> tuple[Candidate, ...]:
        return tuple(c for c in candidates if c.pool.name != pool)

    def _pinned(self, key: Key, candidates: tuple[Candidate, ...], now: float) -> Candidate | None:
        by_name = {candidate.pool.name: candidate for candidate in candidates}
        return next((by_name[pool] for pool in self._pins.preferred(key, now) if pool in by_name), None)

    def _session_of(self, request: Request) -> Key | None:
        """Name what is pinned; with primary and backup all sessions are where the traffic is."""
        if request.session is None or self.primary is not None:
            return None
        return request.session, self.catalog.cursor_for(request.model)

    def _known(self, model: str) -> bool:
        """Tell whether the model may be asked for; while no pool is known at all, nothing can be said against it."""
        return not self.catalog.pools or bool(self.catalog.pools_for(model))

    def _learn_of(self, send: Send, verdict: Verdict, what: str) -> None:
        """Learn from how a send ended, unless its frontend has been away since it began."""
        state = send.lease.state
        if send.lease.began_s >= state.cooldown.returned_s:
            self._learn(state, verdict, what)

    def _learn(self, state: FrontendState, verdict: Verdict, what: str) -> None:
        if state.cooldown.learn(verdict, self.clock.monotonic(), what):
            self._standing_changed(state)

    def _standing_changed(self, state: FrontendState) -> None:
        self.usable.standing_changed(state)
        self._pools_changed(better=state.cooldown.takes_sends)

    def _pools_changed(self, *, better: bool = True) -> None:
        self._benched_alarm.look()
        if self.primary is not None:
            self.primary.usable_changed(self.roster.standing_pools(), self.clock.monotonic())
        if better:
            self._changed()
        self.trials.wake()

    def _changed(self) -> None:
        if self.queue.count:
            self.queue.wake()


def _says_of_pool(send: Send, outcome: Outcome) -> bool:
    """Tell whether an outcome is a time-out of our own after hand-over that a client's hurry did not cause."""
    if outcome.delivery is not Delivery.UNKNOWN or outcome.cause not in OWN_TIMEOUTS:
        return False
    return outcome.cause is not Cause.DEADLINE or not send.request.deadline_lowered


def _always(_: Frontend, __: str) -> bool:
    """Stand in where no health rules are asked."""
    return True


def build_policy(
    config: RouterConfig, clock: Clock, rng: RandomSource, catalog: Catalog, *, ready: Ready = _always
) -> Policy:
    """Build a working policy; the only constructor that router, model and tests use."""
    return Policy(config, clock, rng, catalog, ready=ready)
