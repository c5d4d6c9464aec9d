"""Playbooks: what comes in (>>) and which effect must go out (<<), so that a test reads like the rule.

assert (
    asked(policy)
    << send("a-0")
    >> REFUSED
    << send("b-0")
    >> answered(200)
    << relay(200)
    >> End.COMPLETE
    << replied("answered", sends=2)
)
"""

import random
from collections import Counter
from collections.abc import Callable, Container, Generator
from typing import Any

from router.core import forwarding, loops
from router.core.config import RouterConfig
from router.core.cooldown import Verdict
from router.core.delivery import Cause, Delivery, Outcome
from router.core.effects import Connect, End, Probe, Relay, Request, Send, Wait
from router.core.forwarding import Reply
from router.core.in_flight import FrontendState
from router.core.policy import Policy, build_policy
from router.core.topology import Catalog, Frontend, Pool

START_S = 5000.0


class ManualClock:
    """Time that moves only when a test says so."""

    def __init__(self) -> None:
        self.now_s = START_S

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        raise AssertionError("no decision may ask what time of day it is")


def pools(*shape: str) -> list[Pool]:
    """Build pools from words such as "a", "b:2" (two frontends), "c=m" (serves only m), "d!" (draining)."""
    return [_pool(word) for word in shape]


def _pool(word: str) -> Pool:
    word, draining = word.removesuffix("!"), word.endswith("!")
    word, _, model = word.partition("=")
    name, _, count = word.partition(":")
    urls = [f"http://{name}-{index}.test" for index in range(int(count or 1))]
    static = Pool.of_urls(name, urls, [model] if model else [])
    return Pool(static.name, static.frontends, static.models, draining)


def policy_of(*shape: str, clock: ManualClock | None = None, config: RouterConfig | None = None) -> Policy:
    """Build a policy over pools in the words of `pools`, with a seeded random source."""
    config, clock = config or RouterConfig(), clock or ManualClock()
    return build_policy(config, clock, random.Random(7), Catalog(pools(*shape)))


def state_of(policy: Policy, name: str) -> FrontendState:
    """Return the state of the frontend with this name."""
    return next(state for frontend, state in policy.roster.states.items() if frontend.name == name)


def unsent(cause: Cause) -> Outcome:
    """Nothing was handed over, for this cause."""
    return Outcome(slot_taken=False, cause=cause)


def unknown(cause: Cause = Cause.LOST) -> Outcome:
    """The body was handed over and no status came."""
    return Outcome(slot_taken=True, cause=cause)


def answered(status: int = 200) -> Outcome:
    """A status came after the body was handed over."""
    return Outcome(slot_taken=True, status=status)


REFUSED = unsent(Cause.REFUSED)
LOST = unknown(Cause.LOST)


def bench(policy: Policy, *names: str) -> None:
    """Bench these frontends, as a connect that hung its whole time does."""
    for name in names:
        policy._learn(state_of(policy, name), Verdict.HANGS, "hole")


Effect = Send | Relay | Wait | Connect | Probe
Step = Effect | Reply
Check = Callable[[Step], str | None]
"""Returns None if the step is the expected one, else what was expected."""


def send(frontend: str, **bounds_s: float) -> Check:
    """Expect a send to this frontend; `connect_until_s` and `until_s` count from the playbook's start."""

    def check(step: Step) -> str | None:
        expected = f"Send({frontend}) {bounds_s or ''}"
        if not isinstance(step, Send) or step.lease.frontend.name != frontend:
            return expected
        found = {bound: round(getattr(step, bound) - START_S, 9) for bound in bounds_s}
        return None if found == bounds_s else f"{expected}, its bounds are {found}"

    return check


def relay(status: int) -> Check:
    """Expect the pool's answer to be passed on."""
    return lambda step: None if isinstance(step, Relay) and step.outcome.status == status else f"Relay({status})"


def wait(until_s: float) -> Check:
    """Expect a wait; `until_s` counts from the playbook's start."""

    def check(step: Step) -> str | None:
        fits = isinstance(step, Wait) and round(step.until_s - START_S, 9) == until_s
        return None if fits else f"Wait({START_S + until_s:g})"

    return check


