"""Moving all traffic to another pool on an operator's word: probe, switch, drain, verify; or roll back.

| phase | what happens | and then |
| --- | --- | --- |
| probing | `good_probes` rounds in a row are good | the traffic moves; draining |
| draining | the old pool has nothing in flight | verifying |
| verifying | `good_sends` sends in a row are good | switched |
| verifying | `verify_s` is over and no send has failed | switched, unverified |
| any | too many failures in a row, or the cap | rolled back |

Laws
1. Two bounds, whichever is first: `failures_max` failures in a row, and `total_s_max` for all phases together; so a
   target that swings between good and bad ends too, and nobody is ever told "wait a bit longer".
2. Probes keep their interval, however fast they fail: a 503 in a millisecond does not end a switch at once.
3. A round of probes is good only if every frontend of the target is ready for every model of it.
4. One switch at a time: a second one is refused.
5. Whoever moves the traffic meanwhile (an operator at any time, or the router once it was moved here) has the last
   word; nothing is rolled back then.
6. A roll-back leaves the old pool active as it was before, so what moved it by itself then does so again.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum

from router.core.alarms import AlarmKind, Alarms
from router.core.clock import Clock
from router.core.config import ConfigError
from router.core.effects import Probe, Wait
from router.core.health import ProbeAnswer, ProbeOutcome, in_words
from router.core.primary import Primary, Why
from router.core.topology import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchConfig:
    """Knobs of one switch. Times are seconds."""

    good_probes: int = 3
    """So many good rounds of probes in a row move the traffic."""
    good_sends: int = 3
    """So many good sends in a row verify the switch."""
    failures_max: int = 5
    """So many failures in a row, of probes or of sends, roll it back."""
    total_s_max: float = 300.0
    """Longest time for probing, drain and verification together; then it is rolled back."""
    probe_interval_s: float = 5.0
    """From the start of one round of probes to the start of the next."""
    probe_timeout_s: float = 5.0
    """Bound on one probe."""
    probe_generates: bool = False
    """Whether a probe also asks for one token."""
    verify_s: float = 30.0
    """How long sends are waited for after the drain; without any the switch stands, unverified."""

    def __post_init__(self) -> None:
        for name in ("total_s_max", "probe_interval_s", "probe_timeout_s", "verify_s"):
            if not 0 < (value := getattr(self, name)) < float("inf"):
                raise ConfigError(f"{name} must be a positive number of seconds, got {value}")
        for name in ("good_probes", "good_sends", "failures_max"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")


class Phase(StrEnum):
    """Where a switch is."""

    PROBING = "probing"
    DRAINING = "draining"
    VERIFYING = "verifying"
    OVER = "over"


class SwitchEnd(StrEnum):
    """How a switch ended."""

    SWITCHED = "switched"
    UNVERIFIED = "switched, unverified"
    ROLLED_BACK = "rolled back"
    STUCK = "not rolled back"  # it failed, and the old pool cannot be used either


class SwitchRefusedError(ValueError):
    """A switch cannot begin; the text says why."""


class _Row:
    """Goods and failures in a row; probes and sends each have their own, since a good probe excuses no failed send."""

    __slots__ = ("bad", "good")

    def __init__(self) -> None:
        self.good = 0
        self.bad = 0

    def count(self, failure: str | None) -> None:
        self.good, self.bad = (self.good + 1, 0) if failure is None else (0, self.bad + 1)


class Switch:
    """One switch from `origin` to `target`; `end` and `why` say how it ended, None and "" until then."""

    def __init__(self, config: SwitchConfig, primary: Primary, target: Pool, now: float) -> None:
        self.config = config
        self.target = target
        self.origin = primary.active
        """Who has the traffic until it moves, and gets it back."""
        self.phase = Phase.PROBING
        self.end: SwitchEnd | None = None
        self.why = ""
        self.since_s = now
        """When the present phase began."""
        self.until_s = now + config.total_s_max
        self._primary = primary
        self._origin_why = primary.why
        self._origin_since_s = primary.since_s
        self._probes = _Row()
        self._sends = _Row()
        self._sends_came = 0
        self._send_failed = False
        self._idle: Wait | None = None
        self.on_end: Callable[[Switch], None] = _nobody_listens
        """Told once of its end, and again when a switch that stands unverified has had its good sends at last."""

    @property
    def unverified(self) -> bool:
        """Tell whether it stands, and too few good sends came to say that this is right."""
        return self.end is SwitchEnd.UNVERIFIED and self._sends.good < self.config.good_sends

    @property
    def over(self) -> bool:
        """Tell whether it has ended."""
        return self.end is not None

    def probed(self, failure: str | None, now: float) -> None:
        """Take in a round of probes: what was wrong with it in words, None if nothing was."""
        if self._overruled(now):
            return
        self._count(self._probes, failure, now)
        if self.phase is Phase.PROBING and self._probes.good >= self.config.good_probes and now < self.until_s:
            self._move(now)

    def sent(self, pool: str, failure: str | None, now: float) -> None:
        """Take in how a send to a pool ended, None: well; what says nothing of the pool is not told here."""
        if pool != self.target.name or self.phase is Phase.PROBING:
            return
        if self.over:
            self._sent_late(failure)
            return
        if not self._overruled(now):
            self._sends_came += 1
            self._send_failed = self._send_failed or failure is not None
            self._count(self._sends, failure, now)
        if self._idle is not None:
            self._idle.wake()

    def at(self, now: float, origin_in_flight: int) -> None:
        """Go on with whatever time alone, or the end of the drain, decides."""
        self._idle = None
        if self.over or self._overruled(now):
            return
        if self.phase is Phase.DRAINING and not origin_in_flight:
            self._enter(Phase.VERIFYING, now)
        if self.phase is Phase.VERIFYING:
            self._verify(now)
        if not self.over and now >= self.until_s:
            left = f", {origin_in_flight} in flight at {self.origin}" if self.phase is Phase.DRAINING else ""
            bound = f"within {self.config.total_s_max:g} s in all"
            self._fail(f"{self.phase} was not over {bound}{left}{self._last()}", now)

    def next_s(self, round_began_s: float) -> float:
        """Return when something may have to be done: the next round of probes, or an end by time."""
        next_s = min(round_began_s + self.config.probe_interval_s, self.until_s)
        return min(next_s, self.since_s + self.config.verify_s) if self._may_stand() else next_s

    def wait(self, until_s: float) -> Wait:
        """Return a wait that ends early when a send to the target has ended."""
        self._idle = Wait(until_s)
        return self._idle

    def stop(self, now: float) -> None:
        """End it because nobody drives it any longer; before the traffic moved nothing has to be undone."""
        if not self.over and not self._overruled(now):
            self._fail("stopped", now)

    def __repr__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"<{self.origin} -> {self.target.name}: {self.end or self.phase}{why}>"

    def _sent_late(self, failure: str | None) -> None:
        """Count on while it stands unverified: traffic may come later than it was waited for."""
        if self.unverified:
            self._sends.count(failure)
            if not self.unverified:
                self.on_end(self)

    def _count(self, row: _Row, failure: str | None, now: float) -> None:
        row.count(failure)
        if self.over or failure is None:
            return
        self.why = failure
        if row.bad >= self.config.failures_max:
            self._fail(f"{row.bad} failures in a row, the last: {failure}", now)

    def _overruled(self, now: float) -> bool:
        """End it if somebody else has moved the traffic; returns whether that happened."""
        primary = self._primary
        if self.over or primary.active == self.target.name:
            return False
        if self.phase is Phase.PROBING and (primary.why is not Why.OPERATOR or primary.since_s == self._origin_since_s):
            return False
        where = f"the traffic went to {primary.active or 'no pool'} ({primary.why})"
        self._finish(SwitchEnd.ROLLED_BACK, where + self._last(), now)
        return True

    def _move(self, now: float) -> None:
        if self._primary.active != self.target.name:
            self.origin, self._origin_why = self._primary.active, self._primary.why
        try:
            self._primary.operator_chose(self.target.name, now)
        except ValueError as refused:
            self._count(self._probes, str(refused), now)
            return
        self.why = ""
        self._enter(Phase.DRAINING, now)

    def _verify(self, now: float) -> None:
        if self._sends.good >= self.config.good_sends:
            self._finish(SwitchEnd.SWITCHED, f"{self.config.good_sends} good sends in a row", now)
        elif self._may_stand() and now >= self.since_s + self.config.verify_s:
            wanted = self.config.good_sends
            came = f"only {self._sends_came} of {wanted} sends came" if self._sends_came else "no traffic came"
            self._finish(SwitchEnd.UNVERIFIED, f"{came} within {self.config.verify_s:g} s", now)

    def _may_stand(self) -> bool:
        """Tell whether the time for verification may end it: no send has failed."""
        return self.phase is Phase.VERIFYING and not self._send_failed

    def _last(self) -> str:
        return f", the last failure: {self.why}" if self.why else ""

    def _fail(self, why: str, now: float) -> None:
        """Give the traffic back, if it had moved."""
        if self.phase is Phase.PROBING:
            self._finish(SwitchEnd.ROLLED_BACK, why, now)
            return
        try:
            self._primary.give_back(self.origin, self._origin_why, now)
        except ValueError as refused:
            self._finish(SwitchEnd.STUCK, f"{why}; {refused}", now)
        else:
            self._finish(SwitchEnd.ROLLED_BACK, why, now)

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase, self.since_s = phase, now

    def _finish(self, end: SwitchEnd, why: str, now: float) -> None:
        self.end, self.why = end, why
        self._enter(Phase.OVER, now)
        self.on_end(self)


class Switchboard:
    """Begins switches, one at a time, and remembers the last; an alarm is on while that stands unverified."""

    def __init__(self, config: SwitchConfig, primary: Primary, alarms: Alarms, clock: Clock) -> None:
        self._config = config
        self._primary = primary
        self._alarms = alarms
        self._clock = clock
        self.last: Switch | None = None
        """The switch under way, or the last one."""

    def begin(self, target: Pool, now: float) -> Switch:
        """Begin a switch to a pool. Raises SwitchRefusedError."""
        if self.last is not None and not self.last.over:
            raise SwitchRefusedError(f"a switch to {self.last.target.name} is under way ({self.last.phase})")
        if target.name == self._primary.active:
            raise SwitchRefusedError(f"{target.name} is active already")
        if target.draining:
            raise SwitchRefusedError(f"{target.name} is draining")
        self.last = Switch(self._config, self._primary, target, now)
        self.last.on_end = self._ended
        return self.last

    def _ended(self, switch: Switch) -> None:
        now, kind = self._clock.monotonic(), AlarmKind.UNVERIFIED_SWITCH
        self._alarms.keep_only(kind, [switch.target.name], now)
        self._alarms.set(kind, now, on=switch.unverified, about=switch.target.name, detail=switch.why)


Switching = Generator[Probe | Wait, ProbeAnswer | None, Switch]


def switching(switch: Switch, clock: Clock, in_flight: Callable[[], dict[str, int]]) -> Switching:
    """Drive one switch to its end, which it returns; closed before that, it is rolled back. `in_flight` is by pool."""
    try:
        while not switch.over:
            began_s = clock.monotonic()
            failure = yield from _round(switch, clock)
            switch.probed(failure, clock.monotonic())
            switch.at(clock.monotonic(), in_flight().get(switch.origin, 0))
            while not switch.over and clock.monotonic() < began_s + switch.config.probe_interval_s:
                yield switch.wait(switch.next_s(began_s))
                switch.at(clock.monotonic(), in_flight().get(switch.origin, 0))
        return switch
    finally:
        switch.stop(clock.monotonic())


def _round(switch: Switch, clock: Clock) -> Generator[Probe | Wait, ProbeAnswer | None, str | None]:
    """Probe the target's frontends one after the other; returns the first failure in words, None if there was none."""
    config = switch.config
    for frontend in switch.target.frontends:
        for model in switch.target.models or ("",):
            until_s = min(clock.monotonic() + config.probe_timeout_s, switch.until_s)
            answer = yield Probe(frontend, until_s, model=model, generate=config.probe_generates)
            assert answer is not None, "a Probe is answered with what it found"
            if answer != ProbeOutcome.OK:
                return f"{frontend.name}: {in_words(answer)}"
    return None


def _nobody_listens(_: Switch) -> None:
    """Stand in until somebody wants to be told."""
