"""Alarms: raised once, cleared once."""

import random
from collections import Counter

import pytest

from router.core.alarms import ALARMS_MAX, Alarm, AlarmKind, Alarms


@pytest.fixture
def events() -> list[Alarm]:
    return []


@pytest.fixture
def alarms(events: list[Alarm]) -> Alarms:
    alarms = Alarms()
    alarms.on_event = events.append
    return alarms


@pytest.mark.parametrize("kind", AlarmKind)
def test_an_alarm_is_raised_once_and_cleared_once(alarms: Alarms, events: list[Alarm], kind: AlarmKind) -> None:
    for now in (1.0, 2.0, 3.0):
        alarms.set(kind, now, on=True, about="a", detail=f"at {now:g}")
    assert alarms.raised() == (Alarm(kind=kind, about="a", since_s=1.0, detail="at 1"),)
    assert alarms.count(kind) == 1
    for now in (4.0, 5.0):
        alarms.set(kind, now, on=False, about="a")
    assert events == [
        Alarm(kind=kind, about="a", since_s=1.0, detail="at 1"),
        Alarm(kind=kind, about="a", since_s=1.0, detail="at 1", cleared_s=4.0),
    ]
    assert alarms.raised() == ()


def test_an_alarm_that_returns_is_a_new_one(alarms: Alarms, events: list[Alarm]) -> None:
    for now, on in ((1.0, True), (2.0, False), (3.0, True)):
        alarms.set(AlarmKind.DRIFT, now, on=on)
    assert [(event.since_s, event.cleared_s) for event in events] == [(1.0, None), (1.0, 2.0), (3.0, None)]


def test_alarms_about_different_things_are_apart(alarms: Alarms) -> None:
    alarms.raise_(AlarmKind.DRIFT, 1.0, about="a")
    alarms.raise_(AlarmKind.DRIFT, 2.0, about="b")
    alarms.raise_(AlarmKind.EVERYTHING_BENCHED, 3.0, about="a")
    alarms.clear(AlarmKind.DRIFT, 4.0, about="a")
    assert [(alarm.kind, alarm.about) for alarm in alarms.raised()] == [
        (AlarmKind.DRIFT, "b"),
        (AlarmKind.EVERYTHING_BENCHED, "a"),
    ]
    assert [alarms.count(kind) for kind in (AlarmKind.DRIFT, AlarmKind.STALE_DISCOVERY)] == [1, 0]


def test_what_an_alarm_was_about_may_be_gone(alarms: Alarms, events: list[Alarm]) -> None:
    for about in ("a", "b", "c"):
        alarms.raise_(AlarmKind.DRIFT, 1.0, about=about)
    alarms.raise_(AlarmKind.EVERYTHING_BENCHED, 1.0, about="a")
    alarms.keep_only(AlarmKind.DRIFT, ["b"], 2.0)
    assert [(alarm.kind, alarm.about) for alarm in alarms.raised()] == [
        (AlarmKind.DRIFT, "b"),
        (AlarmKind.EVERYTHING_BENCHED, "a"),
    ]
    assert [event.about for event in events if event.cleared_s == 2.0] == ["a", "c"]


def test_alarms_are_bounded(alarms: Alarms, events: list[Alarm]) -> None:
    for number in range(ALARMS_MAX + 2):
        alarms.raise_(AlarmKind.DRIFT, 1.0, about=str(number))
    alarms.raise_(AlarmKind.DRIFT, 2.0, about="0")
    assert (len(alarms.raised()), len(events), alarms.dropped) == (ALARMS_MAX, ALARMS_MAX, 2)


def test_nobody_has_to_listen() -> None:
    Alarms().raise_(AlarmKind.DRIFT, 1.0)


def test_whatever_happens_events_alternate(alarms: Alarms, events: list[Alarm]) -> None:
    draws = random.Random(4)
    for step in range(2000):
        alarms.set(draws.choice(list(AlarmKind)), float(step), on=draws.random() < 0.5, about=draws.choice("ab"))
    seen: Counter[tuple[AlarmKind, str]] = Counter()
    for event in events:
        seen[event.kind, event.about] += 1 if event.cleared_s is None else -1
        assert seen[event.kind, event.about] in (0, 1)
    assert sum(seen.values()) == len(alarms.raised())
