"""Health of frontends, per model: what probes say, told apart, with thresholds and hard caps.

| state | ends with |
| --- | --- |
| starting | `rise` good probes in a row: healthy; `fall` bad ones in a row, or `starting_s_max` over: unhealthy |
| healthy | `fall` bad probes in a row: unhealthy |
| unhealthy | `rise` good probes in a row: healthy |

Laws
1. "One probe failed", "unhealthy" and "keep waiting" are three things: an outcome, a state, and a state with an end.
2. Every probe has a bound, and no state but healthy and unhealthy lasts longer than its cap.
3. A frontend is judged for each model by itself: it may have one and lack another.
4. Whether routing asks for health at all is policy (`required`), and so is whether it does where nothing of a model is
   healthy (`panic`): probes may not take the last pool away. The states are kept either way.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum

from router.core.clock import Clock
from router.core.config import ConfigError
from router.core.effects import Probe, Wait
from router.core.topology import Catalog, Frontend

NEVER = float("inf")


class ProbeOutcome(StrEnum):
    """What a probe found."""

    OK = "ok"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    RESET = "reset"
    STATUS = "status"  # a status other than 200
    EMPTY_LIST = "empty_list"  # 200, and no model is listed
    MODEL_MISSING = "model_missing"  # others are listed, the wanted one is not
    GENERATE_FAILED = "generate_failed"  # it is listed, and does not answer


ProbeAnswer = ProbeOutcome | int
"""A driver's answer to a Probe: an outcome, or the HTTP status that came instead of 200."""


def in_words(answer: ProbeAnswer) -> str:
    """Say what a probe found, e.g. `timeout` or `status 503`."""
    return f"status {answer:d}" if isinstance(answer, int) else str(answer)


def outcome_of(answer: ProbeAnswer) -> ProbeOutcome:
    """Return the kind of what a probe found."""
    return ProbeOutcome.STATUS if isinstance(answer, int) else answer


