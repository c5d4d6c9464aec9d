"""Playbooks: what comes in (>>) and which effect must go out (<<), so that a test reads like the rule.

assert (
    Playbook(policy)
    << send("a-0")
    >> REFUSED
    << send("b-0")
    >> answered(200)
    << relay(200)
    >> End.COMPLETE
    << replied("answered", sends=2)
)
"""

from collections.abc import Callable

from router.core import forwarding
from router.core.config import RouterConfig
from router.core.delivery import Cause, Delivery, Outcome
from router.core.forwarding import Effect, End, Relay, Reply, Wait
from router.core.policy import Policy, Request, Send, build_policy
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
    """Build a policy over pools in the words of `pools`."""
    return build_policy(config or RouterConfig(), clock or ManualClock(), Catalog(pools(*shape)))


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

Check = Callable[["Effect | Reply"], str | None]
"""Returns None if the effect is the expected one, else what was expected."""


def send(frontend: str, **bounds_s: float) -> Check:
    """Expect a send to this frontend; `connect_until_s` and `until_s` count from the playbook's start."""

    def check(effect: "Effect | Reply") -> str | None:
        expected = f"Send({frontend}) {bounds_s or ''}"
        if not isinstance(effect, Send) or effect.lease.frontend.name != frontend:
            return expected
        found = {bound: round(getattr(effect, bound) - START_S, 9) for bound in bounds_s}
        return None if found == bounds_s else f"{expected}, its bounds are {found}"

    return check


def relay(status: int) -> Check:
    """Expect the pool's answer to be passed on."""
    return lambda e: None if isinstance(e, Relay) and e.outcome.status == status else f"Relay({status})"


def wait(until_s: float) -> Check:
    """Expect a wait; `until_s` counts from the playbook's start."""
    return lambda e: None if isinstance(e, Wait) and e.until_s == START_S + until_s else f"Wait({START_S + until_s:g})"


def replied(reason: str, *, code: str | None = None, sends: int, retry_after_s: float | None = None) -> Check:
    """Expect the end of the playbook."""

    def check(effect: "Effect | Reply") -> str | None:
        expected = (reason, code, sends, retry_after_s)
        fits = isinstance(effect, Reply) and expected == (
            effect.reason,
            effect.code,
            effect.sends,
            effect.retry_after_s,
        )
        return None if fits else f"Reply {expected}"

    return check


class Playbook:
    """One request through forward(); fails at the first effect that is not the expected one."""

    def __init__(self, policy: Policy, request: Request | None = None, *, model: str = "m") -> None:
        request = request or Request(model, policy.clock.monotonic() + policy.config.deadline_s)
        self._rule = forwarding.forward(policy, request)
        self.effect: Effect | Reply = self._advance(None)

    @property
    def sent_to(self) -> Frontend:
        """The frontend of the pending send."""
        assert isinstance(self.effect, Send)
        return self.effect.lease.frontend

    @property
    def reply(self) -> Reply:
        """How it ended."""
        assert isinstance(self.effect, Reply)
        return self.effect

    def __lshift__(self, check: Check) -> "Playbook":
        expected = check(self.effect)
        assert expected is None, f"expected {expected}, got {self.effect!r}"
        return self

    def __rshift__(self, event: "Outcome | End | Callable[[], Outcome | None] | None") -> "Playbook":
        answer = event() if callable(event) else event
        if isinstance(self.effect, Send) and isinstance(answer, Outcome) and answer.delivery is not Delivery.UNSENT:
            self.effect.lease.handed_over()
        self.effect = self._advance(answer)
        return self

    def close(self) -> None:
        """Let the client leave."""
        self._rule.close()

    def _advance(self, answer: "Outcome | End | None") -> "Effect | Reply":
        try:
            return self._rule.send(answer)
        except StopIteration as stop:
            reply = stop.value
            assert isinstance(reply, Reply)
            return reply


def passes(clock: ManualClock, seconds: float) -> Callable[[], None]:
    """Answer a wait by the passing of time."""

    def step() -> None:
        clock.now_s += seconds

    return step
