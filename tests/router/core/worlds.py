"""A small world for the decisions: many requests and trials interleaved over one policy, every law checked each time.

Steps are plain tuples, so that Hypothesis can shrink them and a seeded loop can draw them fast:
("arrive", deadline_s, retries_left, session, body_bytes), ("resume", which, outcome, end), ("leave", which),
("clock", seconds), ("publish", shape), ("trial", which, answer), ("stop", which).
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from router.core import forwarding, loops
from router.core.config import QueueOrder, RouterConfig, Selection
from router.core.cooldown import Standing
from router.core.delivery import Cause, Delivery, Outcome
from router.core.effects import Connect, End, Probe, Relay, Request, Send, Wait, Waiting
from router.core.forwarding import RETRY_LATER, Effect, Reply
from router.core.policy import Policy, build_policy
from router.core.refusal import CLIENT_LEFT
from router.core.roster import Group
from router.core.topology import Catalog
from tests.router.core.playbook import ManualClock, answered, pools, unknown, unsent

Step = tuple[object, ...]
Shape = Sequence[str]

UNSENT_CAUSES = (
    Cause.REFUSED,
    Cause.CONNECT_TIMEOUT,
    Cause.NAME_LOOKUP,
    Cause.TLS,
    Cause.STALE,
    Cause.OWN_LIMIT,
    Cause.DEADLINE,
)
UNKNOWN_CAUSES = (Cause.LOST, Cause.RESET, Cause.FIRST_BYTE_TIMEOUT, Cause.DEADLINE, Cause.UPLOAD_TIMEOUT)
OUTCOMES = (
    *(unsent(cause) for cause in UNSENT_CAUSES),
    *(unknown(cause) for cause in UNKNOWN_CAUSES),
    *(answered(status) for status in (200, 400, 429, 500, 503, 529)),
)
SHAPES: tuple[Shape, ...] = (
    ("a",),
    ("a!",),
    ("a", "b"),
    ("a:2", "b"),
    ("a", "b!", "c"),
    ("a!", "b!"),
    ("a=m", "b=n"),
    ("a=n", "b=n"),
    ("a:3", "b:2", "c"),
    (),
)
SESSIONS = (None, None, "s", "t")

ENDS = [*(End.COMPLETE, End.BROKEN, End.IDLE) * 3, End.TOTAL, End.DEADLINE]


def _tight(**knobs: object) -> RouterConfig:
    """Return knobs so narrow that every bound is met within a few steps."""
    tight = {
        "queue_max": 3, "queue_bytes_max": 100, "in_flight_max": 3, "cooldown_failures": 2, "cooldown_s": 3.0,
        "cooldown_ratio_sends_min": 4, "sessions_max": 1, "trials_max": 2, "slow_start_s": 4.0,
    }  # fmt: skip
    return RouterConfig(**{**tight, **knobs})  # type: ignore[arg-type]  # the knobs are checked by the dataclass


CONFIGS = (
    RouterConfig(cooldown=False),
    RouterConfig(),
    _tight(),
    _tight(selection=Selection.LEAST_IN_FLIGHT, queue_order=QueueOrder.LIFO),
    _tight(selection=Selection.POWER_OF_TWO_CHOICES, slow_start_s=0.0),
    _tight(selection=Selection.PRIMARY_BACKUP, queue_max=0),
)


class Live:
    """One request on its way, with what an onlooker saw of it."""

    def __init__(self, world: "World", request: Request) -> None:
        self.request = request
        self.sends: list[Send] = []
        self.outcomes: list[Outcome] = []
        self.relayed = False
        self.woken = False
        self.reply: Reply | None = None
        self._world = world
        self._first_wait_s: float | None = None
        self._rule = forwarding.forward(world.policy, request)
        self.effect: Effect | None = None
        self.advance(None)

    def advance(self, answer: Outcome | End | None) -> None:
        """Answer the pending effect and judge the next one."""
        self.woken = False
        try:
            self.effect = self._rule.send(answer)
        except StopIteration as stop:
            self.effect, self.reply = None, stop.value
            return
        match self.effect:
            case Send() as send:
                self._judge_send(send)
            case Waiting() as waiting:
                self._judge_wait(waiting)
            case Relay() as relay:
                self._judge_relay(relay)

    def leave(self) -> None:
        """The client goes away, whatever is pending."""
        self._rule.close()

    @property
    def lease_held(self) -> bool:
        """Tell whether this request still holds its last send's lease."""
        return isinstance(self.effect, Send | Relay)

    def _judge_send(self, send: Send) -> None:
        world = self._world
        now, config, state = world.clock.now_s, world.policy.config, send.lease.state
        assert not self.relayed, "a send after the answer began"
        assert send.until_s == self.request.until_s
        assert now < send.until_s, "a send that begins after the deadline"
        assert now <= send.connect_until_s <= send.until_s
        bound_s = send.connect_until_s - now
        assert bound_s <= (config.connect_timeout_s if send.lease.leads else config.slow_s) + 1e-9
        assert state.cooldown.takes_sends, "a send to a benched frontend"
        assert state.pool.in_flight <= config.in_flight_max, "a send to a full pool"
        pool = next(p for p in world.policy.catalog.pools if p.name == send.lease.frontend.pool)
        assert pool.serves(self.request.model)
        assert not pool.draining
        self.sends.append(send)
        assert len(self.sends) == send.attempt <= 2
        if send.attempt == 1:
            assert bound_s <= (send.until_s - now) / 2 + 1e-9, "no time is left for a failover"
            return
        assert self.outcomes[-1].delivery is Delivery.UNSENT, "sent again though a pool may be running it"
        assert self.sends[0].lease.frontend.pool != send.lease.frontend.pool, "sent twice to one pool"
        assert self.request.retries_left >= 1
        world.saw["second send"] += 1
        world.failovers[self.sends[0].lease.frontend.pool, send.lease.frontend.pool] += 1

    def _judge_wait(self, waiting: Waiting) -> None:
        now, policy = self._world.clock.now_s, self._world.policy
        assert not self.sends, "only before the first send does a request wait"
        if self._first_wait_s is None:
            self._first_wait_s = now
        assert waiting.until_s <= min(self.request.until_s, self._first_wait_s + policy.config.patience_s) + 1e-9
        assert now < waiting.until_s, "a wait that is over before it begins"
        waiting.on_wake = self._wake
        self._world.saw["wait"] += 1

    def _judge_relay(self, relay: Relay) -> None:
        assert relay.outcome is self.outcomes[-1]
        assert relay.outcome.delivery is Delivery.ANSWERED
        self.relayed = True
        self._world.saw["relay"] += 1

    def _wake(self) -> None:
        self.woken = True


