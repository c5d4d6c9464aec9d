"""One instance of the router: its policy, and what its loops know, each as `router/core` has it."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import msgspec

from router.core.config import Selection
from router.core.cooldown import Verdict, verdict_of
from router.core.discovery import Discovery, DiscoveryConfig, discovering
from router.core.drift import Drift, DriftConfig, checking_clocks
from router.core.effects import End, Send
from router.core.health import Check, HealthConfig, HealthTable, probing
from router.core.loops import trials
from router.core.policy import Policy, build_policy
from router.core.random_source import RandomSource
from router.core.switchover import Switch, Switchboard, SwitchConfig, SwitchRefusedError, switching
from router.core.topology import Catalog, Frontend
from router.core.topology import Pool as CorePool
from scenarios.loops import SwitchOrder
from scenarios.spec import Pool, Router, Scenario
from simulator.chain.clockwork import Clockwork
from simulator.chain.pool_list import PoolList, urls_of

Loop = Generator[Any, Any, Any]

_WHOLE = (None, End.COMPLETE)
"""Ends of an answer that say nothing more than its status does: there was none, or it is complete."""


class Instance:
    """A router that is ready: where it discovers its pools, it knows the first list.

    `on_publish`, `on_health` and `on_order` are told of new lists, of changes of health, and of a switch that was
    ordered: the switch, or why there is none.
    """

    def __init__(self, name: str, scenario: Scenario, clockwork: Clockwork, rng: RandomSource) -> None:
        knobs = scenario.router
        self.name = name
        self.on_publish: Callable[[Catalog], None] = _nobody_listens
        self.on_health: Callable[[Check], None] = _nobody_listens
        self.on_order: Callable[[Switch | str], None] = _nobody_listens
        self._clockwork = clockwork
        static = Catalog(map(_core_pool, scenario.pools) if knobs.discovery is None else ())
        self.health = None if knobs.health is None else HealthTable(HealthConfig(**_fields(knobs.health)))
        if self.health is not None:
            self.health.publish(static, clockwork.now)
            self.health.on_change = self._health_changed
        self.policy: Policy = build_policy(knobs.config(), clockwork, rng, static, ready=self._ready)
        self.discovery = self._discovery(knobs, PoolList(scenario.pools))
        self.drift = None if knobs.drift is None else Drift(DriftConfig(**_fields(knobs.drift)), self.policy.alarms)
        self.switchboard = self._switchboard(knobs.switch)

    def _discovery(self, knobs: Router, first: PoolList) -> Discovery | None:
        if knobs.discovery is None:
            return None
        now_s = self._clockwork.now
        config = DiscoveryConfig(**_fields(knobs.discovery, "troubles"))
        discovery = Discovery(config, self.policy.alarms, now_s)
        discovery.on_publish = self._publish
        discovery.told(first.at(now_s), now_s)
        return discovery

    def _switchboard(self, order: SwitchOrder | None) -> Switchboard | None:
        if order is None:
            return None
        assert self.policy.primary is not None, f"the loader asks for {Selection.PRIMARY_BACKUP}"
        config = SwitchConfig(**_fields(order, "at_s", "to"))
        return Switchboard(config, self.policy.primary, self.policy.alarms, self._clockwork)

    def _ready(self, frontend: Frontend, model: str) -> bool:
        return self.health is None or self.health.ready(frontend, model)

    def _health_changed(self, check: Check) -> None:
        self.policy.ready_changed()
        self.on_health(check)

    def _publish(self, catalog: Catalog) -> None:
        if self.health is not None:
            self.health.publish(catalog, self._clockwork.now)
        self.policy.publish(catalog)
        self.on_publish(catalog)

    # ---- what it does beside its requests

    def loops(self) -> Iterator[Loop]:
        """Yield all loops that never end, as many of each as may be under way side by side."""
        clock, policy = self._clockwork, self.policy
        for _ in range(policy.config.trials_max):
            yield trials(policy)
        if self.health is not None:
            for _ in range(self.health.config.probes_max):
                yield probing(self.health, clock)
        if self.discovery is not None:
            yield discovering(self.discovery, clock)
        if self.drift is not None:
            yield checking_clocks(self.drift, clock, lambda: [pool.name for pool in policy.catalog.pools])

    def order(self, to: str) -> Loop | None:
        """Take an operator's order to switch; returns what drives the switch, None if it is refused."""
        board, now_s = self.switchboard, self._clockwork.now
        assert board is not None, "a switch is ordered where the scenario says so"
        target = next((pool for pool in self.policy.catalog.pools if pool.name == to), None)
        try:
            if target is None:
                raise SwitchRefusedError(f"{to} is not listed")  # noqa: TRY301 - one refusal, told in one place
            switch = board.begin(target, now_s)
        except SwitchRefusedError as why:
            self.on_order(str(why))
            return None
        self.on_order(switch)
        return switching(switch, self._clockwork, self.policy.in_flight)

    def sent(self, send: Send) -> None:
        """Let a switch learn from how a send ended that is over, if that says anything of its pool."""
        switch = None if self.switchboard is None else self.switchboard.last
        if switch is None:
            return
        verdict = self._verdict(send)
        if verdict is not Verdict.NEUTRAL:
            assert send.outcome is not None, "a send that is over has an outcome"
            what = send.outcome.cause or f"status {send.outcome.status}"
            failure = None if verdict is Verdict.GOOD else str(what if send.end in _WHOLE else f"stream {send.end}")
            switch.sent(send.lease.frontend.pool, failure, self._clockwork.now)

    def _verdict(self, send: Send) -> Verdict:
        """Judge a send as its cooldown does."""
        assert send.outcome is not None, "a send that is over has an outcome"
        if send.end in _WHOLE:
            return verdict_of(send.outcome, hang=send.hang, on_5xx=True)
        return Verdict.BAD if send.end is not None and send.end.blames_pool else Verdict.NEUTRAL


def _fields(part: msgspec.Struct, *without: str) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(part).items() if name not in without}


def _core_pool(pool: Pool) -> CorePool:
    return CorePool.of_urls(pool.id, urls_of(pool), [pool.model])


def _nobody_listens(_: object) -> None:
    """Stand in until somebody wants to be told."""
