"""Cooldown of one frontend, across requests: a failing frontend is benched until a trial has shown that it is back.

| standing | takes sends | and then |
| --- | --- | --- |
| in_use | all | failures in a row, a share of failures, or a connect that hung its whole time -> benched |
| benched | none | its rest is over, or everything is benched and requests wait -> on_trial |
| on_trial | none | the trial is good -> slow_start; bad -> benched, longer; given up -> benched, as before |
| slow_start | a share that rises evenly | its time is over -> in_use; any failure -> benched, longer |

Laws
1. Only what is blamed on the frontend counts: departures, limits of our own, 4xx and "not now" (429, 503, 529) are
   neutral, they neither bench a frontend nor clear it.
2. A benched frontend returns by a trial only, never by a user's request, and at most one trial is under way.
3. The rest doubles up to its bound with every bench, until a send in use was good.
4. What began before a frontend returned says nothing of it any more.
5. A failure never makes a frontend look better: `wary` tells a selector for how long its low count is no merit.
"""

from enum import Enum, StrEnum

from router.core.config import RouterConfig
from router.core.delivery import Blame, Cause, Delivery, Outcome

NOT_NOW = frozenset((429, 503, 529))
"""Statuses by which a pool asks for less, not by which it fails."""


class Standing(StrEnum):
    """How a frontend stands with the router."""

    IN_USE = "in_use"
    BENCHED = "benched"
    ON_TRIAL = "on_trial"
    SLOW_START = "slow_start"


class Verdict(Enum):
    """What the end of a send says of its frontend."""

    GOOD = "good"
    NEUTRAL = "neutral"
    BAD = "bad"
    HANGS = "hangs"  # a connect had its whole time and nothing came of it


# In the hot path of router and model: CPython 3.11 takes ten times as long to look a member up on its class.
_IN_USE, _BENCHED, _ON_TRIAL = Standing.IN_USE, Standing.BENCHED, Standing.ON_TRIAL
_GOOD, _NEUTRAL = Verdict.GOOD, Verdict.NEUTRAL
_ANSWERED = Delivery.ANSWERED


def verdict_of(outcome: Outcome, *, hang: Verdict, on_5xx: bool) -> Verdict:
    """Judge an outcome; `hang` is what a connect time-out says, `on_5xx` whether statuses from 500 on are failures."""
    if outcome.delivery is _ANSWERED:
        assert outcome.status is not None
        if outcome.status < 400:
            return _GOOD
        bad = on_5xx and outcome.status >= 500 and outcome.status not in NOT_NOW
        return Verdict.BAD if bad else Verdict.NEUTRAL
    if outcome.delivery is Delivery.UNSENT and outcome.cause is Cause.CONNECT_TIMEOUT:
        return hang
    return Verdict.BAD if outcome.blame is Blame.FRONTEND else Verdict.NEUTRAL