class Worker:
    """One background loop of trials."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._rule = loops.trials(world.policy)
        self.woken = False
        self.effect: Connect | Probe | Wait = self._take(lambda: next(self._rule))

    def advance(self, answer: object) -> None:
        """Answer the pending effect."""
        self.effect = self._take(lambda: self._rule.send(answer))

    def stop(self) -> None:
        """Close the loop at whatever effect."""
        self._rule.close()

    def _take(self, step: Callable[[], Connect | Probe | Wait]) -> Connect | Probe | Wait:
        self.woken = False
        effect = step()
        config, now = self._world.policy.config, self._world.clock.now_s
        self._world.saw[type(effect).__name__] += 1
        match effect:
            case Connect(until_s=until_s):
                assert until_s <= now + config.slow_s
                self._world.judge_trial(effect)
            case Probe(until_s=until_s):
                assert until_s <= now + config.trial_probe_timeout_s
            case Wait():
                effect.on_wake = self._wake
        return effect

    def _wake(self) -> None:
        self.woken = True


class World:
    """One policy, its clock, and the requests on their way through it."""

    def __init__(self, shape: Shape, config: RouterConfig = RouterConfig()) -> None:  # noqa: B008 - it is frozen
        self.clock = ManualClock()
        self.policy: Policy = build_policy(config, self.clock, random.Random(3), Catalog(pools(*shape)))
        self.live: list[Live] = []
        self.saw: Counter[str] = Counter()
        self.arrived = 0
        self.told: Counter[tuple[str, int]] = Counter()
        self.sends: Counter[tuple[str, str]] = Counter()
        self.failovers: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.workers = [Worker(self) for _ in range(config.trials_max)]

    def run(self, steps: Iterable[Step]) -> None:
        """Do the steps, then let everybody leave; the laws are checked after each."""
        for step in steps:
            self._do(step)
            self._check()
        while self.live:
            self._leave(self.live.pop())
            self._check()
        while self.workers:
            self._stop(self.workers.pop())
            self._check()
        assert all(count == 0 for count in self.policy.in_flight().values())
        self._check_tally()

    def judge_trial(self, begun: Connect) -> None:
        """Judge a trial that begins: alone, where nothing is usable."""
        for group in self.policy.roster.groups():
            if group.all_benched() and begun.frontend in [state.frontend for state in group.states()]:
                together = sum(state.cooldown.standing is Standing.ON_TRIAL for state in group.states())
                assert together == 1, "two trials at a time where nothing is usable"
                self.saw["tried alone"] += 1

    def _do(self, step: Step) -> None:
        match step:
            case ("arrive", float(deadline_s), int(retries_left), str() | None as session, int(body_bytes)):
                self.arrived += 1
                until_s = self.clock.now_s + deadline_s
                request = Request("m", until_s, retries_left=retries_left, session=session, body_bytes=body_bytes)
                self._settle(Live(self, request), new=True)
            case ("clock", float(seconds)):
                self.clock.now_s += seconds
            case ("publish", shape):
                assert isinstance(shape, tuple)
                self.policy.publish(Catalog(pools(*shape)))
            case ("leave", int(which)) if self.live:
                self._leave(self.live.pop(which % len(self.live)))
            case ("resume", int(which), Outcome() as outcome, End() as end) if self.live:
                self._resume(self.live[which % len(self.live)], outcome, end)
            case ("trial", int(which), str(answer)):
                self._on_with_trial(self.workers[which % len(self.workers)], answer)
            case ("stop", int(which)):
                place = which % len(self.workers)
                self._stop(self.workers[place])
                self.workers[place] = Worker(self)
            case _:
                assert not self.live, f"an unknown step: {step}"

    def _resume(self, live: Live, outcome: Outcome, end: End) -> None:
        match live.effect:
            case Send() as send:
                if outcome.delivery is not Delivery.UNSENT:
                    send.lease.handed_over()
                live.outcomes.append(outcome)
                self._count_send(send, outcome)
                live.advance(outcome)
            case Relay():
                live.advance(end)
            case Waiting() as waiting:
                # Some wake-ups come from the clock, the others have a cause or none.
                if end is End.COMPLETE:
                    self.clock.now_s = max(self.clock.now_s, waiting.until_s)
                live.advance(None)
        self._settle(live)

    def _on_with_trial(self, worker: Worker, answer: str) -> None:
        match worker.effect:
            case Connect():
                worker.advance(None if answer == "ok" else Cause.REFUSED)
            case Probe():
                worker.advance(answer)
            case Wait():
                worker.advance(None)

    def _stop(self, worker: Worker) -> None:
        self.saw[f"stopped at {type(worker.effect).__name__}"] += 1
        worker.stop()

    def _settle(self, live: Live, *, new: bool = False) -> None:
        if live.reply is None:
            if new:
                self.live.append(live)
            return
        if not new:
            self.live.remove(live)
        reply = live.reply
        assert reply.sends == len(live.sends)
        self.saw[reply.reason] += 1
        code = str(live.outcomes[-1].status) if reply.code is None else str(reply.code)
        assert (reply.code is None) == live.relayed
        assert (reply.retry_after_s is None) == (reply.reason not in RETRY_LATER)
        self.told[code, reply.sends] += 1
        if live.sends and not live.relayed:
            self.refused[reply.reason] += 1

    def _leave(self, live: Live) -> None:
        self.saw[f"left at {type(live.effect).__name__}"] += 1
        if isinstance(live.effect, Send):
            self._count_send(live.effect, None)
        live.leave()
        self.told[CLIENT_LEFT, len(live.sends)] += 1

    def _count_send(self, send: Send, outcome: Outcome | None) -> None:
        status = outcome and outcome.status
        self.sends[send.lease.frontend.pool, f"{status // 100}xx" if status else "no_response"] += 1

    def _check(self) -> None:
        policy = self.policy
        held = [live.sends[-1].lease for live in self.live if live.lease_held]
        assert all(lease.open for lease in held)
        by_pool = Counter({pool.name: 0 for pool in policy.catalog.pools})
        by_pool.update(lease.frontend.pool for lease in held)
        assert policy.in_flight() == by_pool
        for state in {send.lease.state for live in self.live for send in live.sends}:
            assert state.in_flight == sum(lease.state is state for lease in held)
        pending = [live.effect.lease for live in self.live if isinstance(live.effect, Send)]
        leads = [lease for lease in held if lease.leads]
        assert all(lease in pending and not lease.slot_taken for lease in leads)
        assert policy._ledger.leaders == {lease.state: lease for lease in leads}
        waiting = [live.effect for live in self.live if isinstance(live.effect, Waiting)]
        assert policy.queue.count <= min(policy.config.queue_max, len(waiting))
        assert policy.queue.count == sum(policy.queue.holds(w) for w in waiting)
        assert policy.queue.body_bytes == sum(w.request.body_bytes for w in waiting if policy.queue.holds(w))
        assert policy.queue.body_bytes <= policy.config.queue_bytes_max
        assert len(policy._pins) <= policy.config.sessions_max
        self._check_trials()
        self._check_alarms()
        self._check_nobody_sleeps_on()

    def _check_alarms(self) -> None:
        groups = [group for group in self.policy.roster.groups() if group.candidates]
        benched = {group.model for group in groups if not any(s.cooldown.takes_sends for s in group.states())}
        raised = self.policy.alarms.raised()
        assert {(alarm.kind, alarm.about) for alarm in raised} == {("everything_benched", model) for model in benched}
        self.saw["everything benched"] += bool(benched)

    def _check_trials(self) -> None:
        policy = self.policy
        tried = Counter(w.effect.frontend for w in self.workers if isinstance(w.effect, Connect | Probe))
        assert all(count == 1 for count in tried.values()), "two trials of one frontend"
        on_trial = {f for f, s in policy.roster.states.items() if s.cooldown.standing is Standing.ON_TRIAL}
        assert on_trial == set(tried) & set(policy.roster.states), "a permit that nobody holds"
        due = policy.trials.next(self.clock.now_s)
        idle = [worker for worker in self.workers if isinstance(worker.effect, Wait)]
        if due is not None and idle:
            awake = any(w.woken or w.effect.until_s <= self.clock.now_s for w in idle)
            assert awake, f"{due} is due for a trial and nobody knows"

    def _check_nobody_sleeps_on(self) -> None:
        for live in self.live:
            if not isinstance(live.effect, Waiting) or not self.policy.queue.is_next(live.effect):
                continue
            group = self.policy.roster.group_for(live.request.model)
            assert live.woken or not self._anything_usable(group), "something is usable and nobody told the next"

    def _anything_usable(self, group: Group) -> bool:
        ledger, now = self.policy._ledger, self.clock.now_s
        return any(
            ledger.has_room(candidate.pool) and state.cooldown.takes_sends and not ledger.is_suspect(state, now)
            for candidate in group.candidates
            for state in candidate.frontends
        )

    def _check_tally(self) -> None:
        tally = self.policy.tally
        assert tally.client_requests == self.told
        assert tally.sends == self.sends
        assert tally.failovers == self.failovers
        assert tally.failovers_refused == self.refused
        assert sum(self.told.values()) == self.arrived
        assert sum(sends * count for (_, sends), count in self.told.items()) == sum(tally.sends.values())
        assert sum(count for (_, sends), count in self.told.items() if sends == 2) == sum(tally.failovers.values())


def drawn_steps(draws: random.Random, count: int) -> list[Step]:
    """Draw steps with a seeded source: the same kinds as the Hypothesis strategy, several times faster."""
    return [_drawn_step(draws) for _ in range(count)]


def _drawn_step(draws: random.Random) -> Step:
    kind = draws.choices(KINDS, WEIGHTS)[0]
    which = draws.randrange(100)
    match kind:
        case "arrive":
            deadline_s, retries_left = draws.choice([0.5, 3.0, 30.0]), draws.choice([0, 1, 1, 1, 2])
            return (kind, deadline_s, retries_left, draws.choice(SESSIONS), draws.choice([0, 10, 60]))
        case "resume":
            outcomes = OUTCOMES[: len(UNSENT_CAUSES)] if draws.random() < 0.5 else OUTCOMES
            return (kind, which, draws.choice(outcomes), draws.choice(ENDS))
        case "trial":
            return (kind, which, draws.choice(["ok", "ok", "timeout"]))
        case "clock":
            return (kind, draws.choice([0.01, 0.3, 3.0, 15.0]))
        case "publish":
            return (kind, draws.choice(SHAPES))
        case _:
            return (kind, which)


KINDS = ("arrive", "resume", "leave", "trial", "stop", "clock", "publish")
WEIGHTS = (30, 35, 7, 13, 2, 10, 3)


def drawn_world(draws: random.Random, steps: int) -> World:
    """Run one world of drawn steps and return it."""
    world = World(draws.choice(SHAPES), draws.choice(CONFIGS))
    world.run(drawn_steps(draws, steps))
    return world
