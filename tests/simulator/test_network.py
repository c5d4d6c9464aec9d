"""Doors: who gets in, who is refused, who hangs for how long, and what is cut."""

from collections.abc import Generator
from typing import Any

import pytest
import simpy

from router.core.delivery import Cause
from simulator.connection import Connection
from simulator.network import CONNECT_S, Door, Limit, Obstacle
from simulator.timers import Timers

Steps = Generator[simpy.Event, Any, None]


class Street:
    """A door, and what became of each connect that was begun at it: when, and what."""

    def __init__(self) -> None:
        self.env = simpy.Environment()
        self.door = Door(self.env, Timers(self.env))
        self.seen: list[tuple[float, Any]] = []

    def connect(self, start_s: float, until_s: float) -> None:
        def caller() -> Steps:
            yield self.env.timeout(start_s)
            got: Connection | Cause = yield from self.door.connect(until_s, event_bytes=10)
            self.seen.append((round(self.env.now, 6), "in" if isinstance(got, Connection) else got))

        self.env.process(caller())

    def obstacle(self, from_s: float, to_s: float, *, hangs: bool) -> Obstacle:
        obstacle = Obstacle(hangs=hangs)

        def placer() -> Steps:
            yield self.env.timeout(from_s)
            self.door.put(obstacle)
            yield self.env.timeout(to_s - from_s)
            self.door.obstacle = None

        self.env.process(placer())
        return obstacle

    def run(self) -> list[tuple[float, Any]]:
        self.env.run()
        return self.seen


def test_an_open_door_lets_in() -> None:
    street = Street()
    street.connect(1.0, 2.0)
    assert street.run() == [(1.0 + CONNECT_S, "in")]
    assert len(street.door) == 1


def test_a_refusal_is_as_fast_as_a_connect() -> None:
    street = Street()
    obstacle = street.obstacle(0.5, 3.0, hangs=False)
    street.connect(1.0, 2.0)
    assert street.run() == [(1.0 + CONNECT_S, Cause.REFUSED)]
    assert (obstacle.connects, obstacle.cuts) == (1, 0)


def test_a_hanging_connect_is_given_up_at_its_bound() -> None:
    street = Street()
    obstacle = street.obstacle(0.5, 60.0, hangs=True)
    street.connect(1.0, 1.7)
    street.connect(1.0, 9.0)
    assert street.run() == [(1.7, Cause.CONNECT_TIMEOUT), (9.0, Cause.CONNECT_TIMEOUT)]
    assert obstacle.connects == 2


@pytest.mark.parametrize(
    ("cleared_s", "connected_s"), [(0.3, 1), (1.5, 2), (2.2, 3), (3.3, 4), (4.3, 5), (5.3, 7), (7.5, 11)]
)
def test_a_hanging_connect_succeeds_at_the_kernels_next_try(cleared_s: float, connected_s: float) -> None:
    """Measured on loopback, Linux 6.18: cleared after .3 s, connected after 1.02 s, and so on."""
    street = Street()
    street.obstacle(0.5, 1.0 + cleared_s, hangs=True)
    street.connect(1.0, 30.0)
    assert street.run() == [(1.0 + connected_s + CONNECT_S, "in")]


def test_a_hole_that_turns_into_a_wall_refuses_at_the_next_try() -> None:
    street = Street()
    hole = street.obstacle(0.5, 1.2, hangs=True)
    wall = street.obstacle(1.3, 9.0, hangs=False)
    street.connect(1.0, 30.0)
    assert street.run() == [(2.0 + CONNECT_S, Cause.REFUSED)]
    assert (hole.connects, wall.connects) == (1, 1)


def test_a_bound_shorter_than_a_connect_ends_it() -> None:
    street = Street()
    street.connect(1.0, 1.0 + CONNECT_S / 2)
    assert street.run() == [(1.0 + CONNECT_S / 2, Cause.CONNECT_TIMEOUT)]


@pytest.mark.parametrize("hangs", [False, True])
def test_an_obstacle_cuts_what_is_inside(hangs: bool) -> None:
    street = Street()
    obstacle = street.obstacle(2.0, 3.0, hangs=hangs)
    street.connect(1.0, 2.0)
    street.connect(1.1, 2.0)
    street.env.run(until=1.5)
    assert len(street.door) == 2
    street.env.run()
    assert len(street.door) == 0
    assert obstacle.cuts == 2


def test_a_limit_is_for_those_who_come_while_it_is_there() -> None:
    street = Street()
    limits: list[int | None] = []

    def comer(start_s: float) -> Steps:
        yield street.env.timeout(start_s)
        got = yield from street.door.connect(9.0, event_bytes=10)
        assert isinstance(got, Connection)
        limits.append(got.bytes_left)

    for start_s in (1.0, 2.0, 3.0):
        street.env.process(comer(start_s))
    street.env.run(until=1.5)
    street.door.limit = Limit(3)
    street.env.run(until=2.5)
    street.door.limit = None
    street.env.run()
    assert limits == [None, 30, None]