class Cooldown:
    """Standing of one frontend: `reason` says why, `since_s` and `until_s` are monotonic seconds."""

    __slots__ = (
        "_config", "_failures", "_in_a_row", "_rest_s", "_sends", "_window_s", "reason", "returned_s", "since_s",
        "standing", "tried_s", "until_s", "wary",
    )  # fmt: skip

    def __init__(self, config: RouterConfig) -> None:
        self._config = config
        self.standing = Standing.IN_USE
        self.reason = ""
        self.since_s = float("-inf")
        self.until_s = float("-inf")
        """When the rest of a benched frontend, or its slow start, is over."""
        self.tried_s = float("-inf")
        """When its last trial ended."""
        self.returned_s = float("-inf")
        """When a trial last brought it back."""
        self.wary = 0
        """Good sends that are still wanted before the last failure is forgotten in choosing."""
        self._rest_s = 0.0
        self._in_a_row = 0
        self._window_s = float("-inf")
        self._sends = 0
        self._failures = 0

    @property
    def takes_sends(self) -> bool:
        """Tell whether it takes any sends at all."""
        return self.standing in (Standing.IN_USE, Standing.SLOW_START)

    def share(self, now: float) -> float:
        """Return the share of its sends that it takes, from 0 to 1."""
        if self.standing is Standing.SLOW_START:
            return min(1.0, (now - self.since_s) / (self.until_s - self.since_s))
        return 1.0 if self.standing is Standing.IN_USE else 0.0

    def has_started(self, now: float) -> bool:
        """End a slow start whose time is over; returns whether that happened just now."""
        over = self.standing is Standing.SLOW_START and now >= self.until_s
        if over:
            self._go(Standing.IN_USE, now, until_s=now, reason="")
        return over

    def learn(self, verdict: Verdict, now: float, what: str) -> bool:
        """Take in how a send ended, `what` in a word; returns whether that benched the frontend."""
        if verdict is _NEUTRAL or self.standing is _BENCHED or self.standing is _ON_TRIAL:
            return False
        failed = verdict is not _GOOD
        self._count(now, failed=failed)
        if not failed:
            return False
        reason = self._reason_to_bench(verdict, what)
        if reason and self._config.cooldown:
            self._bench(now, reason)
            return True
        return False

    def try_it(self) -> None:
        """Begin a trial."""
        assert self.standing is Standing.BENCHED, "only a benched frontend is tried"
        self.standing = Standing.ON_TRIAL

    def trial_was_good(self, now: float) -> None:
        """End a trial: back into use, slowly at first."""
        self._end_trial(now)
        self._in_a_row = self._sends = self._failures = 0
        self.returned_s = now
        slow_s = self._config.slow_start_s
        self._go(Standing.SLOW_START if slow_s else Standing.IN_USE, now, until_s=now + slow_s, reason="trial was good")

    def trial_was_bad(self, now: float, what: str) -> None:
        """End a trial: benched for longer; a trial before the rest was over changes nothing."""
        self._end_trial(now)
        if now >= self.until_s:
            self._bench(now, f"trial failed: {what}")

    def trial_was_given_up(self, now: float) -> None:
        """End a trial that came to nothing: benched as before."""
        self._end_trial(now)

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<{self.standing}{why}>"

    def _count(self, now: float, *, failed: bool) -> None:
        if now >= self._window_s + self._config.cooldown_ratio_window_s:
            self._window_s, self._sends, self._failures = now, 0, 0
        self._sends += 1
        if failed:
            self._failures += 1
            self._in_a_row += 1
            self.wary = self._config.failure_memory
            return
        self._in_a_row = 0
        if self.wary:
            self.wary -= 1
        if self.standing is _IN_USE:
            self._rest_s = 0.0

    def _reason_to_bench(self, verdict: Verdict, what: str) -> str:
        config = self._config
        if verdict is Verdict.HANGS:
            return f"a connect hung for {config.connect_timeout_s:g} s"
        if self.standing is Standing.SLOW_START:
            return f"failed again: {what}"
        if self._in_a_row >= config.cooldown_failures:
            return f"{self._in_a_row} failures in a row, the last: {what}"
        if self._sends >= config.cooldown_ratio_sends_min and self._failures >= config.cooldown_ratio * self._sends:
            return f"{self._failures} of {self._sends} sends failed, the last: {what}"
        return ""

    def _bench(self, now: float, reason: str) -> None:
        self._rest_s = min(max(2 * self._rest_s, self._config.cooldown_s), self._config.cooldown_s_max)
        self._go(Standing.BENCHED, now, until_s=now + self._rest_s, reason=reason)

    def _end_trial(self, now: float) -> None:
        assert self.standing is Standing.ON_TRIAL, "no trial is under way"
        self.standing = Standing.BENCHED
        self.tried_s = now

    def _go(self, standing: Standing, now: float, *, until_s: float, reason: str) -> None:
        self.standing, self.since_s, self.until_s, self.reason = standing, now, until_s, reason
