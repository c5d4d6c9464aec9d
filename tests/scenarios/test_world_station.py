"""A station's notes: every request has a story that makes sense, whatever is done to it."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.spec import Pool, Service
from scenarios.world.arrivals import Ask
from scenarios.world.service import PROFILES
from scenarios.world.station import Entry, Note, Station, profile_of, work_of

SERVICE = Service(first_token_s=0.5, token_gap_s=0.25, tokens=5)
STORIES = {
    ("rejected",),
    ("started", "finished"),
    ("started", "cancelled"),
    ("started", "orphaned", "finished"),
    ("queued", "started", "finished"),
    ("queued", "cancelled"),
    ("queued", "started", "cancelled"),
    ("queued", "started", "orphaned", "finished"),
    ("queued", "orphaned", "started", "finished"),
}
"""All that can be noted of one request."""


def station(**knobs: Any) -> Station:
    return Station(Pool(id="a", **{"service": SERVICE, **knobs}), seed=3)


def entry(of: Station, turn: int, ask: Ask | None = None) -> Entry:
    return of.entry(f"op-0-{turn}-r0", f"op-0-{turn}", ask or Ask())


@given(
    st.integers(1, 3),
    st.none() | st.integers(0, 3),
    st.sampled_from(["fifo", "lifo"]),
    st.sampled_from(["never", "queue", "service"]),
    st.sampled_from([1.0, 2.0]),
    st.lists(st.tuples(st.booleans(), st.floats(0.0, 1.0), st.integers(0, 20)), max_size=40),
)
def test_every_request_has_one_story(
    slots: int, queue_max: int | None, order: str, cancel: str, load: float, acts: list[tuple[bool, float, int]]
) -> None:
    service = Service(kind="exponential", mean_s=1.0, tokens=4, load_factor=load)
    of = station(service=service, slots=slots, queue_max=queue_max, order=order, cancel=cancel)
    now_s, entries, notes = 0.0, list[Entry](), list[Note]()
    left_s: dict[Entry, float] = {}
    for offers, gap_s, pick in acts:
        now_s += gap_s
        if offers:
            entries.append(entry(of, len(entries)))
            notes += of.arrive(entries[-1], now_s)
        elif entries:
            leaver = entries[pick % len(entries)]
            if leaver not in left_s:
                notes += of.leave(leaver, now_s)
                left_s[leaver] = now_s
    while of.server.next_s < inf:
        notes += of.advance(of.server.next_s)
    assert [note.t_s for note in notes] == sorted(note.t_s for note in notes)
    for one in entries:
        mine = [note for note in notes if note.entry is one]
        assert tuple(note.kind for note in mine) in STORIES
        ended = mine[-1]
        if ended.kind == "finished":
            assert ended.tokens == 4
            assert ended.t_s == of.due_s(one, 3) == one.end_s
        if ended.kind == "cancelled":
            assert ended.t_s == left_s[one]


def test_tokens_are_due_one_after_the_other() -> None:
    of = station(slots=1)
    first, second = entry(of, 0), entry(of, 1)
    of.arrive(first, 1.0)
    of.arrive(second, 1.0)
    assert [of.due_s(first, index) for index in range(5)] == pytest.approx([1.5, 1.75, 2.0, 2.25, 2.5])
    assert of.due_s(second, 0) == inf
    assert [note.kind for note in of.advance(2.5)] == ["finished", "started"]
    assert of.due_s(second, 0) == pytest.approx(3.0)


def test_tokens_that_load_has_put_off_are_due_later() -> None:
    of = station(slots=2, service=Service(first_token_s=0.5, token_gap_s=0.25, tokens=5, load_factor=3.0))
    first = entry(of, 0)
    of.arrive(first, 0.0)
    of.arrive(entry(of, 1), 0.75)  # from now on everything takes three times as long
    assert [of.due_s(first, index) for index in range(2, 5)] == pytest.approx([1.5, 2.25, 3.0])


def test_draws_belong_to_the_request() -> None:
    """Neither the order of arrival nor the frontend that is met changes the work of a request."""
    service = Service(kind="lognormal", mean_s=1.0, cv2=2.0)
    one, other = station(service=service), station(service=service)
    works = [entry(one, turn).work_s for turn in range(20)]
    assert [entry(other, turn).work_s for turn in reversed(range(20))] == works[::-1]
    assert len(set(works)) == 20
    assert Station(one.pool, seed=4).entry("op-0-0-r0", None, Ask()).work_s != works[0]


def test_a_session_that_was_served_needs_no_second_prefill() -> None:
    service = Service(kind="by_tokens", overhead_s=0.1, prompt_token_s=0.001, token_gap_s=0.1)
    of = station(service=service, slots=1, cache_sessions=1)
    ask = Ask("s0-1", prompt_tokens=400, output_tokens=3)
    first = entry(of, 0, ask)
    assert (first.prefill_s, first.work_s) == pytest.approx((0.5, 0.7))
    of.arrive(first, 0.0)
    assert entry(of, 1, ask).prefill_s == pytest.approx(0.5)  # not yet finished
    of.advance(1.0)
    assert entry(of, 2, ask).prefill_s == pytest.approx(0.1)
    assert entry(of, 3, Ask("s0-1", 503, 3)).prefill_s == pytest.approx(0.1 + 100 * 0.001)
    assert entry(of, 4, Ask("s0-2", 400, 3)).prefill_s == pytest.approx(0.5)


def test_a_share_of_the_requests_is_failed_whatever_frontend_they_meet() -> None:
    one, other = (station(fail_share=0.3, fail_status=502) for _ in range(2))
    failed = [one.refusal(entry(one, turn)) for turn in range(500)]
    assert failed == [other.refusal(entry(other, turn)) for turn in range(500)]
    assert 0.24 < sum(refusal is not None for refusal in failed) / 500 < 0.36
    assert {refusal.status for refusal in failed if refusal is not None} == {502}
    assert station().refusal(entry(one, 0)) is None


def test_a_full_queue_says_what_the_pool_says() -> None:
    of = station(slots=1, queue_max=0, reject_status=429, reject_retry_after_s=2.0)
    of.arrive(entry(of, 0), 0.0)
    assert [note.kind for note in of.arrive(entry(of, 1), 0.0)] == ["rejected"]
    assert of.queue_full()[::3] == (429, 2.0)


def test_a_pool_without_slots_is_open_unless_its_work_outlives_its_clients() -> None:
    assert station().is_open
    assert not station(slots=1).is_open
    assert not station(cancel="never").is_open


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_stands_for_its_speeds(name: str) -> None:
    assert profile_of(Service(kind="by_tokens", profile=name)) == PROFILES[name]  # type: ignore[arg-type]
    own = Service(kind="by_tokens", overhead_s=1.0, prompt_token_s=2.0, token_gap_s=3.0)
    assert work_of(own, Ask(None, 2, 3), seed=1, request_id="x") == (5.0, 11.0)
