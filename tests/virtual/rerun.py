"""Playing worlds from the command line: `python -m tests.virtual.rerun SEED [--count N] [--keep 0,3,7] [--log]`.

Exit codes: 0 all laws hold, 1 one is broken, 2 bad usage.
"""

import argparse
import sys
import time

from tests.virtual.draw import world_of
from tests.virtual.laws import broken_laws
from tests.virtual.play import play
from tests.virtual.shorten import breaches_of, report, shortest


def main() -> int:
    """Play the worlds that the command line names; the first that fails is shortened and shown."""
    parser = argparse.ArgumentParser(prog="python -m tests.virtual.rerun", description="Play random worlds.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1, help="so many seeds from there on")
    parser.add_argument("--keep", help="numbers of the events to keep, as a failing test prints them")
    parser.add_argument("--log", action="store_true", help="show the router's event log and its sends")
    arguments = parser.parse_args()
    if arguments.keep is not None or arguments.log:
        return _one(arguments.seed, arguments.keep, log=arguments.log)
    began_s, failed = time.perf_counter(), []
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        breaches = breaches_of(world_of(seed))
        if breaches:
            failed.append(seed)
            if len(failed) == 1:
                world, numbers = shortest(world_of(seed), breaches)
                _say(report(seed, world, numbers, breaches))
            else:
                _say(seed, *breaches)
    took_s = time.perf_counter() - began_s
    _say(f"{arguments.count} worlds in {took_s:.1f} s, {len(failed)} of them break a law: {failed[:20]}")
    return 1 if failed else 0


def _one(seed: int, keep: str | None, *, log: bool) -> int:
    world = world_of(seed)
    numbers = list(range(len(world.events))) if keep is None else [int(number) for number in keep.split(",")]
    world = world.keep(numbers)
    observed = play(world)
    breaches = broken_laws(observed)
    _say(report(seed, world, numbers, breaches) if breaches else f"the world of seed {seed} breaks no law")
    if log:
        _say(observed.events, *observed.heard.values(), *observed.served, *observed.rows)
    return 1 if breaches else 0


def _say(*lines: object) -> None:
    sys.stdout.write("\n  ".join(map(str, lines)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
