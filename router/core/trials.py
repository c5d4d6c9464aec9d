"""Who of the benched is tried next: the half-open state, without a user's request.

Laws
1. A frontend is tried when its rest is over; one permit a frontend, given back on every path, a cancel included.
2. At most `trials_max` trials at a time, and only one at a time among the frontends of a model that has nothing usable.
3. While everything of a model is benched and requests wait for it, its frontends are tried before their rest is over,
   each again after a pause.
"""

from collections.abc import Callable, Iterator

from router.core.admission import WaitQueue
from router.core.clock import Clock
from router.core.cooldown import Standing
from router.core.effects import Wait
from router.core.in_flight import FrontendState
from router.core.roster import Group, Roster
from router.core.topology import Frontend

NEVER = float("inf")


class Trial:
    """The permit to try one frontend: ends once, in one of three ways."""

    __slots__ = ("_clock", "_on_end", "state")

    def __init__(self, state: FrontendState, clock: Clock, on_end: Callable[[FrontendState], None]) -> None:
        self.state = state
        self._clock = clock
        self._on_end: Callable[[FrontendState], None] | None = on_end
        state.cooldown.try_it()

    @property
    def frontend(self) -> Frontend:
        """What is tried."""
        return self.state.frontend

    def succeeded(self) -> None:
        """Put the frontend back into use."""
        self.state.cooldown.trial_was_good(self._clock.monotonic())
        self._end()

    def failed(self, what: str) -> None:
        """Bench the frontend for longer; `what` says in a word why."""
        self.state.cooldown.trial_was_bad(self._clock.monotonic(), what)
        self._end()

    def give_up(self) -> None:
        """Give the permit back if that was not done; a second call does nothing."""
        if self._on_end is not None:
            self.state.cooldown.trial_was_given_up(self._clock.monotonic())
            self._end()

    def _end(self) -> None:
        told, self._on_end = self._on_end, None
        assert told is not None, "a trial ends once"
        told(self.state)


class Trials:
    """Decides which benched frontend is tried, and when the next one is due; `on_end` is told of every trial's end.

    The loop around it is in loops.py.
    """

    __slots__ = ("_clock", "_idle", "_on_end", "_pause_s", "_queue", "_roster", "_trials_max")

    def __init__(
        self,
        roster: Roster,
        queue: WaitQueue,
        clock: Clock,
        on_end: Callable[[FrontendState], None],
        *,
        pause_s: float,
        trials_max: int,
    ) -> None:
        self._roster = roster
        self._queue = queue
        self._clock = clock
        self._on_end = on_end
        self._pause_s = pause_s
        self._trials_max = trials_max
        self._idle: list[Wait] = []

    def begin(self) -> Trial | None:
        """Take the permit for the trial that is due, if one is."""
        state = self.next(self._clock.monotonic())
        return None if state is None else Trial(state, self._clock, self._on_end)

    def until_next(self) -> Wait:
        """Return a wait until a trial may be due; give it back to `no_longer_idle`."""
        idle = Wait(self.due_s())
        self._idle.append(idle)
        return idle

    def no_longer_idle(self, idle: Wait) -> None:
        """Take back a wait of `until_next`."""
        self._idle.remove(idle)

    def wake(self) -> None:
        """Wake the loops that are idle: a trial may be due earlier than it was."""
        for idle in tuple(self._idle):
            idle.wake()

    def next(self, now: float) -> FrontendState | None:
        """Return the frontend to try now: the one that is due first, None if none is."""
        due = min(self._due(), key=_by_time, default=None)
        return due[1] if due is not None and due[0] <= now else None

    def due_s(self) -> float:
        """Return when the next trial is due, in monotonic seconds; infinite while there is none to make."""
        return min((due_s for due_s, _ in self._due()), default=NEVER)

    def _due(self) -> Iterator[tuple[float, FrontendState]]:
        """Yield whoever may be tried, and from when on."""
        states = self._roster.states.values()
        if sum(state.on_trial for state in states) >= self._trials_max:
            return
        stuck = [group for group in self._roster.groups() if group.all_benched()]
        asked_for = set(self._queue.models())
        awaited = [group for group in stuck if group.model in asked_for]
        held_up = {state for group in stuck if group.on_trial() for state in group.states()}
        for state in states:
            if state.cooldown.standing is Standing.BENCHED and state not in held_up:
                yield self._due_s(state, awaited), state

    def _due_s(self, state: FrontendState, awaited: list[Group]) -> float:
        rest_s = state.cooldown.until_s
        if any(state in group.states() for group in awaited):
            return min(rest_s, state.cooldown.tried_s + self._pause_s)
        return rest_s


def _by_time(due: tuple[float, FrontendState]) -> tuple[float, str]:
    return due[0], due[1].frontend.name
