"""Alarms: one kind of event for everything that somebody should look at.

Laws
1. An alarm is raised once and cleared once, however often its cause is found again; `since_s` is when it was raised.
2. Two alarms of one kind differ in what they are `about` (a pool, a model, a clock), and are apart.
3. At most `ALARMS_MAX` are raised at one time; what comes beyond is counted, not kept.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

ALARMS_MAX = 1000


class AlarmKind(StrEnum):
    """What somebody should look at."""

    DRIFT = "drift"
    STALE_DISCOVERY = "stale_discovery"
    BAD_CONFIGURATION = "bad_configuration"  # a reload was refused, the old configuration stays
    EVERYTHING_BENCHED = "everything_benched"
    UNVERIFIED_SWITCH = "unverified_switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One event: raised (`cleared_s` is None) or cleared. Times are monotonic seconds."""

    kind: AlarmKind
    about: str
    since_s: float
    detail: str
    cleared_s: float | None = None


class Alarms:
    """What is raised now. `on_event` is told once when an alarm is raised and once when it is cleared."""

    __slots__ = ("_raised", "dropped", "on_event")

    def __init__(self) -> None:
        self._raised: dict[tuple[AlarmKind, str], Alarm] = {}
        self.dropped = 0
        """Alarms that were not kept because too many were raised."""
        self.on_event: Callable[[Alarm], None] = _nobody_listens

    def raise_(self, kind: AlarmKind, now: float, *, about: str = "", detail: str = "") -> None:
        """Raise an alarm, unless it is raised already."""
        key = kind, about
        if key in self._raised:
            return
        if len(self._raised) >= ALARMS_MAX:
            self.dropped += 1
            return
        self._raised[key] = alarm = Alarm(kind=kind, about=about, since_s=now, detail=detail)
        self.on_event(alarm)

    def clear(self, kind: AlarmKind, now: float, *, about: str = "") -> None:
        """Clear an alarm, if it is raised."""
        alarm = self._raised.pop((kind, about), None)
        if alarm is not None:
            self.on_event(
                Alarm(kind=kind, about=about, since_s=alarm.since_s, detail=alarm.detail, cleared_s=now),
            )

    def set(self, kind: AlarmKind, now: float, *, on: bool, about: str = "", detail: str = "") -> None:
        """Raise or clear an alarm by whether its cause is there now."""
        if on:
            self.raise_(kind, now, about=about, detail=detail)
        else:
            self.clear(kind, now, about=about)

    def keep_only(self, kind: AlarmKind, about: Iterable[str], now: float) -> None:
        """Clear the alarms of a kind about anything else: what they were about is gone."""
        kept = set(about)
        for raised in [key for key in self._raised if key[0] is kind and key[1] not in kept]:
            self.clear(kind, now, about=raised[1])

    def raised(self) -> tuple[Alarm, ...]:
        """Return what is raised now, in the order in which it was raised."""
        return tuple(self._raised.values())

    def count(self, kind: AlarmKind) -> int:
        """Return how many alarms of a kind are raised."""
        return sum(alarm.kind is kind for alarm in self._raised.values())


def _nobody_listens(_: Alarm) -> None:
    """Stand in until a driver wants to be told."""
