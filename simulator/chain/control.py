"""One instance of the modelled router: its policy, and what it does beside requests, with what is told of it.

Probing, discovery, switching and the check of clocks are the loops of router/core; background.py answers their effects.
Every change of what the router knows becomes a row of the record: `state` (health, cooldown, primary, catalog, switch)
and `alarm`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from router.core.config import RouterConfig
from router.core.discovery import Discovery, DiscoveryConfig, discovering
from router.core.drift import Drift, DriftConfig, checking_clocks
from router.core.effects import Send
from router.core.health import Check, HealthConfig, HealthTable, probing
from router.core.policy import Policy, build_policy
from router.core.primary import Primary
from router.core.switchover import Switchboard, SwitchConfig, SwitchRefusedError, switching
from router.core.topology import Catalog, Frontend
from router.core.topology import Pool as CorePool
from scenarios.layers import Switch as PlannedSwitch
from scenarios.record import Alarm, State
from scenarios.spec import Pool, Scenario
from simulator.chain.background import Background
from simulator.chain.clockwork import Clockwork


class Instance:
    """One router. `label` is empty where there is only one; else it follows each target in the rows."""

    def __init__(self, clockwork: Clockwork, scenario: Scenario, rng: Any, *, label: str) -> None:
        self.states: list[State] = []
        self.alarms: list[Alarm] = []
        self._clockwork = clockwork
        self._scenario = scenario
        self._spec = spec = scenario.background
        self._label = label
        health = HealthConfig(
            required=spec.probing,
            rise=spec.rise,
            fall=spec.fall,
            probe_interval_s=spec.probe_interval_s,
            probe_timeout_s=spec.probe_timeout_s,
        )
        self.health = HealthTable(health)
        self.health.on_change = self._health_changed
        catalog = Catalog(() if spec.discovery else map(core_pool, scenario.pools))
        config = RouterConfig(**msgspec.structs.asdict(scenario.router))
        self.policy: Policy = build_policy(config, clockwork, rng, catalog, ready=self.health.ready)
        self.policy.alarms.on_event = self._alarm
        self.policy.usable.on_standing = self._standing_changed
        if self.policy.primary is not None:
            self.policy.primary.on_move = self._moved
        self.board: Switchboard | None = None

    def start(self, background: Background) -> None:
        """Begin all loops that the scenario asks for."""
        policy, spec = self.policy, self._spec
        background.try_benched(policy)
        if spec.probing:
            self.health.publish(policy.catalog, self._clockwork.now)
            for _ in range(self.health.config.probes_max):
                background.begin(probing(self.health, self._clockwork))
        if spec.discovery:
            discovery = Discovery(
                DiscoveryConfig(discovery_interval_s=spec.discovery_interval_s), policy.alarms, self._clockwork.now
            )
            discovery.on_publish = self._published
            background.begin(discovering(discovery, self._clockwork))
        if spec.clock_offsets_s:
            drift = Drift(DriftConfig(check_interval_s=spec.check_interval_s), policy.alarms)
            sources = [f"source_{place}" for place in range(len(spec.clock_offsets_s))]
            background.begin(checking_clocks(drift, self._clockwork, lambda: sources))
        if spec.switches:
            assert policy.primary is not None, "the loader asks for primary and backup"
            self.board = Switchboard(SwitchConfig(), policy.primary, policy.alarms, self._clockwork)
            for planned in spec.switches:
                self._clockwork.at(planned.at_s, partial(self._switch, planned, background))

    def sent(self, send: Send, failure: str | None) -> None:
        """Tell a switch that is under way how a send ended; None: well."""
        if self.board is not None and self.board.last is not None:
            self.board.last.sent(send.lease.frontend.pool, failure, self._clockwork.now)

    def _switch(self, planned: PlannedSwitch, background: Background, _: object) -> None:
        board = self.board
        assert board is not None, "there are switches"
        target = next((pool for pool in self.policy.catalog.pools if pool.name == planned.to), None)
        if target is None:
            self._state("switch", planned.to, "refused: it is not listed")
            return
        try:
            switch = board.begin(target, self._clockwork.now)
        except SwitchRefusedError as why:
            self._state("switch", planned.to, f"refused: {why}")
            return
        self._state("switch", planned.to, "begun")
        begun_end = switch.on_end

        def ended(over: Any) -> None:
            begun_end(over)
            self._state("switch", planned.to, f"{over.end}: {over.why}" if over.why else str(over.end))

        switch.on_end = ended
        background.begin(switching(switch, self._clockwork, self.policy.in_flight))

    def _published(self, catalog: Catalog) -> None:
        self.policy.publish(catalog)
        if self._spec.probing:
            self.health.publish(catalog, self._clockwork.now)
        self._state("catalog", "pools", ",".join(pool.name for pool in catalog.pools))

    def _health_changed(self, check: Check) -> None:
        self._state("health", check.frontend.name, str(check.health.state))
        self.policy.ready_changed()

    def _standing_changed(self, state: Any) -> None:
        frontend: Frontend = state.frontend
        self._state("cooldown", frontend.name, str(state.cooldown.standing))

    def _moved(self, primary: Primary) -> None:
        self._state("primary", "active", primary.active)

    def _state(self, kind: str, target: str, value: str) -> None:
        self.states.append(State(kind=kind, target=f"{target}{self._label}", value=value, t=self._clockwork.now))

    def _alarm(self, alarm: Any) -> None:
        about = f"{alarm.about}: {alarm.detail}" if alarm.about else alarm.detail
        row = Alarm(kind=str(alarm.kind), since=alarm.since_s, cleared=alarm.cleared_s, detail=f"{about}{self._label}")
        if alarm.cleared_s is not None:
            raised = msgspec.structs.replace(row, cleared=None)
            if raised in self.alarms:
                self.alarms.remove(raised)
        self.alarms.append(row)


def core_pool(pool: Pool) -> CorePool:
    """Return a pool as the router knows it; its addresses lead nowhere."""
    return CorePool.of_urls(pool.id, urls_of(pool), [pool.model])


def urls_of(pool: Pool) -> Sequence[str]:
    """Return the addresses of a pool's frontends: `.invalid` is reserved for names that lead nowhere."""
    return [f"http://{pool.id}-{number}.invalid" for number in range(pool.frontends)]


def listing(scenario: Scenario, now_s: float) -> object:
    """Return what the discovery service tells at a time, as decoded JSON."""
    pools = [
        {"id": pool.id, "models": [pool.model], "urls": list(urls_of(pool))}
        for pool in scenario.pools
        if pool.listed_from_s <= now_s and (pool.listed_until_s is None or now_s < pool.listed_until_s)
    ]
    return {"complete": True, "pools": pools}
