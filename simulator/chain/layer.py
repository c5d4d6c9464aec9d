"""A generic layer: what it does about an attempt that failed.

Laws
1. A call ends once; after that nothing is made for it, and its attempt under way was left.
2. A retry is paid for only when it will be made: retries, `retry_on`, veto, cap and deadline are asked first, the
   budget last.
3. A stream that has begun is not sent again, whatever ended it: a break, a time-out, a deadline.
4. The draws of a layer come from streams of its own, by its name.
"""

from collections.abc import Callable
from math import inf, log
from typing import Any, Final, NamedTuple, Protocol

from router.core.budgets.kinds import NONE, budget_of
from router.core.budgets.retry_budget import Call as BudgetCall
from router.core.budgets.retry_budget import Ending, RetryBudget
from scenarios.layers import Backoff, Layer
from scenarios.world.streams import stream
from simulator.chain.calls import CONNECTING, OUTSIDE, TELLING, WAITING, WORKING, Attempt, Call, phase_of
from simulator.chain.clockwork import Clockwork, FifoTimers, Timers
from simulator.chain.columns import Calls
from simulator.chain.results import (
    CONNECT,
    CONNECT_END,
    CUT_SHORT,
    KINDS,
    LEFT_END,
    OK_END,
    STATUS_END,
    TIMEOUT,
    TIMEOUT_END,
    Result,
    as_gateway,
)

_COVERED: Final = {"connect": CONNECTING, "queue": WAITING, "first_byte": WORKING, "whole": TELLING}
"""What a time-out covers -> how far an attempt may be for it to strike."""


class Above(Protocol):
    """Whoever has made a call and hears how it ended."""

    def ended(self, child: Any, result: Result) -> None:
        """Take in how an attempt of a call ended."""
        ...


class Below(Protocol):
    """Whatever a layer's attempts go to."""

    def begin(self, call: Call, number: int, now_s: float) -> "Call | Attempt":
        """Begin an attempt of a call and return it; what came of it at once is told afterwards."""
        ...

    def abandon(self, child: Any, now_s: float, end: int) -> None:
        """Leave an attempt that is under way, and call that its end."""
        ...


class Sleeps:
    """How long a layer sleeps, by the number of retries made; draws come in the order of the questions."""

    __slots__ = ("_backoff", "_random")

    def __init__(self, backoff: Backoff, random: Callable[[], float]) -> None:
        self._backoff = backoff
        self._random = random

    def next_s(self, retries: int) -> float:
        """Return the sleep before the retry after so many."""
        backoff = self._backoff
        if backoff.initial_s == 0:
            return 0.0
        # Beyond 64 doublings every cap is reached, and a power would overflow.
        longest_s = min(backoff.initial_s * backoff.factor ** min(retries, 64), backoff.max_s)
        if backoff.spread == "exponential":
            return longest_s * _exponential(self._random)
        return longest_s * (1 - backoff.jitter * self._random()) if backoff.jitter else longest_s


def _exponential(random: Callable[[], float]) -> float:
    return -log(1.0 - random())


class Told(NamedTuple):
    """What a layer tells the one below of its patience with one call: seconds to the first token, and to the last."""

    anything: bool = False
    first_s: float = inf
    whole_s: float = inf

    def whole_until_s(self, call: Call, now_s: float) -> float:
        """Return when the last token of a call must be there."""
        until_s = now_s + self.whole_s
        return until_s if call.parent is None else min(until_s, call.parent.until_s)