class HealthState(StrEnum):
    """What is held of a frontend for one model."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthConfig:
    """Knobs of probing. Times are seconds."""

    required: bool = False
    """Whether only what is healthy gets sends."""
    panic: bool = False
    """Whether, while nothing is healthy for a model, sends go wherever they would without health."""
    rise: int = 3
    """So many good probes in a row make healthy."""
    fall: int = 3
    """So many bad probes in a row make unhealthy."""
    probe_interval_s: float = 5.0
    """From the start of one probe to the start of the next."""
    probe_timeout_s: float = 5.0
    """Bound on one probe."""
    probe_generates: bool = False
    """Whether a probe also asks for one token: a listed model may not answer for minutes."""
    probes_max: int = 8
    """Probes under way at one time, so that one frontend that hangs holds up no other."""
    starting_s_max: float = 300.0
    """Longest time to become healthy at first; then it is unhealthy, however its probes swing."""

    def __post_init__(self) -> None:
        for name in ("probe_interval_s", "probe_timeout_s", "starting_s_max"):
            if not 0 < (value := getattr(self, name)) < NEVER:
                raise ConfigError(f"{name} must be a positive number of seconds, got {value}")
        for name in ("rise", "fall", "probes_max"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")


class Health:
    """State of one frontend for one model: `reason` says why, `since_s` is monotonic seconds."""

    __slots__ = ("_config", "_in_a_row", "_was_good", "began_s", "last", "reason", "since_s", "state")

    def __init__(self, config: HealthConfig, now: float) -> None:
        self._config = config
        self._in_a_row = 0
        self._was_good = False
        self.began_s = now
        self.since_s = now
        self.state = HealthState.STARTING
        self.reason = "no probe yet"
        self.last: ProbeAnswer | None = None
        """What the last probe found."""

    def probed(self, answer: ProbeAnswer, now: float) -> bool:
        """Take in what a probe found; returns whether that changed the state."""
        good = answer == ProbeOutcome.OK
        self._in_a_row = self._in_a_row + 1 if good == self._was_good else 1
        self._was_good, self.last = good, answer
        config, state = self._config, self.state
        if good and self._in_a_row >= config.rise and state is not HealthState.HEALTHY:
            return self._go(HealthState.HEALTHY, now, f"{self._in_a_row} good probes in a row")
        if not good and self._in_a_row >= config.fall and state is not HealthState.UNHEALTHY:
            reason = f"{self._in_a_row} bad probes in a row, the last: {in_words(answer)}"
            return self._go(HealthState.UNHEALTHY, now, reason)
        return self.overdue(now)

    def overdue(self, now: float) -> bool:
        """End a start that takes too long; returns whether that happened just now."""
        over = self.state is HealthState.STARTING and now >= self.began_s + self._config.starting_s_max
        if over:
            last = "no probe came back" if self.last is None else f"the last probe: {in_words(self.last)}"
            self._go(HealthState.UNHEALTHY, now, f"not healthy within {self._config.starting_s_max:g} s, {last}")
        return over

    def __repr__(self) -> str:
        return f"<{self.state} ({self.reason})>"

    def _go(self, state: HealthState, now: float, reason: str) -> bool:
        self.state, self.since_s, self.reason = state, now, reason
        return True


class Check:
    """The permit to probe one frontend for one model: ends once, with an answer or given up."""

    __slots__ = ("due_s", "frontend", "health", "model", "under_way")

    def __init__(self, frontend: Frontend, model: str, health: Health, due_s: float) -> None:
        self.frontend = frontend
        self.model = model
        self.health = health
        self.due_s = due_s
        """When its next probe begins."""
        self.under_way = False


class HealthTable:
    """Health of all frontends for all their models. `on_change` is told of every change of a state."""

    def __init__(self, config: HealthConfig) -> None:
        self.config = config
        self._checks: dict[tuple[Frontend, str], Check] = {}
        self._idle: list[Wait] = []
        self.on_change: Callable[[Check], None] = _nobody_listens

    def publish(self, catalog: Catalog, now: float) -> None:
        """Take a new list of pools; what is known of a frontend stays as long as it is listed for the model."""
        wanted = [(f, model) for pool in catalog.pools for f in pool.frontends for model in pool.models or ("",)]
        self._checks = {
            key: self._checks.get(key) or Check(*key, Health(self.config, now), due_s=now) for key in wanted
        }
        self._wake()

    def ready(self, frontend: Frontend, model: str) -> bool:
        """Tell whether a frontend may get sends for a model; one that is not probed for it by name, for any model."""
        if not self.config.required:
            return True
        check = self._checks.get((frontend, model)) or self._checks.get((frontend, ""))
        if check is not None and check.health.state is HealthState.HEALTHY:
            return True
        return self.config.panic and not self._any_healthy(model)

    def _any_healthy(self, model: str) -> bool:
        """Tell whether something that is probed for a model, or for any, is healthy."""
        return any(
            check.health.state is HealthState.HEALTHY for check in self._checks.values() if check.model in (model, "")
        )

    def of(self, frontend: Frontend, model: str = "") -> Health:
        """Return the health of a frontend for a model. Raises KeyError if it is not probed for it."""
        return self._checks[frontend, model].health

    def checks(self) -> Iterator[Check]:
        """Yield everything that is probed."""
        yield from self._checks.values()

    # ---- for the loop

    def next(self, now: float) -> Check | None:
        """Take the permit for the probe that is due, if one is and its bound allows it."""
        self._end_overdue(now)
        check = min(self._free(), key=_by_time, default=None)
        if check is None or check.due_s > now:
            return None
        check.under_way = True
        check.due_s = now + self.config.probe_interval_s
        return check

    def until_next(self) -> Wait:
        """Return a wait until a probe may be due; give it back to `no_longer_idle`."""
        idle = Wait(min((check.due_s for check in self._free()), default=NEVER))
        self._idle.append(idle)
        return idle

    def no_longer_idle(self, idle: Wait) -> None:
        """Take back a wait of `until_next`."""
        self._idle.remove(idle)

    def answered(self, check: Check, answer: ProbeAnswer, now: float) -> None:
        """Take in what a probe found; one of a frontend that is gone by now changes nothing."""
        if self._checks.get((check.frontend, check.model)) is check and check.health.probed(answer, now):
            self.on_change(check)

    def give_back(self, check: Check) -> None:
        """Take a permit back."""
        check.under_way = False
        self._wake()

    def _free(self) -> Iterator[Check]:
        """Yield what may be probed: nothing while as many probes are under way as may be."""
        if sum(check.under_way for check in self._checks.values()) < self.config.probes_max:
            yield from (check for check in self._checks.values() if not check.under_way)

    def _end_overdue(self, now: float) -> None:
        for check in self._checks.values():
            if check.health.overdue(now):
                self.on_change(check)

    def _wake(self) -> None:
        for idle in tuple(self._idle):
            idle.wake()


def probing(table: HealthTable, clock: Clock) -> Generator[Probe | Wait, ProbeAnswer | None, None]:
    """Probe what is due, one after the other; a driver runs `probes_max` of these side by side."""
    while True:
        check = table.next(clock.monotonic())
        if check is not None:
            yield from _probe(table, check, clock)
            continue
        idle = table.until_next()
        try:
            yield idle
        finally:
            table.no_longer_idle(idle)


def _probe(table: HealthTable, check: Check, clock: Clock) -> Generator[Probe, ProbeAnswer | None, None]:
    """Make one probe; a close gives the permit back."""
    config = table.config
    try:
        until_s = clock.monotonic() + config.probe_timeout_s
        answer = yield Probe(check.frontend, until_s, model=check.model, generate=config.probe_generates)
        assert answer is not None, "a Probe is answered with what it found"
        table.answered(check, answer, clock.monotonic())
    finally:
        table.give_back(check)


def _by_time(check: Check) -> tuple[float, str, str]:
    return check.due_s, check.frontend.name, check.model


def _nobody_listens(_: Check) -> None:
    """Stand in until a driver wants to be told."""
