"""Random worlds: the unchanged router on a virtual clock, with faults at any byte and any time. All laws hold in all.

A world that breaks one is printed as its seed with as few of its events as still break it, and how to play it again.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.virtual.draw import world_of
from tests.virtual.plan import World
from tests.virtual.play import play
from tests.virtual.shorten import breaches_of, report, shortest

ROOT = Path(__file__).resolve().parents[2]
WORLDS = 1_000
SOAK_WORLDS = 100_000
PART = 100
"""So many worlds are one test."""
SOAK_PART = 2_500
SOAK_FROM = 1_000_000
"""The soak plays other worlds than the suite."""


def laws_hold_from(first: int, count: int) -> None:
    for seed in range(first, first + count):
        breaches = breaches_of(world_of(seed))
        if breaches:
            world, numbers = shortest(world_of(seed), breaches)
            pytest.fail(report(seed, world, numbers, breaches), pytrace=False)


@pytest.mark.parametrize("first", range(0, WORLDS, PART))
def test_all_laws_hold(first: int) -> None:
    laws_hold_from(first, PART)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SOAK_FROM, SOAK_FROM + SOAK_WORLDS, SOAK_PART))
def test_all_laws_hold_in_the_soak(first: int) -> None:
    laws_hold_from(first, SOAK_PART)


def test_the_worlds_are_worth_playing() -> None:
    """A net in which nothing is caught is no net: every kind of end occurs, and not by accident."""
    ends: dict[str, int] = {}
    for seed in range(40):
        for (code, _), count in play(world_of(seed)).tally.client_requests.items():
            ends[code] = ends.get(code, 0) + count
    assert {"200", "client_left", "maybe_running", "pool_timeout", "deadline", "no_pool"} <= ends.keys(), ends
    assert ends["200"] > sum(ends.values()) / 5, ends


def test_a_seed_is_one_world() -> None:
    assert world_of(7) == world_of(7)
    assert world_of(7) != world_of(8)
    assert isinstance(world_of(7).keep([0]), World)


def test_a_world_runs_the_same_way_each_time() -> None:
    assert [play(world_of(seed)).trace for seed in range(20)] == [play(world_of(seed)).trace for seed in range(20)]


def test_a_world_runs_the_same_way_whatever_the_hash_seed() -> None:
    """Sets and dicts of objects are everywhere in asyncio and in aiohttp; none of them may decide what happens."""
    program = (
        "from tests.virtual.draw import world_of; from tests.virtual.play import play;"
        "print([play(world_of(seed)).trace for seed in range(20)])"
    )
    traces = {_output(program, hash_seed) for hash_seed in ("1", "77")}
    assert len(traces) == 1


def _output(program: str, hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
