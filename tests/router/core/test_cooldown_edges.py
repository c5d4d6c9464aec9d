"""Edges of the cooldown: exactly at its thresholds, and what it says of itself in every standing."""

import pytest

from router.core.config import RouterConfig
from router.core.cooldown import Cooldown, Standing, Verdict

GOOD, BAD, HANGS = Verdict.GOOD, Verdict.BAD, Verdict.HANGS
ROWS = 1000
"""More failures in a row than any test makes."""


def share_of(*verdicts: Verdict) -> Cooldown:
    """Learn these verdicts, a second apart, where only a share of half of at least four sends benches."""
    config = RouterConfig(
        cooldown_failures=ROWS, cooldown_ratio=0.5, cooldown_ratio_sends_min=4, cooldown_ratio_window_s=10.0
    )
    cooldown = Cooldown(config)
    for second, verdict in enumerate(verdicts):
        cooldown.learn(verdict, 100.0 + second, "lost")
    return cooldown


def test_a_new_frontend_has_no_past() -> None:
    cooldown = Cooldown(RouterConfig())
    assert repr(cooldown) == "<in_use>"
    assert cooldown.reason == ""
    assert cooldown.since_s == cooldown.until_s == cooldown.tried_s == float("-inf")


@pytest.mark.parametrize(
    ("verdicts", "reason"),
    [
        ((GOOD, BAD, GOOD, BAD), "2 of 4 sends failed, the last: lost"),
        ((BAD, GOOD, BAD), ""),
        ((GOOD, GOOD, GOOD, BAD), ""),
        ((BAD, GOOD, GOOD, GOOD, GOOD, BAD), ""),
    ],
)
def test_exactly_the_share_of_exactly_the_least_sends_benches(verdicts: tuple[Verdict, ...], reason: str) -> None:
    assert share_of(*verdicts).reason == reason


def test_a_window_ends_exactly_after_its_time() -> None:
    cooldown = share_of(GOOD, BAD, GOOD)
    assert not cooldown.learn(BAD, 110.0, "lost"), "the first send of the next window"
    assert not cooldown.learn(BAD, 111.0, "lost")
    assert not cooldown.learn(GOOD, 112.0, "")
    assert cooldown.learn(BAD, 113.0, "lost")
    assert cooldown.reason == "3 of 4 sends failed, the last: lost"


def test_a_rest_shorter_than_others_is_kept_to_also_after_a_good_send() -> None:
    cooldown = Cooldown(RouterConfig(cooldown_s=0.5, slow_start_s=0.0))
    assert cooldown.learn(HANGS, 10.0, "")
    assert cooldown.until_s == 10.5
    cooldown.try_it()
    cooldown.trial_was_good(11.0)
    cooldown.learn(GOOD, 11.5, "")
    assert cooldown.learn(HANGS, 12.0, "")
    assert cooldown.until_s == 12.5


def test_a_good_trial_says_when_and_why_and_forgets_failures() -> None:
    cooldown = Cooldown(RouterConfig(cooldown_failures=3, slow_start_s=0.0))
    for _ in range(3):
        cooldown.learn(BAD, 10.0, "lost")
    cooldown.try_it()
    cooldown.trial_was_good(20.0)
    assert (cooldown.standing, cooldown.reason) == (Standing.IN_USE, "trial was good")
    assert (cooldown.tried_s, cooldown.since_s, cooldown.until_s) == (20.0, 20.0, 20.0)
    assert not cooldown.learn(BAD, 21.0, "lost")
    assert not cooldown.learn(BAD, 22.0, "lost")
    assert cooldown.learn(BAD, 23.0, "lost")
    assert cooldown.reason == "3 failures in a row, the last: lost"


def test_the_end_of_a_slow_start_is_dated_and_leaves_no_reason() -> None:
    cooldown = Cooldown(RouterConfig(slow_start_s=10.0))
    cooldown.learn(HANGS, 10.0, "")
    cooldown.try_it()
    cooldown.trial_was_good(20.0)
    assert (cooldown.since_s, cooldown.until_s) == (20.0, 30.0)
    assert not cooldown.has_started(29.0)
    assert cooldown.has_started(31.0)
    assert (cooldown.since_s, cooldown.until_s, cooldown.reason) == (31.0, 31.0, "")
    assert repr(cooldown) == "<in_use>"
