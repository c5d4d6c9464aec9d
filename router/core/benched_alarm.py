"""The alarm that everything is benched: one for each model of which nothing takes sends until a trial was good."""

from router.core.alarms import AlarmKind, Alarms
from router.core.clock import Clock
from router.core.roster import Roster


class BenchedAlarm:
    """Looks at all models whenever it is told that something has changed; `about` is the model, "" is any other."""

    __slots__ = ("_alarms", "_clock", "_roster")

    def __init__(self, alarms: Alarms, roster: Roster, clock: Clock) -> None:
        self._alarms = alarms
        self._roster = roster
        self._clock = clock

    def look(self) -> None:
        """Raise what has come to be so, clear what is so no longer."""
        now, kind = self._clock.monotonic(), AlarmKind.EVERYTHING_BENCHED
        benched = {group.model: group for group in self._roster.groups() if group.candidates and group.all_benched()}
        self._alarms.keep_only(kind, benched, now)
        for model, group in benched.items():
            reasons = {state.frontend.name: state.cooldown.reason for state in group.states()}
            name, reason = next(iter(reasons.items()))
            self._alarms.raise_(kind, now, about=model, detail=f"{len(reasons)} benched, {name}: {reason}")