class GenericLayer:
    """One generic layer of the chain. `above` and `below` are set when the chain is put together."""

    above: Above
    below: Below

    def __init__(
        self,
        clockwork: Clockwork,
        timers: Timers,
        spec: Layer,
        place: int,
        *,
        seed: int,
        chain_cap: int | None,
        rejects_at_once: bool,
    ) -> None:
        self.name = spec.name
        self.place = place
        self.spec = spec
        self.calls = Calls()
        self._clockwork = clockwork
        self._timers = timers
        self._attempts_max = spec.retries + 1
        self._may: dict[str | int, bool] = {}
        self._cap = chain_cap if spec.counts_chain else None
        self._counts = spec.counts_chain
        self._reports = spec.counts_chain or spec.preset.startswith("openai")  # x-stainless-retry-count
        self._at_once = rejects_at_once
        draws = stream(seed, f"layer/{spec.name}")
        self._random = draws.random
        self._sleeps = Sleeps(spec.backoff, stream(seed, f"backoff/{spec.name}").random)
        self._plain_sleep = spec.backoff.initial_s == 0
        self._covered = _COVERED[spec.timeout_covers]
        self._attempt_timers: FifoTimers | None = None
        self._spread_s: float | None = None
        if spec.attempt_timeout_s is not None:
            if spec.timeout_spread == "fixed":
                self._attempt_timers = FifoTimers(clockwork, spec.attempt_timeout_s, self._timed_out)
            else:
                self._spread_s = spec.attempt_timeout_s
        self._connects: FifoTimers | None = None
        if spec.connect_timeout_s is not None:
            self._connects = FifoTimers(clockwork, spec.connect_timeout_s, self._connect_over)
        self._connect_hung = CONNECT if KINDS[CONNECT_END] in spec.retry_on else TIMEOUT
        self._deadline_s = spec.deadline_s
        self._deadlines = (
            FifoTimers(clockwork, spec.deadline_s, self._deadline_over) if spec.deadline_s is not None else None
        )
        self._budgets = _Budgets(spec, draws)
        self._gated = spec.budget_gates == "attempts"
        self._simple = self._deadlines is None and not self._counts and spec.budget == NONE
        self._told = Told()
        self._budgeted = spec.budget != NONE
        self._timed = spec.attempt_timeout_s is not None or self._connects is not None
        self._begin_attempt_ = self._begin_attempt

    @property
    def tells(self) -> Told:
        """What the layer below is told of how long it waits: by whoever carries the deadline along, and by OpenAI."""
        bound_s = self.spec.attempt_timeout_s
        openai = self.spec.preset.startswith("openai")
        if bound_s is None or not (self._counts or openai) or self.spec.timeout_covers not in ("first_byte", "whole"):
            # A deadline of its own, or one that was carried along to it.
            return Told(self._counts and (self._deadlines is not None or self._told.anything), inf, inf)
        if openai:
            return Told(True, bound_s - min(0.25, bound_s / 20), inf)  # answered a little before the SDK gives up
        return Told(True, bound_s, bound_s if self.spec.timeout_covers == "whole" else inf)

    @property
    def entries(self) -> int:
        """Entries of its own timers, dead ones included."""
        held = (timers for timers in (self._attempt_timers, self._connects, self._deadlines) if timers is not None)
        return sum(map(len, held))

    def hear(self, told: Told) -> None:
        """Take in what the layer above says of its patience."""
        self._told = told

    # ---- as Below of the layer above

    def begin(self, parent: Call, number: int, now_s: float) -> Call:
        """Begin a call of this layer: one attempt of the layer above."""
        operation = parent.operation
        turns = operation.turns
        turns[self.place - 1] = turn = turns[self.place - 1] + 1
        call = Call(operation, parent, number, now_s, turn)
        self.start(call, now_s)
        return call

    def start(self, call: Call, now_s: float) -> None:
        """Make the first attempt of a call."""
        if self._simple or self._prepared(call, now_s):
            call.attempts = 1
            call.child = child = self.below.begin(call, 1, now_s)
            if self._timed and child.live:
                self._bound(child, now_s)

    def abandon(self, call: Call, now_s: float, end: int) -> None:
        """Leave a call of this layer, and what it has under way."""
        call.live = False
        self.calls.add(call, now_s, end, 0)
        self.leave_child(call, now_s)

    # ---- as Above of its attempts

    def ended(self, child: Any, result: Result) -> None:
        """Take in how an attempt ended that was waited for."""
        call = child.parent
        if self._budgeted and call.budget is not None:
            call.budget.ended(call.budget_call, result.ending, self._clockwork.now)
        if result.end == OK_END:
            call.live = False
            if self.place:
                self.calls.add(call, self._clockwork.now, OK_END, result.status)
            self.above.ended(call, result)
            return
        self._failed(call, result)

    def _failed(self, call: Call, result: Result) -> None:
        now_s = self._clockwork.now
        sleep_s = self._sleep_s(call, result, now_s)
        if sleep_s is None:
            self._end(call, result)
        elif sleep_s > 0:
            self._timers.add(now_s + sleep_s, call, self._begin_attempt_)
        else:
            self._begin_attempt(call)

    def _end(self, call: Call, result: Result) -> None:
        call.live = False
        if self._cap is not None and call.operation.spent >= self._cap and not result.veto:
            result = result.vetoed()
        told = result if self.spec.in_process else as_gateway(result)
        if self.place:
            self.calls.add(call, self._clockwork.now, told.end, told.status, told.code)
        self.above.ended(call, told)

    # ---- inside

    def _prepared(self, call: Call, now_s: float) -> bool:
        """Take up deadline and budget of a call; False: the budget refuses even its first attempt."""
        if self._deadlines is not None:
            assert self._deadline_s is not None
            call.until_s = now_s + self._deadline_s
            self._deadlines.add(call)
        if self._counts and self._told.anything:
            call.until_s = min(call.until_s, self._told.whole_until_s(call, now_s))
        if not self._budgeted:
            return True
        call.budget = self._budgets.of(call)
        assert call.budget is not None, "there is a budget"
        call.budget_call = BudgetCall()
        if not self._gated:
            call.budget.deposit(call.budget_call, now_s)
        elif not call.budget.try_withdraw(call.budget_call, now_s):
            call.budget = None
            self._clockwork.news.add(self._refused, call, CONNECT)
            return False
        return True

    def _refused(self, call: Call, result: Result) -> None:
        if call.live:
            self._end(call, result)

    def _begin_attempt(self, call: Call) -> None:
        now_s = self._clockwork.now
        call.attempts = number = call.attempts + 1
        call.child = child = self.below.begin(call, number, now_s)
        if self._timed and child.live:
            self._bound(child, now_s)

    def _bound(self, child: "Call | Attempt", now_s: float) -> None:
        """Set the time-outs of an attempt; a connect hangs only where it is one to a pool."""
        if self._attempt_timers is not None:
            self._attempt_timers.add(child)
        elif self._spread_s is not None:
            self._timers.add(now_s + self._spread_s * _exponential(self._random), child, self._timed_out)
        if self._connects is not None and isinstance(child, Attempt) and child.where == OUTSIDE:
            self._connects.add(child)

    def _connect_over(self, child: Any) -> None:
        """Give a connect up that hangs still."""
        if child.where == OUTSIDE:
            self.below.abandon(child, self._clockwork.now, TIMEOUT_END)
            self.ended(child, self._connect_hung)

    def _timed_out(self, child: Any) -> None:
        now_s = self._clockwork.now
        phase = child.phase(now_s) if isinstance(child, Attempt) else phase_of(child, now_s)
        if phase > self._covered:
            return
        self.below.abandon(child, now_s, TIMEOUT_END)
        self.ended(child, CUT_SHORT if phase == TELLING else TIMEOUT)

    def _deadline_over(self, call: Call) -> None:
        now_s = self._clockwork.now
        begun = phase_of(call, now_s) == TELLING
        self.leave_child(call, now_s)
        self._end(call, CUT_SHORT if begun else TIMEOUT)

    def leave_child(self, call: Call, now_s: float) -> None:
        """Leave what a call has under way; its end is another's business."""
        child = call.child
        if child is None or not child.live:
            return
        self.below.abandon(child, now_s, LEFT_END)
        if self._budgeted and call.budget is not None:
            call.budget.ended(call.budget_call, Ending.LEFT, now_s)

    def _sleep_s(self, call: Call, result: Result, now_s: float) -> float | None:
        """Return how long to sleep before the next attempt; None: there is none."""
        key = result.key
        may = self._may.get(key)
        if may is None:
            may = self._may[key] = _retried(self.spec.retry_on, result)
        if not may or call.attempts >= self._attempts_max or (result.veto and self.spec.honours_veto):
            return None
        if self._cap is not None and call.operation.spent >= self._cap:
            return None
        sleep_s = self._own_sleep_s(call, result)
        if sleep_s is None or now_s + sleep_s >= call.until_s:
            return None
        if self._budgeted and call.budget is not None and not call.budget.try_withdraw(call.budget_call, now_s):
            return None
        if self._reports:
            call.operation.spent += 1
        return sleep_s

    def _own_sleep_s(self, call: Call, result: Result) -> float | None:
        asked_s = result.retry_after_s
        if asked_s is not None and self.spec.honours_retry_after:
            if asked_s <= self.spec.retry_after_s_max:
                return asked_s
            if self.spec.retry_after_beyond == "give_up":
                return None
        if self._plain_sleep or (result.cheap and self._at_once):
            return 0.0
        return self._sleeps.next_s(call.attempts - 1)


class _Budgets:
    """The budgets of one layer, by what shares one."""

    def __init__(self, spec: Layer, draws: Any) -> None:
        self._spec = spec
        self._draws = draws
        places = {"client": spec.clients, "instance": spec.instances, "global": 1, "request": 0}[spec.budget_scope]
        self.all: list[RetryBudget | None] = [budget_of(spec.budget, draws) for _ in range(places)]

    def of(self, call: Call) -> RetryBudget | None:
        """Return the budget of a call."""
        if not self.all:
            return budget_of(self._spec.budget, self._draws)
        return self.all[call.operation.index % len(self.all)]


def _retried(words: tuple[str, ...], result: Result) -> bool:
    """Tell whether a layer that retries on these words retries on a result."""
    if result.end != STATUS_END:
        return result.key in words
    return str(result.status) in words or f"{result.status // 100}xx" in words
