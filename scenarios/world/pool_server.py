"""What stands behind one frontend: so many slots, a queue before them, and work that slows down with the load.

Laws
1. Work conservation: nobody waits while a slot is free.
2. Conservation of jobs: offered = rejected + waiting + running + finished + cancelled.
3. Order: from the queue the oldest (fifo) or the youngest (lifo) is taken; a full queue rejects the newcomer.
4. A change of load or speed re-times what runs. Work counts in seconds at load 1; a virtual clock runs at
   speed / load(running), and a job ends when the clock has gone on by its work since its start.
5. The time to the first token is fixed at the start: prefill x load(running) / speed, the job itself included. Only a
   change of speed moves it, never a change of load.
6. What ends at a moment has ended before anything that is offered at that moment.

No clock, no timer, no random source: the driver says what time it is. It keeps one timer a server, at `next_s`, and
calls `advance` then. `offer`, `leave`, `advance`, `set_slots` and `set_speed` each return the jobs that have moved
besides the one that was named, in the order of time: those that now run and those that have finished. All five can
start queued jobs, so a driver must look at what each returns.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Final, Literal

from scenarios.world.job import CANCELLED, FINISHED, QUEUED, REJECTED, RUNNING, Job

Order = Literal["fifo", "lifo"]
Cancel = Literal["never", "queue", "service"]
"""What a client's departure ends: nothing, what is still queued, or what runs too."""

_DEAD_MIN: Final = 64
"""So many cancelled entries are always tolerated in queue and heap; beyond that, as many as there are live ones."""


NOBODY: Final[tuple[Job, ...]] = ()


