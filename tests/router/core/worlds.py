"""A small world for the failover rule: many requests interleaved over one policy, every law checked after every step.

Steps are plain tuples, so that Hypothesis can shrink them and a seeded loop can draw them fast:
("arrive", deadline_s, retries_left), ("resume", which, outcome, end), ("leave", which), ("clock", seconds),
("publish", shape).
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from router.core import forwarding
from router.core.config import RouterConfig
from router.core.delivery import Cause, Delivery, Outcome
from router.core.forwarding import Effect, End, Relay, Reply, Wait
from router.core.policy import Policy, Request, Send, build_policy
from router.core.refusal import CLIENT_LEFT
from router.core.topology import Catalog
from tests.router.core.playbook import ManualClock, answered, pools, unknown, unsent

Step = tuple[object, ...]
Shape = Sequence[str]

PATIENCE_S = 2.0
CONNECT_S = 5.0
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
    *(answered(status) for status in (200, 400, 429, 503, 529)),
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


class Live:
    """One request on its way, with what an onlooker saw of it."""

    def __init__(self, world: "World", request: Request) -> None:
        self.request = request
        self.sends: list[Send] = []
        self.outcomes: list[Outcome] = []
        self.relayed = False
        self.reply: Reply | None = None
        self.wakes_at_wait: int | None = None
        self._world = world
        self._first_wait_s: float | None = None
        self._rule = forwarding.forward(world.policy, request)
        self.effect: Effect | None = None
        self.advance(None)

    def advance(self, answer: "Outcome | End | None") -> None:
        """Answer the pending effect and judge the next one."""
        try:
            self.effect = self._rule.send(answer)
        except StopIteration as stop:
            self.effect, self.reply = None, stop.value
            return
        if isinstance(self.effect, Send):
            self._judge_send(self.effect)
        elif isinstance(self.effect, Wait):
            self._judge_wait(self.effect)
        else:
            self._judge_relay(self.effect)

    def leave(self) -> None:
        """The client goes away, whatever is pending."""
        self._rule.close()

    @property
    def lease_held(self) -> bool:
        """Tell whether this request still holds its last send's lease."""
        return isinstance(self.effect, Send | Relay)

    def _judge_send(self, send: Send) -> None:
        now = self._world.clock.now_s
        assert not self.relayed, "a send after the answer began"
        assert send.until_s == self.request.until_s
        assert now < send.until_s, "a send that begins after the deadline"
        assert now <= send.connect_until_s <= send.until_s
        assert send.connect_until_s - now <= CONNECT_S + 1e-9
        self.sends.append(send)
        assert len(self.sends) == send.attempt <= 2
        if send.attempt == 1:
            assert send.connect_until_s - now <= (send.until_s - now) / 2 + 1e-9, "no time is left for a failover"
            return
        assert self.outcomes[-1].delivery is Delivery.UNSENT, "sent again though a pool may be running it"
        assert self.sends[0].lease.frontend.pool != send.lease.frontend.pool, "sent twice to one pool"
        assert self.request.retries_left >= 1
        self._world.saw["second send"] += 1
        self._world.failovers[self.sends[0].lease.frontend.pool, send.lease.frontend.pool] += 1

    def _judge_wait(self, wait: Wait) -> None:
        now = self._world.clock.now_s
        assert not self.sends, "only before the first send does a request wait"
        if self._first_wait_s is None:
            self._first_wait_s = now
        assert wait.until_s <= min(self.request.until_s, self._first_wait_s + PATIENCE_S) + 1e-9
        assert now < wait.until_s, "a wait that is over before it begins"
        self.wakes_at_wait = self._world.wakes
        self._world.saw["wait"] += 1

    def _judge_relay(self, relay: Relay) -> None:
        assert relay.outcome is self.outcomes[-1]
        assert relay.outcome.delivery is Delivery.ANSWERED
        self.relayed = True
        self._world.saw["relay"] += 1


