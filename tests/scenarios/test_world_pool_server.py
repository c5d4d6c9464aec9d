"""The pool server: its laws on random schedules, and moments that are known in closed form."""

from collections.abc import Sequence
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.world.job import CANCELLED, FINISHED, NEW, QUEUED, REJECTED, RUNNING, Job
from scenarios.world.pool_server import Cancel, Order, PoolServer

ORDERS: tuple[Order, ...] = ("fifo", "lifo")
CANCELS: tuple[Cancel, ...] = ("never", "queue", "service")

servers = st.builds(
    PoolServer,
    slots=st.integers(1, 4),
    queue_max=st.none() | st.integers(0, 5),
    order=st.sampled_from(ORDERS),
    cancel=st.sampled_from(CANCELS),
    load_factor=st.sampled_from([1.0, 1.5, 3.0]),
)


class World:
    """A server under a driver that fires its timer on time, and notes what every call reports."""

    def __init__(self, server: PoolServer) -> None:
        self.server = server
        self.now_s = 0.0
        self.jobs: list[Job] = []
        self.told: dict[Job, list[object]] = {}
        self.starts: list[Job] = []

    def until(self, at_s: float) -> None:
        while self.server.next_s <= at_s:
            self.now_s = max(self.now_s, self.server.next_s)
            self.take(self.server.advance(self.now_s))
            self.check()
        self.now_s = at_s

    def offer(self, job: Job) -> None:
        self.jobs.append(job)
        moved = self.server.offer(job, self.now_s)
        self.told[job] = [job.state]
        self.take(moved)

    def take(self, moved: Sequence[Job]) -> None:
        for job in moved:
            assert job.state in (RUNNING, FINISHED)
            assert job.state is not self.told[job][-1], "reported twice"
            self.told[job].append(job.state)
            if job.state is RUNNING:
                self.starts.append(job)

    def check(self) -> None:
        """Compare the server's books with its jobs, and its laws with both."""
        server = self.server
        states = [job.state for job in self.jobs]
        counted = {
            RUNNING: server.running,
            QUEUED: server.waiting,
            FINISHED: server.finished,
            CANCELLED: server.cancelled,
            REJECTED: server.rejected,
            NEW: 0,
        }
        assert {state: states.count(state) for state in counted} == counted
        assert server.offered == len(self.jobs)
        assert server.waiting == 0 or server.running >= server.slots, "somebody waits while a slot is free"
        assert (server.next_s == inf) == (server.running == 0)
        for job in self.jobs:  # nobody moved without being told
            last = self.told[job][-1]
            assert job.state is last or (job.state is CANCELLED and last in (QUEUED, RUNNING))

    def drain(self) -> None:
        self.until(1e9)
        self.check()


acts = st.lists(
    st.tuples(
        st.sampled_from(["offer", "offer", "offer", "leave", "wait"]),
        st.floats(0.0, 3.0),
        st.floats(0.01, 4.0),
        st.integers(0, 30),
    ),
    max_size=60,
)


@given(servers, acts)
def test_every_job_is_accounted_for_and_nobody_waits_beside_a_free_slot(
    server: PoolServer, acts: list[tuple[str, float, float, int]]
) -> None:
    world = World(server)
    for what, gap_s, work_s, pick in acts:
        world.until(world.now_s + gap_s)
        if what == "offer":
            world.offer(Job(work_s, prefill_s=work_s / 2, tokens=pick))
        elif what == "leave" and world.jobs:
            world.take(server.leave(world.jobs[pick % len(world.jobs)], world.now_s))
        world.check()
    world.drain()
    assert server.in_flight == 0
    for job in world.jobs:
        if job.state is FINISHED:
            assert job.start_s + job.work_s <= job.end_s + 1e-9
            assert job.start_s < job.first_token_s <= job.end_s


