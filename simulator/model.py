"""The cast of one modelled run, put together: clients, router, network, frontends, faults on one clock."""

import random
from collections.abc import Sequence

import simpy

from router.core.policy import Policy, build_policy
from router.core.topology import Catalog
from router.core.topology import Pool as CorePool
from scenarios.plan import Planned
from scenarios.spec import Pool, Scenario
from simulator import faults, timeline
from simulator.clients import Clients
from simulator.clock import ModelClock
from simulator.faults import ModelledFault
from simulator.frontend import Frontend
from simulator.journal import Journal
from simulator.network import Door
from simulator.router import Router
from simulator.timers import Timers
from simulator.trials import Trials


class Model:
    """Everything that takes part in a run of one scenario, before its first moment."""

    def __init__(self, scenario: Scenario, planned: Sequence[Planned]) -> None:
        self.env = simpy.Environment()
        self.timers = Timers(self.env)
        self.journal = Journal()
        catalog = Catalog(_core_pool(pool) for pool in scenario.pools)
        self.policy: Policy = build_policy(
            scenario.router.config(),
            ModelClock(self.env),
            random.Random(scenario.seed),  # noqa: S311 - the very draws that the real router makes with this seed
            catalog,
        )
        by_id = {pool.id: pool for pool in scenario.pools}
        names = {pool.name: [frontend.name for frontend in pool.frontends] for pool in catalog.pools}
        self.doors = {name: Door(self.env, self.timers) for pool in names for name in names[pool]}
        self.frontends = {
            name: Frontend(self.env, self.timers, self.journal, by_id[pool], name=name, seed=scenario.seed)
            for pool in names
            for name in names[pool]
        }
        Trials(self.env, self.timers, self.policy, self.doors).start()
        self.router = Router(self.env, self.timers, self.policy, self.doors, self.frontends, self.journal)
        self.clients = Clients(self.env, self.timers, self.journal, scenario.load, self.router.serve, scenario.seed)
        self.faults: list[ModelledFault] = [
            faults.build(
                fault,
                by_id[fault.pool],
                [self.doors[name] for name in names[fault.pool]],
                [self.frontends[name] for name in names[fault.pool]],
                lambda: self.env.now,
            )
            for fault in scenario.faults
        ]
        timeline.schedule(self.env, self.faults, planned, self.clients.arrive)

    def run(self) -> None:
        """Run to the end of everything: every wait in the model is bounded, so there is one."""
        self.env.run()


def _core_pool(pool: Pool) -> CorePool:
    # The addresses are never used: `.invalid` is reserved for names that lead nowhere.
    urls = [f"http://{pool.id}-{index}.invalid" for index in range(pool.frontends)]
    return CorePool.of_urls(pool.id, urls, [pool.model])