class World:
    """One policy, its clock, and the requests on their way through it."""

    def __init__(self, shape: Shape) -> None:
        self.clock = ManualClock()
        config = RouterConfig(patience_s=PATIENCE_S, connect_timeout_s=CONNECT_S)
        self.policy: Policy = build_policy(config, self.clock, Catalog(pools(*shape)))
        self.policy.on_change = self._woken
        self.wakes = 0
        self.live: list[Live] = []
        self.saw: Counter[str] = Counter()
        self.arrived = 0
        self.told: Counter[tuple[str, int]] = Counter()
        self.sends: Counter[tuple[str, str]] = Counter()
        self.failovers: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()

    def run(self, steps: Iterable[Step]) -> None:
        """Do the steps, then let everybody leave; the laws are checked after each."""
        for step in steps:
            self._do(step)
            self._check()
        while self.live:
            self._leave(self.live.pop())
            self._check()
        assert all(count == 0 for count in self.policy.in_flight().values())
        self._check_tally()

    def _do(self, step: Step) -> None:
        match step:
            case ("arrive", float(deadline_s), int(retries_left)):
                self.arrived += 1
                request = Request("m", self.clock.now_s + deadline_s, retries_left=retries_left)
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
            case Wait() as wait:
                # Half of the wake-ups come from the clock, the others from a change.
                if end is End.COMPLETE:
                    self.clock.now_s = max(self.clock.now_s, wait.until_s)
                live.advance(None)
        self._settle(live)

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
        held = [live.sends[-1].lease for live in self.live if live.lease_held]
        assert all(lease.open for lease in held)
        by_pool = Counter({pool.name: 0 for pool in self.policy.catalog.pools})
        by_pool.update(lease.frontend.pool for lease in held)
        assert self.policy.in_flight() == by_pool
        for live in self.live:
            for lease in [send.lease for send in live.sends]:
                assert lease.state.in_flight == sum(other.state is lease.state for other in held)
        assert self.policy.waiting == sum(isinstance(live.effect, Wait) for live in self.live)
        self._check_nobody_sleeps_on()

    def _check_nobody_sleeps_on(self) -> None:
        usable = any(pool.serves("m") and not pool.draining for pool in self.policy.catalog.pools)
        for live in self.live:
            if isinstance(live.effect, Wait):
                assert live.wakes_at_wait is not None
                assert not usable or self.wakes > live.wakes_at_wait, "something is usable and nobody told the waiter"

    def _check_tally(self) -> None:
        tally = self.policy.tally
        assert tally.client_requests == self.told
        assert tally.sends == self.sends
        assert tally.failovers == self.failovers
        assert tally.failovers_refused == self.refused
        assert sum(self.told.values()) == self.arrived
        assert sum(sends * count for (_, sends), count in self.told.items()) == sum(tally.sends.values())
        assert sum(count for (_, sends), count in self.told.items() if sends == 2) == sum(tally.failovers.values())

    def _woken(self) -> None:
        self.wakes += 1


def drawn_steps(draws: random.Random, count: int) -> list[Step]:
    """Draw steps with a seeded source: the same kinds as the Hypothesis strategy, several times faster."""
    return [_drawn_step(draws) for _ in range(count)]


def _drawn_step(draws: random.Random) -> Step:
    kind = draws.random()
    if kind < 0.3:
        return ("arrive", draws.choice([0.5, 3.0, 30.0]), draws.choice([0, 1, 1, 1, 2]))
    if kind < 0.75:
        outcome = draws.choice(OUTCOMES[: len(UNSENT_CAUSES)] if draws.random() < 0.5 else OUTCOMES)
        return ("resume", draws.randrange(100), outcome, draws.choice(list(End)))
    if kind < 0.85:
        return ("leave", draws.randrange(100))
    if kind < 0.95:
        return ("clock", draws.choice([0.01, 0.3, 3.0, 15.0]))
    return ("publish", draws.choice(SHAPES))


def drawn_world(draws: random.Random, steps: int) -> World:
    """Run one world of drawn steps and return it."""
    world = World(draws.choice(SHAPES))
    world.run(drawn_steps(draws, steps))
    return world
