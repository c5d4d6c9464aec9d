"""Who is benched, for what, and how it comes back."""

import pytest

from router.core.config import RouterConfig
from router.core.cooldown import Cooldown, Standing, Verdict, verdict_of
from router.core.delivery import BLAME, Blame, Cause
from router.core.effects import End
from router.core.policy import Policy
from router.core.topology import Catalog
from router.core.trials import NEVER
from tests.router.core.playbook import (
    ManualClock,
    after,
    answer_all,
    answered,
    asked,
    bench,
    connect,
    policy_of,
    pools,
    probe,
    relay,
    send,
    state_of,
    trials,
    unknown,
    unsent,
    wait,
)

KNOBS = RouterConfig(
    cooldown_failures=3,
    cooldown_ratio=0.5,
    cooldown_ratio_sends_min=10,
    cooldown_ratio_window_s=10.0,
    cooldown_s=5.0,
    cooldown_s_max=15.0,
    slow_start_s=10.0,
    failure_memory=2,
)
GOOD, BAD, HANGS, NEUTRAL = Verdict.GOOD, Verdict.BAD, Verdict.HANGS, Verdict.NEUTRAL


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def policy(clock: ManualClock) -> Policy:
    return policy_of("a", "b", clock=clock, config=KNOBS)


def benched(now: float = 0.0) -> Cooldown:
    """Return a frontend that was benched just now."""
    cooldown = Cooldown(KNOBS)
    assert cooldown.learn(HANGS, now, "hole")
    return cooldown


# ---- what counts


@pytest.mark.parametrize("cause", Cause)
def test_only_what_blames_the_frontend_counts(cause: Cause) -> None:
    expected = BAD if BLAME[cause] is Blame.FRONTEND else NEUTRAL
    assert verdict_of(unknown(cause), hang=HANGS, on_5xx=True) is expected
    if cause is not Cause.CONNECT_TIMEOUT:
        assert verdict_of(unsent(cause), hang=HANGS, on_5xx=True) is expected


@pytest.mark.parametrize("hang", [HANGS, BAD, NEUTRAL])
def test_what_a_connect_timeout_says_depends_on_its_bound(hang: Verdict) -> None:
    assert verdict_of(unsent(Cause.CONNECT_TIMEOUT), hang=hang, on_5xx=True) is hang


@pytest.mark.parametrize(
    ("status", "on_5xx", "verdict"),
    [(200, True, GOOD), (307, True, GOOD)]
    + [(status, True, NEUTRAL) for status in (400, 401, 404, 408, 422, 429, 499, 503, 529)]
    + [(status, True, BAD) for status in (500, 502, 504)]
    + [(status, False, NEUTRAL) for status in (500, 502, 504)],
)
def test_back_pressure_and_the_clients_own_mistakes_are_neutral(status: int, on_5xx: bool, verdict: Verdict) -> None:
    assert verdict_of(answered(status), hang=HANGS, on_5xx=on_5xx) is verdict


# ---- triggers


def test_failures_in_a_row_bench() -> None:
    cooldown = Cooldown(KNOBS)
    assert [cooldown.learn(v, 0.0, "refused") for v in (BAD, BAD, GOOD, BAD, BAD, NEUTRAL, BAD)] == [False] * 6 + [True]
    assert repr(cooldown) == "<benched (3 failures in a row, the last: refused)>"
    assert (cooldown.since_s, cooldown.until_s, cooldown.share(1.0)) == (0.0, 5.0, 0.0)


def test_a_share_of_failures_benches_once_there_are_enough_sends() -> None:
    cooldown = Cooldown(KNOBS)
    benches = [cooldown.learn(v, 0.0, "lost") for v in (BAD, GOOD) * 5 + (BAD,)]
    assert benches == [False] * 10 + [True]
    assert cooldown.reason == "6 of 11 sends failed, the last: lost"


def test_failures_of_an_earlier_window_are_forgotten() -> None:
    cooldown = Cooldown(KNOBS)
    for turn, verdict in enumerate((BAD, GOOD) * 20):
        assert not cooldown.learn(verdict, turn * 2.0, "lost"), "5 sends in each window say nothing"


def test_a_connect_that_hung_its_whole_time_benches_at_once() -> None:
    assert repr(benched()) == "<benched (a connect hung for 5 s)>"


def test_neutral_outcomes_neither_bench_nor_clear() -> None:
    cooldown = Cooldown(KNOBS)
    assert not any(cooldown.learn(NEUTRAL, 0.0, "429") for _ in range(100))
    assert not any(cooldown.learn(v, 0.0, "lost") for v in (BAD, BAD, NEUTRAL))
    assert cooldown.learn(BAD, 0.0, "lost")


