"""What one job costs in a pool server, in CPU time: python -m tests.benchmarks.bench_pool_server

Each figure is the best of several rounds, so that a busy machine does not count. Exit code 1: above the bound.
"""

import sys
import time
from itertools import islice
from typing import NamedTuple

from scenarios.world import blocks
from scenarios.world.job import FINISHED, Job
from scenarios.world.pool_server import PoolServer

JOBS = 100_000
ROUNDS = 5
JOB_US_MAX = 3.3
"""What a model that makes 250,000 attempts a second can spend on its pools."""


class Case(NamedTuple):
    """A server, how full it is (offered work over what its slots can do), and whether clients leave."""

    slots: int
    utilisation: float
    load_factor: float = 1.0
    queue_max: int | None = None
    patience_s: float | None = None


CASES = {
    "1 slot, 90 % busy": Case(1, 0.9),
    "8 slots, 90 % busy": Case(8, 0.9),
    "64 slots, 90 % busy": Case(64, 0.9),
    "8 slots, a queue of 4,000": Case(8, 1.5, queue_max=4_000),
    "8 slots, 60 % busy, load factor 1.5": Case(8, 0.6, load_factor=1.5),
    "8 slots, a queue of 4,000, load factor 1.5": Case(8, 1.5, load_factor=1.5, queue_max=4_000),
    "8 slots, 150 % busy, all leave after 2 s": Case(8, 1.5, patience_s=2.0),
}


def job_us(case: Case) -> float:
    """Return the CPU time of one job from its offer to its end, the loop around it included."""
    gaps = list(islice(blocks.exponential(blocks.generator(1, "gaps"), 1 / (case.slots * case.utilisation)), JOBS))
    jobs = [Job(work_s) for work_s in islice(blocks.exponential(blocks.generator(1, "work")), JOBS)]
    server = PoolServer(slots=case.slots, queue_max=case.queue_max, load_factor=case.load_factor)
    ended, leaving, left, now_s = 0, case.patience_s, 0, 0.0
    times: list[float] = []
    begin_s = time.process_time()
    for gap_s, job in zip(gaps, jobs, strict=True):
        now_s += gap_s
        while server.next_s <= now_s:
            for moved in server.advance(server.next_s):
                ended += moved.state is FINISHED
        server.offer(job, now_s)
        if leaving is not None:
            times.append(now_s + leaving)
            while times[left] <= now_s:
                server.leave(jobs[left], now_s)
                left += 1
    spent_s = time.process_time() - begin_s
    assert ended == server.finished > 0
    return spent_s / JOBS * 1e6


def main() -> int:
    """Print a line a case; 1 if one costs more than the bound."""
    dear = 0
    for name, case in CASES.items():
        best_us = min(job_us(case) for _ in range(ROUNDS))
        print(f"{name:<45} {best_us:5.2f} us a job")
        dear += best_us > JOB_US_MAX
    return int(dear > 0)


if __name__ == "__main__":
    sys.exit(main())
