"""A frontend of a pool in the model: the shared pool server, one wake-up, and what stands in its door.

A send that meets no fault costs one call of `offer`; everything that is unusual goes through `_met_trouble`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf, isnan, nan
from typing import Final

from router.core.health import ProbeAnswer, ProbeOutcome
from scenarios.spec import Pool
from scenarios.world.condition import Condition, healthy, slots_of
from scenarios.world.job import CANCELLED, FINISHED, QUEUED, REJECTED, RUNNING, Job, JobState
from scenarios.world.prefix_cache import PrefixCache
from scenarios.world.station import server_of
from simulator.chain.calls import CLOSED, INSIDE, OUTSIDE, TELLING, Attempt
from simulator.chain.clockwork import Clockwork, Timers, Wake
from simulator.chain.columns import (
    JOB_CANCELLED,
    JOB_FINISHED,
    JOB_LOST,
    JOB_QUEUED,
    JOB_REJECTED,
    JOB_RUNNING,
    NO_JOB,
    Sends,
)
from simulator.chain.results import BROKEN, CONNECT, LOST, OK, OK_END, OPEN_END, STATUS_END, Result
from simulator.network import SYN_RESENDS_S

_NOT_READY: Final = 503
"""What requests are told that a pool without its models cannot do."""

Told = Callable[[Attempt, Result], None]


class ProbeJob(Job):
    """A health probe that waits for a slot like a request; the answer itself takes no time.

    `done` is None once nobody waits for it, `closed` once its end is counted.
    """

    __slots__ = ("closed", "done")

    def __init__(self, done: Callable[[ProbeOutcome], object]) -> None:
        super().__init__(0.0)
        self.done: Callable[[ProbeOutcome], object] | None = done
        self.closed = False


class Frontend:
    """One frontend. `told` hears how an attempt ended that is still waited for; `late` of one that is not."""

    # CPython 3.11 finds up to 30 attributes fast without; here are more.
    __slots__ = (
        "_add_row", "_armed_s", "_clockwork", "_condition", "_failed", "_fails", "_hanging", "_pack_row",
        "_pool", "_rejected", "_sends", "_tick_", "_timers", "_wake", "begun", "cache", "clock_offset_s", "cut_after",
        "drops", "entered", "fail_share", "hangs", "index", "late", "misled", "name", "not_ready", "pool", "probed",
        "probes", "probes_queue", "refuses", "reject_status", "server", "told", "trouble",
    )  # fmt: skip

    def __init__(
        self,
        clockwork: Clockwork,
        timers: Timers,
        sends: Sends,
        pool: Pool,
        *,
        index: int,
        name: str,
        fails: Iterator[float],
    ) -> None:
        self.index = index
        self.name = name
        self.pool = pool.id
        self.server = server_of(pool)
        self.cache = PrefixCache(pool.cache_sessions)
        self.told: Told = _nobody_told
        self.late: Callable[[Attempt], None] | None = None
        self.begun: Callable[[Attempt], None] | None = None
        self.entered: Callable[[Attempt], None] | None = None
        self.refuses = False
        self.hangs = False
        self.drops = False
        self.cut_after: int | None = None
        self.probes_queue = pool.probes_queue
        self.probed = False
        """Whether a probe ever had a place among the jobs; probes have no rows."""
        self.not_ready: ProbeAnswer | None = None
        """What its list of models tells in place of the truth."""
        self.clock_offset_s = 0.0
        self.misled = 0
        """Times a router's loop was told what is not so: no models where there are some, a wrong time."""
        self.reject_status = pool.reject_status
        self.probes = Counter[JobState]()
        """Probes that had a place among the jobs, by what became of them."""
        self.fail_share = pool.fail_share
        self.trouble = pool.fail_share > 0
        self._pool = pool
        self._condition = healthy(pool)
        self._clockwork = clockwork
        self._timers = timers
        self._sends = sends
        self._pack_row, self._add_row = sends.pack_row, sends.add_row
        self._fails = fails
        self._hanging: dict[Attempt, None] = {}  # a set that keeps its order
        self._rejected = Result(
            STATUS_END, status=pool.reject_status, retry_after_s=pool.reject_retry_after_s, cheap=True
        )
        self._failed = Result(STATUS_END, status=pool.fail_status)
        self._armed_s = inf
        self._wake: Wake | None = None
        self._tick_ = self._tick

    # ---- what comes

    def take(self, attempt: Attempt, now_s: float) -> Result | None:
        """Take an attempt in; a Result if it has come to nothing at once.

        `entered` is told only where there is trouble: else whoever asks knows that the connection stands.
        """
        if self.trouble:
            met = self._met_trouble(attempt, now_s)
            if met is not _CLEAR:
                return met
            self._enter(attempt)
        attempt.where = INSIDE
        attempt.t_in_s = now_s
        server = self.server
        moved = server.offer(attempt, now_s)
        if moved:
            self._moved(moved)
        state = attempt.state
        if state is REJECTED:
            self._close(attempt, self._rejected, JOB_REJECTED)
            return self._rejected
        if state is RUNNING and self.begun is not None:
            self.begun(attempt)
        if server.next_s < self._armed_s:
            self._arm()
        return None

    def leave(self, attempt: Attempt, now_s: float) -> None:
        """Hear that nobody waits for an attempt any more; its `end` and `t_end_s` are set."""
        if attempt.where == OUTSIDE:
            self._hanging.pop(attempt, None)
            self._write(attempt, NO_JOB)
            return
        if attempt.where == CLOSED:
            return
        moved = self.server.leave(attempt, now_s)
        if attempt.state is CANCELLED:
            self._write(attempt, JOB_CANCELLED)
        if moved:
            self._moved(moved)
        if self.server.next_s < self._armed_s:
            self._arm()

    # ---- faults

    def put(self, *, hangs: bool) -> None:
        """Let connects hang, or be refused, and cut what is in flight."""
        self.hangs, self.refuses = hangs, not hangs
        self._look()
        self.cut_all()

    def open_door(self) -> None:
        """Let connects in again; those that hang are made again by the kernel on its own schedule."""
        self.hangs = self.refuses = False
        self._look()
        for attempt in self._hanging:
            at_s = self._next_syn_s(attempt)
            if at_s < inf:  # else the kernel has given up, and the connect hangs to its bound
                self._timers.add(at_s, attempt, self._try_again)

    def _next_syn_s(self, attempt: Attempt) -> float:
        now_s = self._clockwork.now
        return next((at_s for after_s in SYN_RESENDS_S if (at_s := attempt.t_start_s + after_s) >= now_s), inf)

    def _try_again(self, attempt: Attempt) -> None:
        if attempt not in self._hanging or self.hangs or self.refuses:
            return
        del self._hanging[attempt]
        if not self.trouble:
            self._enter(attempt)
        result = self.take(attempt, self._clockwork.now)
        if result is not None:
            self.told(attempt, result)

    def cut_all(self) -> None:
        """Cut the connections of all that is in flight."""
        now_s = self._clockwork.now
        jobs = list(self.server.jobs())
        for attempt in [job for job in jobs if isinstance(job, Attempt) and job.live]:
            self._cut(attempt, now_s)
        for probe in [job for job in jobs if isinstance(job, ProbeJob)]:
            if (done := probe.done) is not None:
                self.leave_probe(probe)
                done(ProbeOutcome.RESET)

    def _cut(self, attempt: Attempt, now_s: float) -> None:
        if not attempt.live or attempt.state is FINISHED:
            return
        result = BROKEN if attempt.phase(now_s) == TELLING else LOST
        attempt.live, attempt.end, attempt.t_end_s = False, result.end, now_s
        self.leave(attempt, now_s)
        self.told(attempt, result)

    def set_condition(self, condition: Condition) -> None:
        """Let a fault of the pool itself come or go. What stays is not set anew: a re-timing may cost a last digit."""
        now_s, before = self._clockwork.now, self._condition
        self._condition = condition
        if condition.slots_lost != before.slots_lost:
            self._moved(self.server.set_slots(slots_of(self._pool) - condition.slots_lost, now_s))
        if condition.speed != before.speed:
            self._moved(self.server.set_speed(condition.speed, now_s))
        self._arm()
        self.fail(condition.fail_share, condition.fail_status)

    def drop_bodies(self, *, on: bool) -> None:
        """Read bodies and close, or no longer."""
        self.drops = on
        self._look()

    def cut_streams(self, after_events: int | None) -> None:
        """End connections that are made from now on after so many events; None: no longer."""
        self.cut_after = after_events
        self._look()

    def fail(self, share: float, status: int) -> None:
        """Answer a share of the requests with a status."""
        self.fail_share = share
        self._failed = Result(STATUS_END, status=status)
        self._look()

    def unready(self, answer: ProbeAnswer | None, *, share: float = 0.0) -> None:
        """Tell no models, and answer a share of the requests likewise; None: as the pool does without a fault."""
        self.not_ready = answer
        if answer is None:
            self.fail(self._pool.fail_share, self._pool.fail_status)
        elif share:
            self.fail(share, answer if isinstance(answer, int) else _NOT_READY)

    def open_probes(self) -> Counter[JobState]:
        """Return the probes that are still among the jobs."""
        return Counter(job.state for job in self.server.jobs() if isinstance(job, ProbeJob))

    def _look(self) -> None:
        self.trouble = self.refuses or self.hangs or self.drops or self.cut_after is not None or self.fail_share > 0

    def _met_trouble(self, attempt: Attempt, now_s: float) -> Result | None:
        """Meet what stands in the door: a Result, None if it hangs there, _CLEAR if it lets the attempt in."""
        if self.refuses:
            return self._close(attempt, CONNECT, NO_JOB)
        if self.hangs:
            self._hanging[attempt] = None
            return None
        if self.drops:
            self._enter(attempt)
            return self._close(attempt, LOST, JOB_LOST)
        # The draw is made whatever the share, so that a change of it shifts nothing.
        if next(self._fails) < self.fail_share:
            self._enter(attempt)
            return self._close(attempt, self._failed, JOB_LOST)
        if self.cut_after is not None:
            attempt.cut_after = self.cut_after
            self._timers.add(now_s + _work_until(attempt, self.cut_after), attempt, self._cut_on_time)
        return _CLEAR

    def _cut_on_time(self, attempt: Attempt) -> None:
        """Cut a stream at its event; one that has waited, or was slowed down, is looked at again."""
        due_s = self._cut_s(attempt)
        now_s = self._clockwork.now
        if due_s > now_s:
            self._timers.add(due_s, attempt, self._cut_on_time)
        else:
            self._cut(attempt, now_s)

    def _cut_s(self, attempt: Attempt) -> float:
        """Return when the last event that passes is there, or a time before it while the work has not begun."""
        done = _work_until(attempt, attempt.cut_after)
        if attempt.state is RUNNING:
            return self.server.reached_s(attempt, done)
        return self._clockwork.now + done

    def _enter(self, attempt: Attempt) -> None:
        attempt.where = INSIDE
        attempt.t_in_s = self._clockwork.now
        if self.entered is not None:
            self.entered(attempt)

    # ---- what happens

    def _moved(self, moved: Sequence[Job]) -> None:
        """Look at what has started or finished; one that did both is named twice."""
        for job in moved:
            if job.__class__ is not Attempt:
                assert isinstance(job, ProbeJob)
                self._probed(job)
            elif job.state is FINISHED:
                if job.where != CLOSED:
                    self._finished(job)
            elif self.begun is not None:
                self.begun(job)

    def _finished(self, attempt: Attempt) -> None:
        attempt.where = CLOSED
        t_s = attempt.end_s
        if attempt.live:
            attempt.live = False
            # What Sends.add does, written out: this is the hot path of the model.
            self._add_row(
                self._pack_row(
                    attempt.index,
                    attempt.parent.turn,
                    attempt.number,
                    self.index,
                    attempt.t_start_s,
                    t_s,
                    OK_END,
                    200,
                    attempt.t_in_s,
                    attempt.start_s,
                    attempt.first_token_s,
                    t_s,
                    JOB_FINISHED,
                    attempt.tokens,
                    attempt.work_s,
                )
            )
            self.told(attempt, OK)
            return
        self._sends.add(attempt, JOB_FINISHED, attempt.start_s, attempt.first_token_s, t_s)
        if self.late is not None:
            self.late(attempt)

    # ---- probes

    def probe(self, done: Callable[[ProbeOutcome], object]) -> ProbeJob | None:
        """Put a probe into the queue; `done` hears when a slot takes it, or it is cut. None: the queue is full."""
        job = ProbeJob(done)
        self.probed = True
        self._moved(self.server.offer(job, self._clockwork.now))
        if job.state is REJECTED:
            self.probes[REJECTED] += 1
            return None
        if self.server.next_s < self._armed_s:
            self._arm()
        return job

    def leave_probe(self, job: ProbeJob) -> None:
        """Give a probe up; what becomes of its place is the pool's rule."""
        job.done = None
        self._moved(self.server.leave(job, self._clockwork.now))
        self.probes[job.state] += job.state is CANCELLED
        if self.server.next_s < self._armed_s:
            self._arm()

    def _probed(self, job: ProbeJob) -> None:
        if job.state is FINISHED and not job.closed:
            job.closed = True
            self.probes[FINISHED] += 1
            if job.done is not None:
                job.done(ProbeOutcome.OK)

    def _close(self, attempt: Attempt, result: Result, job: int) -> Result:
        """End an attempt at once."""
        attempt.live = False
        attempt.end, attempt.status, attempt.t_end_s = result.end, result.status, self._clockwork.now
        self._write(attempt, job)
        return result

    def _write(self, attempt: Attempt, job: int) -> None:
        """Write down an attempt that no work was finished for."""
        t_work_s: float = getattr(attempt, "start_s", nan)  # the server writes it when the work begins
        told = not isnan(t_work_s) and attempt.first_token_s <= attempt.end_s
        t_first_s = attempt.first_token_s if told else nan
        t_done_s = attempt.end_s if job == JOB_CANCELLED else nan
        self._sends.add(attempt, job, t_work_s, t_first_s, t_done_s)
        if attempt.where == INSIDE:
            attempt.where = CLOSED

    def open_attempts(self) -> list[Attempt]:
        """Return what is waited for here."""
        here = [*self.server.jobs(), *self._hanging]
        return [job for job in here if isinstance(job, Attempt) and job.live]

    def write_open(self) -> None:
        """Write down, when the model has stopped, what is still here."""
        for job in [*self.server.jobs(), *self._hanging]:
            if not isinstance(job, Attempt):
                continue
            if job.live:
                job.end, job.t_end_s = OPEN_END, nan
            state = {QUEUED: JOB_QUEUED, RUNNING: JOB_RUNNING}.get(job.state, NO_JOB)
            started = job.state is RUNNING
            first = started and job.first_token_s <= self._clockwork.now
            self._sends.add(job, state, job.start_s if started else nan, job.first_token_s if first else nan, nan)

    def _arm(self) -> None:
        self._armed_s = due_s = self.server.next_s
        # A wake-up that is under way for a later time finds that another has taken its place.
        self._wake = None if due_s == inf else self._clockwork.at(due_s, self._tick_)

    def _tick(self, wake: Wake) -> None:
        if wake is not self._wake:
            return
        server = self.server
        for job in server.advance(self._armed_s):
            if job.state is FINISHED and job.__class__ is Attempt:
                if job.where != CLOSED:
                    self._finished(job)
            elif job.__class__ is not Attempt or self.begun is not None:
                self._moved((job,))
        self._armed_s = due_s = server.next_s
        if due_s < inf:
            self._clockwork.again(due_s, wake)
        else:
            self._wake = None


_CLEAR: Final = Result(OPEN_END)


def _work_until(attempt: Attempt, token: int) -> float:
    """Return the work until a token is out, the first being 1."""
    return attempt.prefill_s + (attempt.work_s - attempt.prefill_s) * (token - 1) / max(1, attempt.tokens - 1)


def _nobody_told(_: Attempt, __: Result) -> None:
    raise AssertionError("a frontend is given its gateway before the run begins")