@given(
    servers,
    st.lists(st.tuples(st.sampled_from(["offer", "offer", "slots", "speed"]), st.floats(0, 2), st.floats(0.01, 3))),
)
def test_slots_and_speed_change_under_running_jobs(server: PoolServer, acts: list[tuple[str, float, float]]) -> None:
    world = World(server)
    slots = server.slots
    for what, gap_s, value in acts:
        world.until(world.now_s + gap_s)
        if what == "offer":
            world.offer(Job(value, prefill_s=value / 2))
        elif what == "slots":
            world.take(server.set_slots(int(value), world.now_s))
        else:
            world.take(server.set_speed(0.0 if value < 1 else value / 2, world.now_s))
        assert server.offered == len(world.jobs)
        assert server.waiting == 0 or server.running >= server.slots
    world.take(server.set_slots(slots, world.now_s))
    world.take(server.set_speed(1.0, world.now_s))
    world.drain()
    assert server.in_flight == 0
    for job in world.jobs:
        if job.state is FINISHED:
            assert job.start_s <= job.first_token_s <= job.end_s + 1e-9


@given(st.sampled_from(ORDERS), st.lists(st.floats(0.1, 2.0), min_size=3, max_size=20), st.data())
def test_the_queue_is_served_in_its_order(order: Order, works: list[float], data: st.DataObject) -> None:
    """One slot: each start takes the oldest, or the youngest, of those that wait and have not left."""
    world = World(PoolServer(slots=1, order=order, cancel="queue"))
    waiting: list[Job] = []
    seen = 0

    def served() -> None:
        nonlocal seen
        for started in world.starts[seen:]:
            assert started is waiting.pop(0 if order == "fifo" else -1)
        seen = len(world.starts)

    for work_s in works:
        world.until(world.now_s + data.draw(st.floats(0.0, 1.0)))
        served()
        job = Job(work_s)
        world.offer(job)
        served()
        if job.state is QUEUED:
            waiting.append(job)
        if data.draw(st.booleans()) and waiting:
            world.server.leave(waiting.pop(data.draw(st.integers(0, len(waiting) - 1))), world.now_s)
    world.drain()
    served()
    assert waiting == []


def test_a_late_timer_changes_no_time() -> None:
    """What happened in the meantime is told at its own time, started and finished at once if need be."""
    server = PoolServer(slots=1)
    jobs = [Job(1.0), Job(0.5), Job(2.0)]
    for job in jobs:
        server.offer(job, 0.0)
    assert server.advance(1.6) == [jobs[0], jobs[1], jobs[1], jobs[2]]
    assert [(job.start_s, job.state) for job in jobs] == [(0.0, FINISHED), (1.0, FINISHED), (1.5, RUNNING)]
    assert [job.end_s for job in jobs[:2]] == [1.0, 1.5]
    assert server.next_s == 3.5


def test_an_offer_and_a_departure_report_who_started_too() -> None:
    server = PoolServer(slots=1)
    first, second, third, fourth = (Job(1.0) for _ in range(4))
    assert server.offer(first, 0.0) == ()
    assert server.offer(second, 0.0) == ()
    assert server.offer(third, 1.0) == [first, second]  # no timer fired before
    assert server.offer(fourth, 1.0) == ()
    assert server.leave(second, 1.5) == [third]
    assert server.leave(third, 2.5) == [third, fourth]  # it had just finished
    assert (third.state, third.end_s, fourth.start_s) == (FINISHED, 2.5, 2.5)


def test_who_ends_now_makes_room_for_who_comes_now() -> None:
    server = PoolServer(slots=1, queue_max=0)
    first, second = Job(1.0), Job(1.0)
    server.offer(first, 0.0)
    server.offer(second, 1.0)
    assert (first.state, second.state) == (FINISHED, RUNNING)


def test_a_burst_re_times_what_runs() -> None:
    """One job alone, then 7 more beside it, factor 3 at 8 slots: worked out by hand.

    The first has done .1 of its work at .1 and goes on at a third: ends at 2.8. Then the others, .9 of the way, run at
    1 + 2 * 6/7 = 2.714: .1 of work is left, .2714 s.
    """
    server = PoolServer(slots=8, load_factor=3.0)
    jobs = [Job(1.0, prefill_s=0.3) for _ in range(8)]
    server.offer(jobs[0], 0.0)
    for job in jobs[1:]:
        server.offer(job, 0.1)
    while server.running:
        server.advance(server.next_s)
    assert [job.end_s for job in jobs] == pytest.approx([2.8] + [2.8 + 0.1 * (1 + 2 * 6 / 7)] * 7)
    # First tokens are fixed at the start, each by the load that it then met: 1, 1 + 2/7, 1 + 4/7, ...
    assert [job.first_token_s for job in jobs] == pytest.approx(
        [0.3] + [0.1 + 0.3 * (1 + 2 * turn / 7) for turn in range(1, 8)]
    )


