"""A client that leaves, at whatever stage: every lease comes back, the pool is told, the books agree."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest
import simpy

from router.core.effects import Wait
from router.core.topology import Catalog
from scenarios.plan import plan
from scenarios.spec import Fault
from simulator.connection import Connection
from simulator.frontend import Chat
from simulator.model import Model
from simulator.waiters import Waiters
from tests.simulator.drills import drill, fault, load

CHAT = Chat("op-9-0", "op-9-0-r0", "drill-model", stream=True)


@dataclass(frozen=True)
class Stage:
    """Where a request that came at 2 s is at `leaves_s`, and what its leaving must leave behind."""

    faults: tuple[Fault, ...]
    leaves_s: float
    in_flight: dict[str, int]
    sends: list[tuple[str, str | None]]
    pool_saw: list[str]


STAGES = {
    "first connect": Stage((fault("black_hole"),), 2.3, {"a": 1, "b": 0}, [("unsent", "client_left")], []),
    "second connect": Stage(
        (fault("refused"), fault("black_hole", "b")),
        2.3,
        {"a": 0, "b": 1},
        [("unsent", "refused"), ("unsent", "client_left")],
        [],
    ),
    "hand-over": Stage(
        (), 2.0008, {"a": 1, "b": 0}, [("unknown", "client_left")], ["head", "body_complete", "started", "cancelled"]
    ),
    "first byte": Stage(
        (), 2.05, {"a": 1, "b": 0}, [("unknown", "client_left")], ["head", "body_complete", "started", "cancelled"]
    ),
    "relay": Stage(
        (), 2.2, {"a": 1, "b": 0}, [("answered", "client_left")], ["head", "body_complete", "started", "cancelled"]
    ),
}


def model_of(*faults: Fault) -> Model:
    """Return a model whose only planned operation comes after everything."""
    scenario = drill(*faults, load=load(start_s=5.5))
    return Model(scenario, plan(scenario))


def ask(model: Model, at_s: float, leaves_s: float | None = None) -> Connection:
    """Let a client of our own ask, and leave."""
    connection = Connection(model.env, model.timers)

    def client() -> Generator[simpy.Event, Any, None]:
        yield model.env.timeout(at_s)
        connection.ask(lambda opened: model.router.serve(opened, CHAT))
        if leaves_s is not None:
            yield model.env.timeout(leaves_s - at_s)
            connection.leave()

    model.env.process(client())
    return connection


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_leaving_gives_everything_back(stage: Stage) -> None:
    model = model_of(*stage.faults)
    ask(model, 2.0, stage.leaves_s)
    model.env.run(until=stage.leaves_s + 0.0004)  # the news is still on its way
    assert model.policy.in_flight() == stage.in_flight
    model.env.run(until=stage.leaves_s + 0.0006)
    assert model.policy.in_flight() == {"a": 0, "b": 0}
    model.env.run(until=5.0)
    assert [(send.delivery, send.cause) for send in model.journal.sends] == stage.sends
    assert [event.kind for event in model.journal.pool_events] == stage.pool_saw
    assert model.policy.tally.client_requests == {("client_left", len(stage.sends)): 1}
    assert sum(model.policy.tally.sends.values()) == len(stage.sends)
    assert not any(len(door) for door in model.doors.values())


def empty(model: Model) -> Catalog:
    """Take all pools away; returns them."""
    catalog = model.policy.catalog
    model.policy.publish(Catalog(()))
    return catalog


def test_leaving_while_nothing_is_usable() -> None:
    model = model_of()
    empty(model)
    ask(model, 2.0, 2.5)
    model.env.run(until=2.4)
    assert (model.policy.waiting, len(model.router.waiters)) == (1, 1)
    model.env.run(until=3.0)
    assert (model.policy.waiting, len(model.router.waiters)) == (0, 0)
    assert model.policy.tally.client_requests == {("client_left", 0): 1}


def test_waiting_ends_with_the_patience() -> None:
    model = model_of()
    empty(model)
    ask(model, 2.0)
    model.env.run(until=2.0005 + 1.999)
    assert model.policy.waiting == 1
    model.env.run(until=2.0005 + 2.001)
    assert (model.policy.waiting, len(model.router.waiters)) == (0, 0)
    assert model.policy.tally.client_requests == {("no_pool", 0): 1}


def test_those_who_wait_are_served_in_the_order_in_which_they_came() -> None:
    model = model_of()
    catalog = empty(model)
    for at_s in (2.3, 2.1, 2.2):
        ask(model, at_s)
    model.env.run(until=3.0)
    assert len(model.router.waiters) == 3
    model.policy.publish(catalog)
    model.env.run(until=3.1)
    assert [event.frontend for event in model.journal.pool_events if event.kind == "head"] == ["a-0", "b-0", "a-0"]
    assert len(model.router.waiters) == 0


def test_a_sleeper_ends_at_its_time_or_when_it_is_woken() -> None:
    model = model_of()
    waiters = Waiters(model.env, model.timers)
    ended: list[str] = []

    def sleeper(name: str, effect: Wait) -> Generator[simpy.Event, Any, None]:
        yield from waiters.wait(effect)
        ended.append(f"{name} {model.env.now:g}")

    effects = {name: Wait(until_s) for name, until_s in (("woken", 4.0), ("late", 3.5), ("for ever", float("inf")))}
    for name, effect in effects.items():
        model.env.process(sleeper(name, effect))
    model.env.run(until=3.0)
    effects["woken"].wake()
    effects["woken"].wake()
    model.env.run(until=5.0)
    effects["woken"].wake()
    assert (ended, len(waiters)) == (["woken 3", "late 3.5"], 1)
    effects["for ever"].wake()
    model.env.run(until=6.0)
    assert (ended[2:], len(waiters)) == (["for ever 5"], 0)
