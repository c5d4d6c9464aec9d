"""How far clocks are apart: our own against what several sources say, and each source's by itself.

An offset is what must be added to our clock to get the source's: +40 means that the source is 40 s ahead of us.

Laws
1. Our own offset is the median of the sources, if two of them agree: one at or below it and one at or above it, at most
   `agree_s` apart. Else it is *cannot tell*, which is neither "no drift" nor an alarm.
2. Each source's offset is kept apart: one pool with a wrong clock is that pool's drift, not ours.
3. An alarm is raised once above `alarm_s` and cleared once at or below it; *cannot tell* does neither to our own.
4. Nothing here is refused, delayed or measured as a duration by a clock that may be wrong.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median

from router.core.alarms import AlarmKind, Alarms
from router.core.clock import Clock
from router.core.config import ConfigError
from router.core.effects import Failed, Fetch, Wait

OWN = "own"
"""What our own drift alarm is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftConfig:
    """Knobs of the clock check. Times are seconds."""

    check_interval_s: float = 600.0
    """From the start of one check to the start of the next."""
    check_timeout_s: float = 5.0
    """Bound on asking one source."""
    agree_s: float = 1.0
    """Two sources agree if they are at most so far apart."""
    alarm_s: float = 5.0
    """An offset above this raises an alarm."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < (value := getattr(self, field.name)) < float("inf"):
                raise ConfigError(f"{field.name} must be a positive number of seconds, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one source said: its time, and our wall time when it was asked and when its answer came.

    `resolution_s` is what its time is cut to: 1 for an HTTP Date header, 0 for NTP.
    """

    source_s: float
    asked_s: float
    answered_s: float
    resolution_s: float = 0.0

    @property
    def offset_s(self) -> float:
        """How far the source is ahead of us."""
        return self.source_s + self.resolution_s / 2 - (self.asked_s + self.answered_s) / 2

    @property
    def error_s_max(self) -> float:
        """How far that may be wrong."""
        return self.resolution_s / 2 + abs(self.answered_s - self.asked_s) / 2


class Drift:
    """The last check: `own_s` is our own offset, None if it cannot be told; `sources` are the offsets by source."""

    def __init__(self, config: DriftConfig, alarms: Alarms) -> None:
        self.config = config
        self._alarms = alarms
        self.own_s: float | None = None
        self.sources: dict[str, float] = {}
        self.silent: dict[str, str] = {}
        """Sources that could not be read, and why."""

    def measured(self, answers: Mapping[str, Reading | Failed], now: float) -> None:
        """Take in one check of all sources."""
        self.silent = {source: answer.why for source, answer in answers.items() if isinstance(answer, Failed)}
        self.sources = {source: a.offset_s for source, a in answers.items() if isinstance(a, Reading)}
        self.own_s = own_offset_s(self.sources.values(), agree_s=self.config.agree_s)
        if self.own_s is not None:
            self._set(OWN, self.own_s, now)
        for source in self.sources:
            self._set(_about(source), self.of(source), now)
        self._alarms.keep_only(AlarmKind.DRIFT, (OWN, *(_about(source) for source in answers)), now)

    def of(self, source: str) -> float:
        """Return a source's own offset: against the true time if that is known, else against our clock."""
        return self.sources[source] - (self.own_s or 0.0)

    def _set(self, about: str, offset_s: float, now: float) -> None:
        on = abs(offset_s) > self.config.alarm_s
        self._alarms.set(AlarmKind.DRIFT, now, on=on, about=about, detail=f"{offset_s:+.1f} s")

    def __repr__(self) -> str:
        own = "cannot tell" if self.own_s is None else f"{self.own_s:+.1f} s"
        return f"<Drift {own} from {len(self.sources)} sources>"


def own_offset_s(offsets_s: Iterable[float], *, agree_s: float) -> float | None:
    """Return the median of the sources if two that agree hold it between them, else None: it cannot be told."""
    ordered = sorted(offsets_s)
    if len(ordered) < 2:
        return None
    middle: float = median(ordered)
    half = len(ordered) // 2
    pairs = [(half - 1, half)] if len(ordered) % 2 == 0 else [(half - 1, half), (half, half + 1)]
    return middle if any(ordered[high] - ordered[low] <= agree_s for low, high in pairs) else None


def checking_clocks(
    drift: Drift, clock: Clock, sources: Callable[[], Sequence[str]]
) -> Generator[Fetch | Wait, "Reading | Failed | None", None]:
    """Ask every source for the time, one after the other, at once and then on the interval."""
    while True:
        began_s = clock.monotonic()
        answers: dict[str, Reading | Failed] = {}
        for source in sources():
            answer = yield Fetch(source, clock.monotonic() + drift.config.check_timeout_s)
            assert answer is not None, "a Fetch is answered"
            answers[source] = answer
        now = clock.monotonic()
        drift.measured(answers, now)
        yield Wait(max(now, began_s + drift.config.check_interval_s))


def _about(source: str) -> str:
    return f"source {source}"