def test_a_first_token_is_no_later_than_the_last() -> None:
    """The load falls right after the start, so that the work ends before the time that was foretold."""
    server = PoolServer(slots=2, load_factor=4.0)
    first, second = Job(1.0), Job(1.0, prefill_s=1.0)
    server.offer(first, 0.0)
    server.offer(second, 0.9)
    assert second.first_token_s == pytest.approx(0.9 + 4.0)
    while server.running:
        server.advance(server.next_s)
    assert second.first_token_s == second.end_s == pytest.approx(0.9 + 0.4 + 0.9)


@pytest.mark.parametrize(
    ("cancel", "orphaned_s", "tokens", "ends"),
    [
        ("never", 1.4 + 2.0, 7 + 10, [2.0, 4.0]),
        ("queue", 1.4, 7, [2.0, 0.5]),
        ("service", 0.0, 0, [0.6, 0.5]),
    ],
)
def test_orphaned_work(cancel: Cancel, orphaned_s: float, tokens: int, ends: list[float]) -> None:
    """One slot, two jobs of 2 s and 10 tokens: the client of the second leaves at .5, that of the first at .6.

    At .6 the first has brought out 1 + int(.4 / 1.8 * 9) = 3 tokens.
    """
    server = PoolServer(slots=1, cancel=cancel)
    running = Job(2.0, prefill_s=0.2, tokens=10)
    waiting = Job(2.0, prefill_s=0.2, tokens=10)
    server.offer(running, 0.0)
    server.offer(waiting, 0.0)
    server.leave(waiting, 0.5)
    server.leave(running, 0.6)
    server.leave(running, 0.7)  # nobody leaves twice
    while server.running:
        server.advance(server.next_s)
    assert [running.end_s, waiting.end_s] == pytest.approx(ends)
    assert server.orphaned_s == pytest.approx(orphaned_s)
    assert server.orphaned_tokens == tokens


@given(servers, acts)
def test_orphaned_seconds_are_what_ran_after_a_departure(
    server: PoolServer, acts: list[tuple[str, float, float, int]]
) -> None:
    world = World(server)
    left_s: dict[Job, float] = {}
    for what, gap_s, work_s, pick in acts:
        world.until(world.now_s + gap_s)
        if what == "offer":
            world.offer(Job(work_s, tokens=1))
        elif what == "leave" and world.jobs:
            job = world.jobs[pick % len(world.jobs)]
            world.take(server.leave(job, world.now_s))
            if job.state in (QUEUED, RUNNING):
                left_s.setdefault(job, world.now_s)
    world.drain()
    expected_s = sum(job.end_s - max(job.start_s, at_s) for job, at_s in left_s.items())
    assert server.orphaned_s == pytest.approx(expected_s)
    assert server.orphaned_tokens == len(left_s)


def test_departures_leave_nothing_behind() -> None:
    """Cancelled entries are swept out before they outnumber the living by far, in the queue and among the running."""
    for order in ORDERS:
        server = PoolServer(slots=2, order=order)
        draws = Random(5)
        held: list[Job] = []
        for turn in range(20_000):
            job = Job(1e6)
            server.offer(job, float(turn))
            held.append(job)
            if len(held) > 10:
                server.leave(held.pop(draws.randrange(len(held))), float(turn))
            assert len(server._queue) <= 2 * server.waiting + 80
            assert len(server._due) <= 2 * server.running + 80
        assert server.in_flight == 10