def connect(frontend: str, until_s: float) -> Check:
    """Expect a background connect; `until_s` counts from the playbook's start."""
    return lambda step: _background(step, Connect, frontend, until_s)


def probe(frontend: str, until_s: float) -> Check:
    """Expect a probe; `until_s` counts from the playbook's start."""
    return lambda step: _background(step, Probe, frontend, until_s)


def _background(step: Step, kind: type[Connect] | type[Probe], frontend: str, until_s: float) -> str | None:
    fits = isinstance(step, kind) and (step.frontend.name, round(step.until_s - START_S, 9)) == (frontend, until_s)
    return None if fits else f"{kind.__name__}({frontend}) until {START_S + until_s:g}"


def replied(reason: str, *, code: str | None = None, sends: int) -> Check:
    """Expect the end of the playbook."""

    def check(step: Step) -> str | None:
        expected = (reason, code, sends)
        fits = isinstance(step, Reply) and expected == (step.reason, step.code, step.sends)
        return None if fits else f"Reply {expected}"

    return check


class Playbook:
    """One generator of effects, a request's or a loop's; fails at the first step that is not the expected one."""

    def __init__(self, rule: Generator[Any, Any, Reply | None]) -> None:
        self._rule = rule
        self.step: Step = self._advance(None)
        self.woken = 0

    @property
    def sent_to(self) -> Frontend:
        """The frontend of the pending send."""
        assert isinstance(self.step, Send), f"expected a Send, got {self.step!r}"
        return self.step.lease.frontend

    @property
    def reply(self) -> Reply:
        """How it ended."""
        assert isinstance(self.step, Reply), f"expected a Reply, got {self.step!r}"
        return self.step

    def __lshift__(self, check: Check) -> "Playbook":
        expected = check(self.step)
        assert expected is None, f"expected {expected}, got {self.step!r}"
        return self

    def __rshift__(self, event: object) -> "Playbook":
        answer = event() if callable(event) else event
        if isinstance(self.step, Send) and isinstance(answer, Outcome) and answer.delivery is not Delivery.UNSENT:
            self.step.lease.handed_over()
        self.step = self._advance(answer)
        return self

    def close(self) -> None:
        """Let the client leave, or stop the loop."""
        self._rule.close()

    def _advance(self, answer: object) -> Step:
        try:
            step: Step = self._rule.send(answer)
        except StopIteration as stop:
            reply: Reply = stop.value
            return reply
        if isinstance(step, Wait):
            step.on_wake = self._wake
        return step

    def _wake(self) -> None:
        self.woken += 1


def asked(policy: Policy, request: Request | None = None, *, model: str = "m", session: str | None = None) -> Playbook:
    """Begin the playbook of one request."""
    until_s = policy.clock.monotonic() + policy.config.deadline_s
    return Playbook(forwarding.forward(policy, request or Request(model, until_s, session=session)))


def trials(policy: Policy) -> Playbook:
    """Begin the playbook of the loop that tries benched frontends."""
    return Playbook(loops.trials(policy))


def after(clock: ManualClock, seconds: float, event: object = None) -> Callable[[], object]:
    """Let time pass, then answer with the event."""

    def step() -> object:
        clock.now_s += seconds
        return event

    return step


def answer_all(policy: Policy, count: int, *, dead: Container[str] = (), refusal: Outcome = REFUSED) -> Counter[str]:
    """Forward requests one after the other; dead frontends refuse. Return how many first sends each frontend got."""
    chosen: Counter[str] = Counter()
    for _ in range(count):
        playbook = asked(policy)
        chosen[playbook.sent_to.name] += 1
        while isinstance(playbook.step, Send):
            playbook >>= refusal if playbook.sent_to.name in dead else answered(200)
        if isinstance(playbook.step, Relay):
            playbook >>= End.COMPLETE
        assert playbook.reply.sends >= 1
    return chosen
