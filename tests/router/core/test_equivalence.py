"""A driver that calls the methods and one that drives forward() are the same rule: same steps, same state."""

import random
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.core.config import RouterConfig
from router.core.delivery import Delivery, Outcome
from router.core.effects import End, Relay, Request, Send, Waiting
from router.core.forwarding import RETRY_LATER, Reply, forward
from router.core.policy import Policy, build_policy
from router.core.refusal import CLIENT_LEFT, Reason, code_for
from router.core.topology import Catalog
from tests.router.core.playbook import ManualClock, bench, pools, state_of
from tests.router.core.worlds import CONFIGS, OUTCOMES, SESSIONS, SHAPES, Shape, Step


class ByMethods:
    """What a model does that needs speed: callbacks around the policy's methods."""

    def __init__(self, policy: Policy, request: Request) -> None:
        self._policy = policy
        self._request = request
        self._sends = 0
        self._outcome: Outcome | None = None
        self.step: Send | Waiting | Relay | None = None
        self.reason: Reason | None = None
        self._take(policy.decide(request))

    def answer(self, answer: Outcome | End | None) -> None:
        policy, step = self._policy, self.step
        match step:
            case Waiting():
                self._take(policy.woke(step))
            case Send():
                assert isinstance(answer, Outcome)
                self._send, self._outcome = step, answer
                policy.observe(step, answer)
                if answer.delivery is Delivery.ANSWERED:
                    self.step = Relay(answer)
                    return
                policy.release(step)
                self._take(policy.again(step, answer))
            case Relay():
                assert isinstance(answer, End)
                policy.relayed(self._send, answer)
                policy.release(self._send)
                self._end(Reason.ANSWERED, str(step.outcome.status))

    def leave(self) -> None:
        match self.step:
            case Waiting() as waiting:
                self._policy.withdraw(waiting)
            case Send() as send:
                self._policy.release(send)
            case Relay():
                self._policy.release(self._send)
        self._policy.tally.request_ended(CLIENT_LEFT, self._sends)

    def _take(self, step: Send | Waiting | Reason) -> None:
        if isinstance(step, Reason):
            if step in RETRY_LATER:
                self._policy.retry_after_s(self._request.model)
            self._end(step, str(code_for(step, self._outcome)))
            return
        self.step = step
        if isinstance(step, Send):
            self._sends = step.attempt

    def _end(self, reason: Reason, told: str) -> None:
        self.step, self.reason = None, reason
        self._policy.tally.request_ended(told, self._sends)


class ByGenerator:
    """What the router does."""

    def __init__(self, policy: Policy, request: Request) -> None:
        self._rule = forward(policy, request)
        self.step: Send | Waiting | Relay | None = None
        self.reason: Reason | None = None
        self.answer(None)

    def answer(self, answer: Outcome | End | None) -> None:
        try:
            self.step = self._rule.send(answer)
        except StopIteration as stop:
            reply: Reply = stop.value
            self.step, self.reason = None, reply.reason

    def leave(self) -> None:
        self._rule.close()


Driver = ByMethods | ByGenerator


@dataclass
class Arm:
    """One policy with one kind of driver."""

    driver: type[ByMethods] | type[ByGenerator]
    clock: ManualClock
    policy: Policy
    live: list[Driver]

    @classmethod
    def of(cls, driver: type[ByMethods] | type[ByGenerator], shape: Shape, config: RouterConfig) -> "Arm":
        clock = ManualClock()
        return cls(driver, clock, build_policy(config, clock, random.Random(5), Catalog(pools(*shape))), [])

    def do(self, step: Step) -> None:
        """Do one step of the schedule."""
        match step:
            case ("arrive", float(deadline_s), int(left), str() | None as session, int(size)):
                until_s = self.clock.now_s + deadline_s
                request = Request("m", until_s, retries_left=left, session=session, body_bytes=size)
                self.live.append(self.driver(self.policy, request))
            case ("clock", float(seconds)):
                self.clock.now_s += seconds
            case ("bench", str(name)) if any(f.name == name for f in self.policy.roster.states):
                bench(self.policy, name)
            case ("try", str(answer)) if (trial := self.policy.trials.begin()) is not None:
                if answer == "ok":
                    trial.succeeded()
                else:
                    trial.failed(answer)
            case ("leave", int(which)) if self.live:
                self.live.pop(which % len(self.live)).leave()
            case ("resume", int(which), Outcome() as outcome, End() as end) if self.live:
                self._resume(self.live[which % len(self.live)], outcome, end)
        self.live = [driver for driver in self.live if driver.reason is None]

    def _resume(self, driver: Driver, outcome: Outcome, end: End) -> None:
        if isinstance(driver.step, Send):
            if outcome.delivery is not Delivery.UNSENT:
                driver.step.lease.handed_over()
            driver.answer(outcome)
        else:
            driver.answer(end if isinstance(driver.step, Relay) else None)

    def look(self) -> object:
        """Return all that can be seen of it."""
        policy = self.policy
        states = [
            (repr(state), state.cooldown.until_s, state.cooldown.wary, state in policy._ledger.leaders)
            for state in policy.roster.states.values()
        ]
        tally = policy.tally
        counts = [tally.sends, tally.client_requests, tally.failovers, tally.failovers_refused]
        live = [(_look(driver.step), driver.reason) for driver in self.live]
        return live, states, counts, policy.queue.count, policy.queue.body_bytes, len(policy._pins), policy.in_flight()


def _look(step: Send | Waiting | Relay | None) -> object:
    return (repr(step), step.connect_until_s, step.hang) if isinstance(step, Send) else repr(step)


SCHEDULE: st.SearchStrategy[Step] = st.one_of(
    st.tuples(
        st.just("arrive"), st.floats(0.0, 30.0), st.integers(0, 1), st.sampled_from(SESSIONS), st.integers(0, 60)
    ),
    st.tuples(st.just("resume"), st.integers(0, 50), st.sampled_from(OUTCOMES), st.sampled_from(End)),
    st.tuples(st.just("leave"), st.integers(0, 50)),
    st.tuples(st.just("clock"), st.floats(0.0, 20.0)),
    st.tuples(st.just("bench"), st.sampled_from(["a-0", "b-0"])),
    st.tuples(st.just("try"), st.sampled_from(["ok", "refused"])),
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SHAPES), st.sampled_from(CONFIGS), st.lists(SCHEDULE, max_size=50))
def test_methods_and_generator_are_the_same_rule(shape: Shape, config: RouterConfig, schedule: list[Step]) -> None:
    arms = [Arm.of(driver, shape, config) for driver in (ByMethods, ByGenerator)]
    for step in [*schedule, *[("leave", 0)] * len(schedule)]:
        for arm in arms:
            arm.do(step)
        assert arms[0].look() == arms[1].look()
    assert set(arms[0].policy.in_flight().values()) <= {0}


def test_the_comparison_sees_a_difference() -> None:
    one, other = (Arm.of(driver, ("a", "b"), CONFIGS[1]) for driver in (ByMethods, ByGenerator))
    assert one.look() == other.look()
    state_of(other.policy, "a-0").cooldown.wary = 1
    assert one.look() != other.look()
