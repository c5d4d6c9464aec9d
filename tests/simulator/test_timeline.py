"""What comes first where two things are planned for one moment."""

import random
from pathlib import Path

import simpy

from scenarios.plan import Planned
from scenarios.spec import Pool
from simulator import faults
from simulator.network import Door
from simulator.run import run
from simulator.timeline import schedule
from simulator.timers import Timers
from tests.simulator.drills import drill, fault, load


def test_faults_go_before_faults_come_before_operations_arrive() -> None:
    env = simpy.Environment()
    doors = {pool: Door(env, Timers(env)) for pool in "ab"}
    planned = (fault("refused", "b", at=(2.0, 3.0)), fault("black_hole", "a", at=(1.0, 2.0)))
    made = [faults.build(one, Pool(id=one.pool), [doors[one.pool]], [], lambda: env.now) for one in planned]
    seen: list[tuple[float, str, str]] = []

    def arrive(operation: Planned) -> None:
        blocked = "".join(pool for pool, door in doors.items() if door.obstacle is not None)
        seen.append((env.now, operation.operation_id, blocked))

    arrivals = [Planned(0, 0, 1.0), Planned(0, 1, 2.0), Planned(1, 0, 2.0), Planned(0, 2, 3.0)]
    schedule(env, made, arrivals, arrive)
    env.run()
    assert seen == [(1.0, "op-0-0", "a"), (2.0, "op-0-1", "b"), (2.0, "op-1-0", "b"), (3.0, "op-0-2", "")]


def test_no_rounding_lets_an_arrival_slip_past_an_edge_of_its_own_moment() -> None:
    """The sum of a moment and the difference to another may fall short of that other by the last binary digit."""
    draws = random.Random(5)
    pairs = [(draws.uniform(0.0, 1.0), draws.uniform(2.0, 10.0)) for _ in range(2000)]
    short = [(early, late) for early, late in pairs if early + (late - early) < late]
    assert len(short) > 20, "the draws must show the trap"
    for early, late in short:
        assert blocked_on_arrival([early, late], edges=(late, 11.0)) == [False, True]


def blocked_on_arrival(times: list[float], edges: tuple[float, float]) -> list[bool]:
    """Let operations arrive at a door that is blocked between two moments; returns which of them find it blocked."""
    env = simpy.Environment()
    door = Door(env, Timers(env))
    wall = faults.build(fault("refused", at=edges), Pool(id="a"), [door], [], lambda: env.now)
    found: list[bool] = []
    arrivals = [Planned(0, turn, t_s) for turn, t_s in enumerate(times)]
    schedule(env, [wall], arrivals, lambda _: found.append(door.obstacle is not None))
    env.run()
    return found


def test_an_operation_that_arrives_when_a_fault_comes_meets_it(tmp_path: Path) -> None:
    scenario = drill(fault("refused", at=(1.5, 2.5)), load=load(start_s=1.5, count=3, rate_rps=1.0))
    record = run(scenario, tmp_path)
    assert [(s.request_id, s.pool, s.cause) for s in record.sends] == [
        ("op-0-0-r0", "a", "refused"),
        ("op-0-0-r0", "b", None),
        ("op-0-1-r0", "b", None),
        ("op-0-2-r0", "a", None),
    ]


def test_an_operation_that_arrives_when_a_fault_goes_does_not_meet_it(tmp_path: Path) -> None:
    scenario = drill(fault("refused", at=(0.5, 1.5)), load=load(start_s=1.5))
    record = run(scenario, tmp_path)
    assert [(s.pool, s.cause) for s in record.sends] == [("a", None)]
    assert not record.faults[0].proved, "a fault that nothing met proves nothing"
    assert record.faults[0].cleared