def test_what_began_before_the_bench_changes_nothing_any_more() -> None:
    cooldown = benched()
    assert not any(cooldown.learn(verdict, 1.0, "late") for verdict in (GOOD, BAD, HANGS, NEUTRAL))
    assert (cooldown.standing, cooldown.until_s) == (Standing.BENCHED, 5.0)


def test_with_cooldown_off_nothing_is_ever_benched_but_failures_are_remembered_in_choosing() -> None:
    cooldown = Cooldown(RouterConfig(cooldown=False, failure_memory=2))
    assert not any(cooldown.learn(v, 0.0, "hole") for v in (HANGS, BAD, BAD, BAD, BAD))
    assert [cooldown.wary, cooldown.share(0.0)] == [2, 1.0]
    for left in (1, 0, 0):
        cooldown.learn(GOOD, 0.0, "200")
        assert cooldown.wary == left


# ---- the way back


def test_a_good_trial_brings_it_back_slowly() -> None:
    cooldown = benched()
    cooldown.try_it()
    assert (cooldown.standing, cooldown.share(5.0)) == (Standing.ON_TRIAL, 0.0)
    cooldown.trial_was_good(6.0)
    assert [cooldown.share(now) for now in (6.0, 8.5, 11.0, 16.0, 20.0)] == [0.0, 0.25, 0.5, 1.0, 1.0]
    assert not cooldown.has_started(15.9)
    assert cooldown.has_started(16.0)
    assert not cooldown.has_started(16.1)
    assert repr(cooldown) == "<in_use>"


def test_without_slow_start_it_is_back_at_once() -> None:
    cooldown = Cooldown(RouterConfig(slow_start_s=0.0))
    cooldown.learn(HANGS, 0.0, "hole")
    cooldown.try_it()
    cooldown.trial_was_good(6.0)
    assert cooldown.standing is Standing.IN_USE


def test_the_rest_doubles_up_to_its_bound_until_a_send_in_use_was_good() -> None:
    cooldown, rests = benched(), []
    for _ in range(4):
        rests.append(cooldown.until_s - cooldown.since_s)
        cooldown.try_it()
        cooldown.trial_was_bad(cooldown.until_s, "refused")
    assert rests == [5.0, 10.0, 15.0, 15.0]
    assert cooldown.reason == "trial failed: refused"
    cooldown.try_it()
    cooldown.trial_was_good(100.0)
    assert cooldown.has_started(110.0)
    cooldown.learn(GOOD, 110.0, "200")
    assert cooldown.learn(HANGS, 111.0, "hole")
    assert cooldown.until_s == 116.0


def test_a_failure_during_the_slow_start_benches_again_and_longer() -> None:
    cooldown = benched()
    cooldown.try_it()
    cooldown.trial_was_good(6.0)
    assert not cooldown.learn(GOOD, 7.0, "200")
    assert cooldown.learn(BAD, 8.0, "lost")
    assert (cooldown.until_s, cooldown.reason) == (18.0, "failed again: lost")


def test_a_trial_that_is_given_up_or_fails_early_changes_nothing() -> None:
    cooldown = benched()
    cooldown.try_it()
    cooldown.trial_was_given_up(1.0)
    assert (cooldown.standing, cooldown.until_s, cooldown.tried_s) == (Standing.BENCHED, 5.0, 1.0)
    cooldown.try_it()
    cooldown.trial_was_bad(2.0, "refused")
    assert (cooldown.standing, cooldown.until_s, cooldown.tried_s) == (Standing.BENCHED, 5.0, 2.0)


def test_a_trial_needs_a_bench_and_ends_once() -> None:
    cooldown = Cooldown(KNOBS)
    with pytest.raises(AssertionError, match="only a benched frontend"):
        cooldown.try_it()
    with pytest.raises(AssertionError, match="no trial"):
        cooldown.trial_was_good(0.0)


# ---- with requests


def test_a_refusing_pool_gets_no_more_first_sends_once_it_is_benched(policy: Policy) -> None:
    assert answer_all(policy, 100, dead=["a-0"]) == {"a-0": 3, "b-0": 97}


@pytest.mark.parametrize("refusal", [unsent(Cause.OWN_LIMIT), unsent(Cause.STALE), answered(429), answered(503)])
def test_neutral_ends_keep_a_frontend_in_use(policy: Policy, refusal: object) -> None:
    for _ in range(50):
        playbook = asked(policy) >> refusal
        playbook.close()
    assert {s.cooldown.standing for s in policy.roster.states.values()} == {Standing.IN_USE}


def test_clients_that_leave_bench_nobody(policy: Policy) -> None:
    for _ in range(50):
        asked(policy).close()
        (asked(policy) >> answered(200) << relay(200)).close()
    assert {s.cooldown.standing for s in policy.roster.states.values()} == {Standing.IN_USE}