class PoolServer:
    """Slots and a queue. All times are seconds on the driver's clock, which must not go back.

    `queue_max` None: no bound. The load factor rises linearly from 1 with one job running to `load_factor` with all
    slots taken. `orphaned_s` and `orphaned_tokens` count what slots worked for jobs whose clients had left.
    """

    __slots__ = (
        "_cancel",
        "_dead_due",
        "_due",
        "_fifo",
        "_left",
        "_load_factor",
        "_loads",
        "_pace",
        "_plain",
        "_queue",
        "_queue_max",
        "_speed",
        "_stalled",
        "_t_s",
        "_turn",
        "_v",
        "cancelled",
        "finished",
        "next_s",
        "orphaned_s",
        "orphaned_tokens",
        "rejected",
        "running",
        "slots",
        "waiting",
    )

    def __init__(
        self,
        *,
        slots: int,
        queue_max: int | None = None,
        order: Order = "fifo",
        cancel: Cancel = "service",
        load_factor: float = 1.0,
    ) -> None:
        if slots < 0 or (queue_max is not None and queue_max < 0) or not 1.0 <= load_factor < inf:
            raise ValueError(f"{slots} slots, a queue of {queue_max}, load factor {load_factor}: none may be less")
        self.slots = slots
        self.running = 0
        self.waiting = 0
        self.finished = 0
        self.cancelled = 0
        self.rejected = 0
        self.orphaned_s = 0.0
        self.orphaned_tokens = 0
        self.next_s = inf
        """When `advance` is due; inf: not before something else happens."""
        self._queue_max: float = inf if queue_max is None else queue_max
        self._fifo = order == "fifo"
        self._cancel = cancel
        self._load_factor = load_factor
        self._speed = 1.0
        # Cancelled jobs stay in both until they come up, or until there are more of them than of the living.
        self._queue: deque[Job] = deque()
        self._due: list[tuple[float, int, Job]] = []  # by the virtual time at which they end
        self._dead_due = 0
        self._turn = 0
        self._left: dict[Job, tuple[float, int]] = {}  # orphans: when their clients left, and tokens done by then
        # Without load and at full speed the virtual clock is the driver's own, and nothing is ever re-timed.
        self._plain = load_factor == 1.0
        self._v = self._t_s = 0.0  # the virtual clock stood at _v at _t_s
        self._loads: list[float] = []
        self._pace: list[float] = []
        self._stalled: dict[Job, float] = {}  # what is left of each prefill while the speed is 0
        if not self._plain:
            self._set_pace()

    @property
    def in_flight(self) -> int:
        """Jobs that wait or run."""
        return self.waiting + self.running

    def jobs(self) -> Iterator[Job]:
        """Yield what runs, then what waits, each in the order in which it came or comes to an end."""
        yield from (job for _, _, job in sorted(self._due, key=lambda entry: entry[:2]) if job.state is RUNNING)
        yield from (job for job in self._queue if job.state is QUEUED)

    @property
    def offered(self) -> int:
        """Jobs that were ever offered."""
        return self.rejected + self.waiting + self.running + self.finished + self.cancelled

    def offer(self, job: Job, now_s: float) -> Sequence[Job]:
        """Take a job in; its state tells whether it runs, is queued or was rejected."""
        moved = NOBODY if self.next_s > now_s else self.advance(now_s)
        if self.running < self.slots:
            if self._plain:
                self.running += 1
                job.state = RUNNING
                job.start_s = job.start_v = now_s
                job.first_token_s = now_s + job.prefill_s
                due = now_s + job.work_s
                self._turn = turn = self._turn + 1
                heappush(self._due, (due, turn, job))
                if due < self.next_s:  # noqa: PLR1730 - the hot path of a model: a call of min costs four times as much
                    self.next_s = due
            else:
                self._go_to(now_s)
                self._start(job, now_s)
                self._aim(now_s)
        elif self.waiting < self._queue_max:
            self.waiting += 1
            job.state = QUEUED
            self._queue.append(job)
        else:
            self.rejected += 1
            job.state = REJECTED
        return moved

    def advance(self, now_s: float) -> Sequence[Job]:
        """Let everything happen that is due until now; a job that started and finished meanwhile is named twice."""
        if self.next_s > now_s:
            return NOBODY
        moved: list[Job] = []
        if self._plain:
            self._advance_plain(now_s, moved)
            return moved
        while self.next_s <= now_s:
            at_s = self.next_s
            self._v, _, job = heappop(self._due)
            self._t_s = at_s
            self._finish(job, at_s)
            moved.append(job)
            self.running -= 1
            self._fill(at_s, moved)
            self._aim(at_s)
        return moved

    def leave(self, job: Job, now_s: float) -> Sequence[Job]:
        """Hear that the client of a job has gone: the job is cancelled, or goes on for nobody. Too late: nothing."""
        moved = [] if self.next_s > now_s else list(self.advance(now_s))
        if job.state is QUEUED and self._cancel != "never":
            self._drop(job, now_s)
            self.waiting -= 1
            if len(self._queue) > 2 * self.waiting + _DEAD_MIN:
                self._queue = deque(queued for queued in self._queue if queued.state is QUEUED)
        elif job.state is RUNNING and self._cancel == "service":
            self._go_to(now_s)
            self._drop(job, now_s)
            self._dead_due += 1
            self.running -= 1
            self._fill(now_s, moved)
            self._sweep()
            self._aim(now_s)
        elif job.state in (QUEUED, RUNNING) and job not in self._left:
            self._left[job] = (now_s, self.tokens_done(job, now_s) if job.tokens else 0)
        return moved

    def set_slots(self, slots: int, now_s: float) -> Sequence[Job]:
        """Change the number of slots. What runs in a slot that is gone goes on to its end; 0: nothing new starts."""
        if slots < 0:
            raise ValueError(f"{slots} slots")
        moved = list(self.advance(now_s))
        self._go_to(now_s)
        self.slots = slots
        self._retime()
        self._fill(now_s, moved)
        self._aim(now_s)
        return moved

    def set_speed(self, speed: float, now_s: float) -> Sequence[Job]:
        """Change how fast everything here works: 1 is normal, .5 half as fast, 0 not at all."""
        if not 0.0 <= speed < inf:
            raise ValueError(f"a speed of {speed}")
        moved = list(self.advance(now_s))
        self._go_to(now_s)
        self._move_first_tokens(speed, now_s)
        self._speed = speed
        self._retime()
        self._aim(now_s)
        return moved

    def reached_s(self, job: Job, work_s: float) -> float:
        """Return when a running job has, or had, done so much of its work, if load and speed stay; inf: not so."""
        done_v = job.start_v + work_s
        if self._plain:
            return done_v
        left = done_v - self._v
        return self._t_s + left * self._pace[self.running] if left > 0 else self._t_s

    def work_done(self, job: Job, now_s: float) -> float:
        """Return how much of a running job's work is done, in seconds at load 1."""
        return min(job.work_s, self._virtual(now_s) - job.start_v)

    def tokens_done(self, job: Job, now_s: float) -> int:
        """Return how many tokens a job has brought out; none while it is queued."""
        return job.tokens_done(self.work_done(job, now_s)) if job.state is RUNNING else 0

    def __repr__(self) -> str:
        return f"<PoolServer {self.running} of {self.slots} running, {self.waiting} waiting, next {self.next_s:.6g}>"

    def _advance_plain(self, now_s: float, moved: list[Job]) -> None:
        """Do what `advance` does where nothing is ever re-timed: the hot path of a model."""
        due, queue, left = self._due, self._queue, self._left
        running, slots, fifo = self.running, self.slots, self._fifo
        finished = 0
        next_s = inf
        while due:
            at_s, _, job = due[0]
            if job.state is not RUNNING:
                heappop(due)
                self._dead_due -= 1
                continue
            if at_s > now_s:
                next_s = at_s
                break
            finished += 1
            job.state = FINISHED
            job.end_s = at_s
            if left and job in left:
                self._count_orphan(job, at_s)
            moved.append(job)
            while queue and running <= slots:
                queued = queue.popleft() if fifo else queue.pop()
                if queued.state is QUEUED:
                    self.waiting -= 1
                    queued.state = RUNNING
                    queued.start_s = queued.start_v = at_s
                    queued.first_token_s = at_s + queued.prefill_s
                    self._turn = turn = self._turn + 1
                    heapreplace(due, (at_s + queued.work_s, turn, queued))
                    moved.append(queued)
                    break
            else:
                heappop(due)
                running -= 1
        self.running = running
        self.finished += finished
        self.next_s = next_s

    def _start(self, job: Job, now_s: float) -> None:
        """Give a job a slot; the virtual clock must stand at now."""
        self.running = running = self.running + 1
        job.state = RUNNING
        job.start_s = now_s
        job.start_v = v = self._v
        if self._plain:
            job.first_token_s = now_s + job.prefill_s
        else:
            job.first_token_s = self._first_token_s(job, now_s, running)
        self._turn = turn = self._turn + 1
        heappush(self._due, (v + job.work_s, turn, job))

    def _first_token_s(self, job: Job, now_s: float, running: int) -> float:
        if running >= len(self._pace):
            self._tabulate(running)
        if self._speed:
            return now_s + job.prefill_s * self._pace[running]
        self._stalled[job] = job.prefill_s * self._loads[running]
        return inf

    def _fill(self, now_s: float, moved: list[Job]) -> None:
        """Start from the queue while slots are free."""
        queue = self._queue
        while queue and self.running < self.slots:
            job = queue.popleft() if self._fifo else queue.pop()
            if job.state is QUEUED:
                self.waiting -= 1
                self._start(job, now_s)
                moved.append(job)

    def _finish(self, job: Job, at_s: float) -> None:
        self.finished += 1
        job.state = FINISHED
        job.end_s = at_s
        job.first_token_s = min(job.first_token_s, at_s)
        if self._left and job in self._left:
            self._count_orphan(job, at_s)

    def _count_orphan(self, job: Job, at_s: float) -> None:
        left_s, tokens = self._left.pop(job)
        self.orphaned_s += at_s - max(left_s, job.start_s)
        self.orphaned_tokens += job.tokens - tokens

    def _drop(self, job: Job, now_s: float) -> None:
        self.cancelled += 1
        job.state = CANCELLED
        job.end_s = now_s

    def _virtual(self, now_s: float) -> float:
        if self._plain:
            return now_s
        pace = self._pace[self.running]
        return self._v + (now_s - self._t_s) / pace if now_s > self._t_s else self._v

    def _go_to(self, now_s: float) -> None:
        """Let the virtual clock stand at now, before its pace changes."""
        self._v, self._t_s = self._virtual(now_s), now_s

    def _aim(self, now_s: float) -> None:
        """Find out when the next job ends; the virtual clock stands at now, or needs not to."""
        due = self._due
        while due and due[0][2].state is not RUNNING:
            heappop(due)
            self._dead_due -= 1
        if not due:
            self.next_s = inf
        elif self._plain:
            self.next_s = due[0][0]
        else:
            left = due[0][0] - self._v
            self.next_s = now_s + left * self._pace[self.running] if left > 0.0 else now_s

    def _sweep(self) -> None:
        if self._dead_due > self.running + _DEAD_MIN:
            self._due = [entry for entry in self._due if entry[2].state is RUNNING]
            heapify(self._due)
            self._dead_due = 0

    def _retime(self) -> None:
        """Take up another number of slots or another speed; the virtual clock stands at now."""
        plain = self._load_factor == 1.0 and self._speed == 1.0
        if plain and not self._plain:
            shift_s = self._t_s - self._v  # from now on the virtual clock is the driver's own again
            self._due = [(due + shift_s, turn, job) for due, turn, job in self._due]
            for _, _, job in self._due:
                job.start_v += shift_s
        self._plain = plain
        if not plain:
            self._set_pace()

    def _set_pace(self) -> None:
        """Begin anew the tables of load, and of seconds that a second of work takes, by the number of running jobs."""
        self._loads, self._pace = [], []
        self._tabulate(self.running)

    def _tabulate(self, running: int) -> None:
        """Let the tables reach so many running jobs: a server may have far more slots than it ever uses."""
        rise = (self._load_factor - 1.0) / max(1, self.slots - 1)
        for count in range(len(self._loads), running + 1):
            # Jobs beyond the number of slots, which run on where slots were lost, add nothing.
            load = 1.0 + rise * max(0, min(count, self.slots) - 1)
            self._loads.append(load)
            self._pace.append(load / self._speed if self._speed else inf)

    def _move_first_tokens(self, speed: float, now_s: float) -> None:
        """Stretch or hold what is left of each prefill when the speed changes."""
        if self._speed:
            running = (job for _, _, job in self._due if job.state is RUNNING and job.first_token_s > now_s)
            self._stalled = {job: (job.first_token_s - now_s) * self._speed for job in running}
        for job, left_s in self._stalled.items():
            job.first_token_s = now_s + left_s / speed if speed else inf
        if speed:
            self._stalled = {}
