"""What one fake frontend does with its requests, without sockets and without a clock.

A station is a pool server together with what a scenario says of a pool: the work of a request, the cache of sessions,
what is refused at once. The real frontend and the modelled one drive the same object and write down the notes that it
returns, so they can differ only in when things reach them.

Laws
1. A request's draws depend on the seed and its id alone: not on its place in any order, nor on the frontend it meets.
2. Each request is noted as rejected; or queued if it had to wait, started, and finished or cancelled. One whose client
   has left is noted as orphaned where it goes on, and as finished all the same.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal, NamedTuple

from scenarios.spec import Pool, Service
from scenarios.world.arrivals import Ask
from scenarios.world.condition import Condition, healthy, slots_of
from scenarios.world.job import CANCELLED, FINISHED, QUEUED, REJECTED, RUNNING, Job
from scenarios.world.pool_server import PoolServer
from scenarios.world.prefix_cache import PrefixCache
from scenarios.world.service import PROFILES, Profile, Work, drawn_s
from scenarios.world.streams import stream

NoteKind = Literal["queued", "started", "finished", "cancelled", "rejected", "orphaned"]


class Entry(Job):
    """One request at a station; its tokens go over the wire evenly spread, one each `gap_s` at load 1."""

    __slots__ = ("ask", "gap_s", "noted_start", "operation_id", "request_id")

    def __init__(self, work: Work, service: Service, ask: Ask, *, request_id: str, operation_id: str | None) -> None:
        super().__init__(work.work_s, prefill_s=work.prefill_s, tokens=service.tokens)
        decode_s = work.work_s - work.prefill_s
        self.gap_s = service.token_gap_s if service.kind == "tokens" else decode_s / max(1, service.tokens - 1)
        self.ask = ask
        self.request_id = request_id
        self.operation_id = operation_id
        self.noted_start = False

    def until_token_s(self, index: int) -> float:
        """Return how much work is done when the token of this index, from 0, is out."""
        return self.work_s if index >= self.tokens - 1 else self.prefill_s + index * self.gap_s


class Note(NamedTuple):
    """One thing that happened; `tokens` are those brought out so far, where it is the end of something."""

    kind: NoteKind
    entry: Entry
    t_s: float
    tokens: int | None = None


class Refusal(NamedTuple):
    """What a request is told that the pool does not take."""

    status: int
    code: str
    message: str
    retry_after_s: float | None = None


class Station:
    """One frontend of a pool. `seed` is the run's."""

    def __init__(self, pool: Pool, *, seed: int) -> None:
        self.pool = pool
        self.server = server_of(pool)
        self.cache = PrefixCache(pool.cache_sessions)
        self.condition = healthy(pool)
        self._seed = seed

    @property
    def is_open(self) -> bool:
        """Whether all work begins at once and ends with its client, so that no server need be asked."""
        return self.pool.slots is None and self.pool.cancel == "service"

    def entry(self, request_id: str, operation_id: str | None, ask: Ask) -> Entry:
        """Return a request that has just come, with its work as the cache now makes it."""
        cached = self.cache.cached(ask.session, ask.prompt_tokens)
        work = work_of(self.pool.service, ask, seed=self._seed, request_id=request_id, cached_tokens=cached)
        return Entry(work, self.pool.service, ask, request_id=request_id, operation_id=operation_id)

    def refusal(self, entry: Entry) -> Refusal | None:
        """Return what a request is told that fails whatever the load; None: it does not."""
        share = self.condition.fail_share
        if share and stream(self._seed, f"fail/{entry.request_id}").random() < share:
            return Refusal(self.condition.fail_status, "pool_failed", "this pool fails a share of its requests")
        return None

    def arrive(self, entry: Entry, now_s: float) -> list[Note]:
        """Offer a request; where its state is REJECTED afterwards, `queue_full` is what it is told."""
        notes = self._moved(self.server.offer(entry, now_s))
        if entry.state is RUNNING:
            notes += self._started(entry)
        else:
            notes.append(Note("rejected" if entry.state is REJECTED else "queued", entry, now_s))
        return notes

    def queue_full(self) -> Refusal:
        """Return what a request is told that finds the queue full."""
        pool = self.pool
        return Refusal(pool.reject_status, "queue_full", "the queue is full", pool.reject_retry_after_s)

    def leave(self, entry: Entry, now_s: float) -> list[Note]:
        """Hear that a client has gone."""
        notes = self.advance(now_s)
        tokens = self.server.tokens_done(entry, now_s)
        moved = self.server.leave(entry, now_s)
        if entry.state is CANCELLED:
            notes.append(Note("cancelled", entry, now_s, tokens))
        elif entry.state in (QUEUED, RUNNING):
            notes.append(Note("orphaned", entry, now_s, tokens))
        return notes + self._moved(moved)

    def advance(self, now_s: float) -> list[Note]:
        """Let everything happen that is due until now."""
        return self._moved(self.server.advance(now_s))

    def set_condition(self, condition: Condition, now_s: float) -> list[Note]:
        """Let a fault of the pool come or go; in an open station only what it fails can change."""
        notes: list[Note] = []
        if not self.is_open:
            slots = max(0, slots_of(self.pool) - condition.slots_lost)
            notes += self._moved(self.server.set_slots(slots, now_s))
            notes += self._moved(self.server.set_speed(condition.speed, now_s))
        self.condition = condition
        return notes

    def due_s(self, entry: Entry, index: int) -> float:
        """Return when the token of this index is out, if load and speed stay; inf: nobody knows yet."""
        if entry.state is FINISHED:
            return entry.end_s
        if entry.state is not RUNNING:
            return inf
        if index == 0 and entry.tokens > 1:
            return entry.first_token_s
        return max(entry.first_token_s, self.server.reached_s(entry, entry.until_token_s(index)))

    def _moved(self, moved: Sequence[Job]) -> list[Note]:
        notes: list[Note] = []
        for job in moved:
            assert isinstance(job, Entry), "a station offers nothing else"
            if not job.noted_start:
                notes += self._started(job)
            elif job.state is FINISHED:
                self.cache.keep(job.ask.session, job.ask.prompt_tokens + job.ask.output_tokens)
                notes.append(Note("finished", job, job.end_s, job.tokens))
        return notes

    def _started(self, entry: Entry) -> Iterable[Note]:
        entry.noted_start = True
        return (Note("started", entry, entry.start_s),)


def server_of(pool: Pool) -> PoolServer:
    """Return the server that stands behind one frontend of a pool."""
    return PoolServer(
        slots=slots_of(pool),
        queue_max=pool.queue_max,
        order=pool.order,
        cancel=pool.cancel,
        load_factor=pool.service.load_factor,
    )


def work_of(service: Service, ask: Ask, *, seed: int, request_id: str, cached_tokens: int = 0) -> Work:
    """Return the work of one request as a scenario's service says."""
    if service.kind == "tokens":
        return Work(service.first_token_s, service.total_s)
    if service.kind == "by_tokens":
        return profile_of(service).work(ask.prompt_tokens, ask.output_tokens, cached_tokens)
    draws = stream(seed, f"service/{request_id}")
    work_s = drawn_s(service.kind, service.mean_s, cv2=service.cv2, draws=draws)
    return Work(work_s, work_s)


def profile_of(service: Service) -> Profile:
    """Return the speeds of a service by tokens: those of the profile that it names, or its own."""
    if service.profile:
        return PROFILES[service.profile]
    return Profile(
        overhead_s=service.overhead_s, prompt_token_s=service.prompt_token_s, token_gap_s=service.token_gap_s
    )
