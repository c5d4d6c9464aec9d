"""Making a failing world small: fewer events, as long as it fails in the same way (delta debugging, Zeller 1999)."""

import traceback
from collections.abc import Callable, Sequence

from tests.virtual.laws import broken_laws
from tests.virtual.plan import World
from tests.virtual.play import play

RUNS_MAX = 400
"""So many worlds are played to make one smaller."""


def breaches_of(world: World) -> list[str]:
    """Play a world; returns the breaches of its laws, also where it could not be played to its end."""
    try:
        return broken_laws(play(world))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this world's breach
        return [f"played_to_its_end: {''.join(traceback.format_exception(error))[-1500:]}"]


def shortest(world: World, breaches: Sequence[str]) -> tuple[World, list[int]]:
    """Return the world with as few events as break the first of the broken laws, and their numbers."""
    law = breaches[0].partition(":")[0]

    def fails(numbers: Sequence[int]) -> bool:
        return any(breach.startswith(f"{law}:") for breach in breaches_of(world.keep(numbers)))

    kept = fewest(list(range(len(world.events))), fails)
    return world.keep(kept), kept


def fewest(items: list[int], fails: Callable[[Sequence[int]], bool], runs_max: int = RUNS_MAX) -> list[int]:
    """Return a small part of the items that still fails; leaving out any one of it does not, if the runs sufficed."""
    parts, runs = 2, 0
    while len(items) > 1:
        size = -(-len(items) // parts)
        for at in range(0, len(items), size):
            if runs == runs_max:
                return items
            rest = items[:at] + items[at + size :]
            runs += 1
            if rest and fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return items


def report(seed: int, world: World, numbers: Sequence[int], breaches: Sequence[str]) -> str:
    """Return what is printed of a failing world: what is broken, what is left of it, and how to see it again."""
    command = f".venv/bin/python -m tests.virtual.rerun {seed} --keep {','.join(map(str, numbers))}"
    lines = [f"the world of seed {seed} breaks a law", *(f"  {breach}" for breach in breaches)]
    lines += [
        f"  rules {world.rules}",
        f"  shell {world.shell}",
        f"  pools {world.pools}",
        f"  first {world.first}",
        "  events:",
    ]
    lines += [f"    {number:2} {event}" for number, event in zip(numbers, world.events, strict=True)]
    return "\n".join([*lines, f"  again: {command}"])
