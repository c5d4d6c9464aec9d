"""Bounds on waiting: which comes first, calling off, and how many entries they leave behind."""

from collections.abc import Generator
from typing import Any

import pytest
import simpy

from simulator.timers import DEAD_MIN, LATE, Timers

Steps = Generator[simpy.Event, Any, None]


@pytest.fixture
def env() -> simpy.Environment:
    return simpy.Environment()


@pytest.fixture
def timers(env: simpy.Environment) -> Timers:
    return Timers(env)


def test_what_comes_first_is_what_is_returned(env: simpy.Environment, timers: Timers) -> None:
    seen: list[tuple[float, Any]] = []

    def waiter(event: simpy.Event, until_s: float) -> Steps:
        value = yield from timers.wait(event, until_s)
        seen.append((env.now, value))

    env.process(waiter(env.timeout(2.0, "event"), 5.0))
    env.process(waiter(env.event(), 3.0))
    env.process(waiter(env.event(), 1.0))
    env.run()
    assert seen == [(1.0, LATE), (2.0, "event"), (3.0, LATE)]


def test_nobody_wakes_before_the_bound(env: simpy.Environment, timers: Timers) -> None:
    """Sums of floats may end a hair before it; what asks the clock then would wait once more."""
    woken: list[tuple[float, float]] = []

    def sleeper(start_s: float, until_s: float) -> Steps:
        yield env.timeout(start_s)
        yield from timers.sleep(until_s)
        woken.append((env.now, until_s))

    for turn in range(1000):
        env.process(sleeper(turn * 0.0137, turn * 0.0137 + 0.1 * (turn % 7) + 1 / 3))
    env.run()
    assert len(woken) == 1000
    assert all(now == pytest.approx(until_s, abs=1e-9) for now, until_s in woken)
    assert all(now >= until_s for now, until_s in woken)


def test_a_past_bound_costs_no_time(env: simpy.Environment, timers: Timers) -> None:
    env.process(timers.sleep(0.0))
    env.run()
    assert env.now == 0.0


def test_a_waiter_that_is_interrupted_leaves_no_bound(env: simpy.Environment, timers: Timers) -> None:
    def waiter() -> Steps:
        try:
            yield from timers.wait(env.event(), 30.0)
        except simpy.Interrupt:
            yield env.timeout(100.0)  # a bound that rang now would resume this

    def leaver(process: simpy.Process) -> Steps:
        yield env.timeout(1.0)
        process.interrupt()

    process = env.process(waiter())
    env.process(leaver(process))
    env.run()
    assert env.now == 101.0


def test_bounds_that_are_never_reached_do_not_pile_up(env: simpy.Environment, timers: Timers) -> None:
    """1,000 requests a second, each done in 10 ms and bounded by 30 s: simpy alone would hold 30,000 timeouts."""
    most = [0, 0]

    def request(start_s: float) -> Steps:
        yield env.timeout(max(0.0, start_s - env.now))
        yield from timers.wait(env.timeout(0.01), env.now + 30.0)

    def source() -> Steps:
        for turn in range(40_000):
            env.process(request(turn / 1000))
            yield env.timeout(0.001)
            most[0] = max(most[0], len(timers))
            most[1] = max(most[1], len(env._queue))

    env.process(source())
    env.run(until=40.0)
    assert most[0] <= 2 * (11 + DEAD_MIN)
    assert most[1] <= 30


def test_ever_earlier_bounds_share_their_wake_ups(env: simpy.Environment, timers: Timers) -> None:
    rung: list[float] = []

    def sleeper(until_s: float) -> Steps:
        yield from timers.sleep(until_s)
        rung.append(env.now)

    for until_s in (9.0, 8.0, 7.0, 7.0, 8.5, 1.0):
        env.process(sleeper(until_s))
    env.run()
    assert rung == [1.0, 7.0, 7.0, 8.0, 8.5, 9.0]
    assert len(timers) == 0