def test_lost_slots_drain_and_returned_ones_fill() -> None:
    server = PoolServer(slots=3)
    jobs = [Job(1.0) for _ in range(6)]
    for job in jobs:
        server.offer(job, 0.0)
    assert server.set_slots(1, 0.5) == []
    assert server.running == 3  # they go on to their end
    assert server.advance(1.0) == [jobs[0], jobs[1], jobs[2], jobs[3]]
    assert (server.running, server.waiting) == (1, 2)
    assert server.set_slots(3, 1.5) == [jobs[4], jobs[5]]
    assert server.set_slots(0, 1.6) == []
    late = Job(1.0)
    server.offer(late, 1.7)
    server.advance(10.0)
    assert (late.state, server.running, server.next_s) == (QUEUED, 0, inf)


def test_slow_fast_and_stopped() -> None:
    """2 s of work: half of it at full speed, then a second at half speed, then a stop of 5 s, then the rest at full."""
    server = PoolServer(slots=1)
    job = Job(2.0, prefill_s=1.8, tokens=2)
    server.offer(job, 0.0)
    server.set_speed(0.5, 1.0)
    assert (server.next_s, job.first_token_s) == pytest.approx((3.0, 2.6))
    server.set_speed(0.0, 2.0)
    assert (server.next_s, job.first_token_s) == (inf, inf)
    waiting = Job(1.0, prefill_s=0.25)
    server.offer(waiting, 3.0)
    server.set_speed(1.0, 7.0)
    assert (server.next_s, job.first_token_s) == pytest.approx((7.5, 7.3))
    assert server.reached_s(job, 1.9) == pytest.approx(7.4)
    assert server.work_done(job, 7.1) == pytest.approx(1.6)
    server.advance(7.5)
    assert (job.end_s, waiting.start_s, waiting.first_token_s) == pytest.approx((7.5, 7.5, 7.75))


def test_a_job_that_starts_while_all_stands_still_gets_its_first_token_later() -> None:
    server = PoolServer(slots=2)
    server.set_speed(0.0, 1.0)
    job = Job(1.0, prefill_s=0.25)
    server.offer(job, 2.0)
    assert (job.state, job.first_token_s, server.next_s) == (RUNNING, inf, inf)
    server.set_speed(2.0, 5.0)
    assert (job.first_token_s, server.next_s) == pytest.approx((5.125, 5.5))


def test_tokens_come_one_after_the_other() -> None:
    server = PoolServer(slots=1)
    job = Job(1.0, prefill_s=0.4, tokens=4)
    assert server.tokens_done(job, 0.0) == 0
    server.offer(job, 0.0)
    seen = [server.tokens_done(job, at_s) for at_s in (0.0, 0.39, 0.41, 0.61, 0.81, 0.99, 1.0)]
    assert seen == [0, 0, 1, 2, 3, 3, 4]
    assert [server.reached_s(job, 0.4 + turn * 0.2) for turn in range(4)] == pytest.approx([0.4, 0.6, 0.8, 1.0])


@pytest.mark.parametrize("wrong", [{"slots": -1}, {"slots": 1, "queue_max": -1}, {"slots": 1, "load_factor": 0.5}])
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="none may be less"):
        PoolServer(**wrong)  # type: ignore[arg-type] # that is the test


def test_impossible_changes_are_refused() -> None:
    server = PoolServer(slots=1)
    with pytest.raises(ValueError, match="-1 slots"):
        server.set_slots(-1, 0.0)
    with pytest.raises(ValueError, match="a speed of -1"):
        server.set_speed(-1.0, 0.0)
    assert repr(server) == "<PoolServer 0 of 1 running, 0 waiting, next inf>"


def test_a_server_of_any_number_of_slots_can_slow_down() -> None:
    server = PoolServer(slots=10**12)
    jobs = [Job(1.0, prefill_s=0.5) for _ in range(3)]
    server.offer(jobs[0], 0.0)
    server.set_speed(0.5, 0.0)
    for job in jobs[1:]:
        server.offer(job, 1.0)
    while server.running:
        server.advance(server.next_s)
    assert [job.end_s for job in jobs] == pytest.approx([2.0, 3.0, 3.0])
    assert [job.first_token_s for job in jobs] == pytest.approx([1.0, 2.0, 2.0])
