"""What happens at planned times: faults come and go, operations arrive.

Law: at one instant faults go first, then faults come, then operations arrive; whatever else is due then comes after the
faults. So an operation that arrives at the very moment at which a fault comes meets it, and one that arrives when it
goes does not.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from scenarios.plan import Planned
from simulator.faults import ModelledFault


def schedule(
    env: simpy.Environment,
    faults: Sequence[ModelledFault],
    arrivals: Sequence[Planned],
    arrive: Callable[[Planned], None],
) -> None:
    """Set the whole timeline of a run that has not begun; `arrivals` in order of time."""
    assert env.now == 0, "planned times count from the run's start"
    clears = [(fault.planned.clear_s, fault.clear) for fault in faults]
    injects = [(fault.planned.inject_s, fault.inject) for fault in faults]
    # simpy serves equal times in the order of scheduling, and a delay from 0 is exact: what is scheduled first now
    # comes before everything else of its instant.
    for at_s, act in (*clears, *injects):
        _at(env, at_s, act)
    env.process(_arrivals(env, arrivals, arrive))


def _at(env: simpy.Environment, at_s: float, act: Callable[[], None]) -> None:
    edge = env.timeout(at_s)
    assert edge.callbacks is not None
    edge.callbacks.append(lambda _: act())


def _arrivals(
    env: simpy.Environment, arrivals: Sequence[Planned], arrive: Callable[[Planned], None]
) -> Generator[simpy.Event, Any, None]:
    for planned in arrivals:
        # The sum of now and a difference can be a hair less than the planned time, and so before an edge at that time.
        while env.now < planned.t_s:
            yield env.timeout(planned.t_s - env.now)
        arrive(planned)
