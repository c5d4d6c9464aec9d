"""What a router comes to know in a run of the queue-level model, as rows of the record: states, alarms, clock offsets.

Of several instances each knows for itself, so each one's rows name it.
"""

from router.core import alarms
from router.core.drift import OWN
from router.core.health import Check
from router.core.in_flight import FrontendState
from router.core.primary import Primary
from router.core.switchover import Switch, SwitchEnd
from router.core.topology import Catalog
from scenarios.record import Alarm, Sample, State
from simulator.chain.clockwork import Clockwork
from simulator.chain.instance import Instance

_DIGITS = 9
_OFFSET_DIGITS = 6
"""Of an offset, which is a difference of wall times; finer digits are binary dust."""


class Watch:
    """Listens to one instance from now on; `several` tells that there are others."""

    def __init__(self, clockwork: Clockwork, instance: Instance, *, several: bool) -> None:
        self.states: list[State] = []
        self.samples: list[Sample] = []
        self._alarms: dict[tuple[str, str, float], Alarm] = {}
        self._clockwork = clockwork
        self._instance = instance
        self._prefix = f"{instance.name}/" if several else ""
        self._problem = "" if instance.discovery is None else instance.discovery.problem
        self._offsets: object = None if instance.drift is None else instance.drift.sources
        policy = instance.policy
        policy.usable.on_standing = self._standing
        policy.alarms.on_event = self._alarm
        instance.on_health = self._health
        instance.on_publish = self._published
        instance.on_order = self._ordered
        if policy.primary is not None:
            policy.primary.on_move = self._moved

    @property
    def raised(self) -> list[Alarm]:
        """Every alarm that was raised, in this order."""
        return list(self._alarms.values())

    def look(self) -> None:
        """Look at what nobody tells of; called when a loop has done what it had to."""
        discovery, drift = self._instance.discovery, self._instance.drift
        if discovery is not None and discovery.problem != self._problem:
            self._problem = discovery.problem
            self._state("discovery", self._instance.name, self._problem or "ok")
        if drift is not None and drift.sources is not self._offsets:
            self._offsets = drift.sources
            for source in drift.sources:
                self._sample(source, drift.of(source))
            if drift.own_s is not None:
                self._sample(OWN, drift.own_s)

    def _standing(self, state: FrontendState) -> None:
        self._state("cooldown", self._prefix + state.frontend.name, state.cooldown.standing)

    def _health(self, check: Check) -> None:
        self._state("health", self._prefix + check.frontend.name, check.health.state)

    def _published(self, catalog: Catalog) -> None:
        self._state("catalog", self._instance.name, " ".join(pool.name for pool in catalog.pools))

    def _moved(self, primary: Primary) -> None:
        self._state("primary", self._instance.name, f"{primary.active} ({primary.why})")

    def _ordered(self, switch: Switch | str) -> None:
        if isinstance(switch, str):
            self._state("switch", self._instance.name, f"refused: {switch}")
            return
        self._state("switch", self._instance.name, f"to {switch.target.name}: ordered")
        ended = switch.on_end

        def told(switch: Switch) -> None:
            ended(switch)
            late = switch.end is SwitchEnd.UNVERIFIED and not switch.unverified
            what = "verified after all" if late else f"{switch.end}, {switch.why}"
            self._state("switch", self._instance.name, f"to {switch.target.name}: {what}")

        switch.on_end = told

    def _alarm(self, event: alarms.Alarm) -> None:
        about = f"{event.about}: " if event.about else ""
        self._alarms[event.kind, event.about, event.since_s] = Alarm(
            kind=str(event.kind),
            since=round(event.since_s, _DIGITS),
            cleared=None if event.cleared_s is None else round(event.cleared_s, _DIGITS),
            detail=f"{self._prefix}{about}{event.detail}",
        )

    def _state(self, kind: str, target: str, value: str) -> None:
        self.states.append(State(kind=kind, target=target, value=str(value), t=round(self._clockwork.now, _DIGITS)))

    def _sample(self, source: str, value: float) -> None:
        t_s = round(self._clockwork.now, _DIGITS)
        self.samples.append(
            Sample(kind="clock_offset_s", source=self._prefix + source, value=round(value, _OFFSET_DIGITS), t=t_s)
        )
