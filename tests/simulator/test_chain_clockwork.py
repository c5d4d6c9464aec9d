"""Calls at absolute times and timers that leave nothing dead in the heap."""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from simulator.chain.clockwork import SWEEP_MIN, Clockwork, FifoTimers, Timers, Wake


@dataclass
class Item:
    """Something that is waited for."""

    name: str
    t_start_s: float = 0.0
    live: bool = True


def _note(clockwork: Clockwork, seen: list[Any], name: str, _: Wake) -> None:
    seen.append((clockwork.now, name))


def _add(timers: FifoTimers, item: Item, _: Wake) -> None:
    timers.add(item)


def test_calls_come_in_order_of_time_then_of_asking() -> None:
    clockwork = Clockwork()
    seen: list[Any] = []
    for name, at_s in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        clockwork.at(at_s, partial(_note, clockwork, seen, name))
    clockwork.run_out()
    assert seen == [(1.0, "a"), (1.0, "b"), (2.0, "c"), (2.0, "d")]


def test_what_is_due_at_once_comes_before_all_else_of_the_moment() -> None:
    clockwork = Clockwork()
    seen: list[Any] = []
    clockwork.at(1.0, lambda _: clockwork.soon(lambda _: seen.append("soon")))
    clockwork.at(1.0, lambda _: seen.append("first"))
    clockwork.at(1.0, lambda _: seen.append("second"))
    clockwork.run_out()
    assert seen == ["soon", "first", "second"]


def test_ordinary_processes_run_beside_calls() -> None:
    clockwork = Clockwork()
    seen: list[Any] = []

    def process() -> Generator[Any, Any, None]:
        yield clockwork.timeout(1.5)
        seen.append(("process", clockwork.now))

    clockwork.process(process())
    clockwork.at(1.0, lambda _: seen.append(("call", clockwork.now)))
    clockwork.at(2.0, lambda _: seen.append(("call", clockwork.now)))
    clockwork.run_out()
    assert seen == [("call", 1.0), ("process", 1.5), ("call", 2.0)]


@pytest.mark.parametrize("run", ["run", "run_out"])
def test_a_horizon_stops_before_what_is_due_then(run: str) -> None:
    clockwork = Clockwork()
    seen: list[Any] = []
    for at_s in (1.0, 2.0, 3.0):
        clockwork.at(at_s, lambda _: seen.append(clockwork.now))
    getattr(clockwork, run)(2.0)
    assert (seen, clockwork.now) == ([1.0], 2.0)


def test_a_call_can_be_armed_again() -> None:
    clockwork = Clockwork()
    seen: list[Any] = []

    def ring(wake: Wake) -> None:
        seen.append(clockwork.now)
        if len(seen) < 3:
            clockwork.again(clockwork.now + 0.1, wake)

    clockwork.at(0.1, ring)
    clockwork.run_out()
    assert seen == pytest.approx([0.1, 0.2, 0.3])


def test_news_are_told_in_order_and_never_inside_one_another() -> None:
    clockwork = Clockwork()
    seen: list[Any] = []

    def told(name: str, depth: int) -> None:
        seen.append(f"begin {name}")
        if depth:
            clockwork.news.add(told, f"{name}'", depth - 1)
        seen.append(f"end {name}")

    clockwork.at(1.0, lambda _: clockwork.news.add(told, "a", 1))
    clockwork.at(1.0, lambda _: clockwork.news.add(told, "b", 0))
    clockwork.run_out()
    assert seen == ["begin a", "end a", "begin a'", "end a'", "begin b", "end b"]


class TestFifoTimers:
    def test_only_what_is_live_is_fired_in_order(self) -> None:
        clockwork = Clockwork()
        fired: list[Any] = []
        timers = FifoTimers(clockwork, 1.0, lambda item: fired.append((clockwork.now, item.name)))
        items = [Item(name, t_start_s=at_s) for name, at_s in (("a", 0.0), ("b", 0.25), ("c", 0.5))]
        for item in items:
            clockwork.at(item.t_start_s, partial(_add, timers, item))
        clockwork.at(0.9, lambda _: setattr(items[1], "live", False))
        clockwork.run_out()
        assert fired == [(1.0, "a"), (1.5, "c")]
        assert len(timers) == 0

    def test_what_fires_may_begin_anew(self) -> None:
        clockwork = Clockwork()
        fired: list[Any] = []

        def fire(item: Item) -> None:
            fired.append(clockwork.now)
            if len(fired) < 4:
                timers.add(Item("again", t_start_s=clockwork.now))

        timers = FifoTimers(clockwork, 0.5, fire)
        clockwork.at(0.0, lambda _: timers.add(Item("first")))
        clockwork.run_out()
        assert fired == [0.5, 1.0, 1.5, 2.0]
        assert clockwork.entries == 0

    def test_the_dead_do_not_pile_up_behind_one_that_lives(self) -> None:
        clockwork = Clockwork()
        timers = FifoTimers(clockwork, 1e6, lambda _: None)
        timers.add(Item("lives"))
        for _ in range(10_000):
            item = Item("dies")
            timers.add(item)
            item.live = False
        assert len(timers) <= SWEEP_MIN
        assert clockwork.entries == 1


class TestTimers:
    def test_each_is_fired_at_its_time(self) -> None:
        clockwork = Clockwork()
        fired: list[Any] = []
        timers = Timers(clockwork)
        for name, due_s in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("dead", 1.5)):
            item = Item(name, live=name != "dead")
            timers.add(due_s, item, lambda item: fired.append((clockwork.now, item.name)))
        clockwork.run_out()
        assert fired == [(1.0, "a"), (2.0, "b"), (3.0, "c")]
        assert clockwork.entries == len(timers) == 0

    def test_one_wake_up_for_each_time_that_was_the_earliest(self) -> None:
        clockwork = Clockwork()
        timers = Timers(clockwork)
        for due_s in (5.0, 6.0, 7.0, 4.0, 8.0):
            timers.add(due_s, Item("x"), lambda _: None)
        assert clockwork.entries == 2

    def test_the_dead_do_not_pile_up(self) -> None:
        timers = Timers(Clockwork())
        for turn in range(10_000):
            item = Item("dies")
            timers.add(1e6 - turn % 7, item, lambda _: None)
            item.live = False
        assert len(timers) <= SWEEP_MIN