@pytest.mark.parametrize("end", [End.BROKEN, End.IDLE])
def test_streams_that_break_count_against_the_frontend(policy: Policy, end: End) -> None:
    for _ in range(6):
        _ = asked(policy) >> answered(200) << relay(200) >> end
    assert state_of(policy, "a-0").cooldown.reason == f"3 failures in a row, the last: stream {end}"


def test_a_change_of_standing_is_told(policy: Policy, clock: ManualClock) -> None:
    told: list[str] = []
    policy.usable.on_standing = lambda state: told.append(repr(state))
    bench(policy, "a-0")
    assert (
        trials(policy)
        << wait(5)
        >> after(clock, 5)
        << connect("a-0", 5.25)
        >> None
        << probe("a-0", 10)
        >> "ok"
        << wait(NEVER)
    )
    clock.now_s += 10
    assert asked(policy) << send("a-0")
    assert told == ["<a-0 in_flight=0 benched>", "<a-0 in_flight=0 slow_start>", "<a-0 in_flight=0 in_use>"]


def test_the_share_of_a_returned_frontend_rises_evenly(policy: Policy, clock: ManualClock) -> None:
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)
    shares = []
    for _ in range(4):
        shares.append(answer_all(policy, 400)["a-0"] / 400)
        clock.now_s += 2.5
    # Its fair share is a half; the moments are 0, 2.5, 5 and 7.5 of the 10 seconds.
    assert shares == pytest.approx([0.0, 0.125, 0.25, 0.375], abs=0.06)
    assert answer_all(policy, 100)["a-0"] == 50


@pytest.mark.parametrize("end", [End.BROKEN, End.IDLE])
@pytest.mark.parametrize("later_s", [1.0, 11.0])
def test_what_began_before_the_return_does_not_bench_again(clock: ManualClock, end: End, later_s: float) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    streams = [asked(policy) >> answered(200) << relay(200) for _ in range(30)]
    silent = [asked(policy) << send("a-0") for _ in range(30)]
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)
    clock.now_s += later_s
    for stream in streams:
        assert stream >> end
    for playbook in silent:
        assert playbook >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert state_of(policy, "a-0").cooldown.takes_sends
    for _ in range(3):
        _ = asked(policy) >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert not state_of(policy, "a-0").cooldown.takes_sends, "what began after it counts"


def test_what_began_before_the_return_and_ends_well_excuses_nothing_of_what_came_after(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    stream = asked(policy) >> answered(200) << relay(200)
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)
    clock.now_s += 1
    for _ in range(2):
        _ = asked(policy) >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert stream >> End.COMPLETE
    _ = asked(policy) >> unknown(Cause.FIRST_BYTE_TIMEOUT)
    assert not state_of(policy, "a-0").cooldown.takes_sends, "three in a row"


def test_what_begins_at_the_moment_of_the_return_counts(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)
    assert asked(policy) << send("a-0") >> unknown(Cause.LOST)
    assert state_of(policy, "a-0").cooldown.reason == "failed again: lost"


def test_what_begins_at_the_moment_of_the_return_and_ends_well_proves_it(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)
    assert state_of(policy, "a-0").cooldown.wary == KNOBS.failure_memory
    assert asked(policy) >> answered(200) << relay(200) >> End.COMPLETE
    assert state_of(policy, "a-0").cooldown.wary == KNOBS.failure_memory - 1


def test_a_slow_start_makes_no_way_where_nothing_else_is_left(clock: ManualClock) -> None:
    policy = policy_of("a", clock=clock, config=KNOBS)
    bench(policy, "a-0")
    clock.now_s += 5
    assert trials(policy) << connect("a-0", 5.25) >> None << probe("a-0", 10) >> "ok" << wait(NEVER)
    assert answer_all(policy, 100) == {"a-0": 100}


def test_a_new_catalog_keeps_the_bench(policy: Policy) -> None:
    bench(policy, "a-0")
    policy.publish(Catalog(pools("a", "b", "c")))
    assert answer_all(policy, 4) == {"b-0": 2, "c-0": 2}


def test_nobody_is_told_of_a_frontend_that_left(policy: Policy, clock: ManualClock) -> None:
    told: list[str] = []
    policy.usable.on_standing = lambda state: told.append(repr(state))
    playbook = asked(policy) << send("a-0")
    policy.publish(Catalog(pools("b")))
    assert playbook >> after(clock, 5, unsent(Cause.CONNECT_TIMEOUT)) << send("b-0")
    assert told == []
    assert answer_all(policy, 2) == {"b-0": 2}
