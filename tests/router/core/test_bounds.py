"""Which bound of a send comes next, and what an answer's end is called."""

import pytest

from router.core.bounds import NEVER, Bounds, Limits, Phase, end_of
from router.core.config import RouterConfig
from router.core.delivery import OWN_TIMEOUTS, Cause
from router.core.effects import End

LIMITS = Limits(
    RouterConfig(upload_timeout_s=1.0, first_byte_timeout_s=20.0, idle_timeout_s=3.0, total_timeout_s=100.0)
)


@pytest.mark.parametrize(
    ("phase", "since_s", "until_s", "head_until_s", "expected"),
    [
        (Phase.UPLOAD, 50.0, 1000.0, NEVER, (51.0, Cause.UPLOAD_TIMEOUT)),
        (Phase.HEAD, 50.0, 1000.0, NEVER, (70.0, Cause.FIRST_BYTE_TIMEOUT)),
        (Phase.BODY, 50.0, 1000.0, NEVER, (53.0, Cause.IDLE_TIMEOUT)),
        # the client's own patience ends with the head
        (Phase.UPLOAD, 50.0, 1000.0, 50.5, (50.5, Cause.DEADLINE)),
        (Phase.HEAD, 50.0, 1000.0, 60.0, (60.0, Cause.DEADLINE)),
        (Phase.BODY, 50.0, 1000.0, 51.0, (53.0, Cause.IDLE_TIMEOUT)),
        # total and deadline bound everything; the earlier one gives its name, and the deadline wins a tie
        (Phase.HEAD, 130.0, 1000.0, NEVER, (140.0, Cause.TOTAL_TIMEOUT)),
        (Phase.BODY, 139.0, 1000.0, NEVER, (140.0, Cause.TOTAL_TIMEOUT)),
        (Phase.BODY, 139.0, 139.5, NEVER, (139.5, Cause.DEADLINE)),
        (Phase.BODY, 139.0, 140.0, NEVER, (140.0, Cause.DEADLINE)),
        (Phase.BODY, 52.0, 55.0, NEVER, (55.0, Cause.DEADLINE)),
    ],
)
def test_the_next_bound(
    phase: Phase, since_s: float, until_s: float, head_until_s: float, expected: tuple[float, Cause]
) -> None:
    bounds = Bounds(LIMITS, 40.0, until_s=until_s, head_until_s=head_until_s)
    assert bounds.next(phase, since_s) == expected


def test_bounds_of_zero_are_off() -> None:
    limits = Limits(RouterConfig(upload_timeout_s=0.0, first_byte_timeout_s=0.0, total_timeout_s=0.0))
    bounds = Bounds(limits, 40.0, until_s=1000.0)
    for phase in (Phase.UPLOAD, Phase.HEAD):
        assert bounds.next(phase, 50.0) == (1000.0, Cause.DEADLINE)


def test_every_bound_is_said_in_words() -> None:
    bounds = Bounds(LIMITS, 40.0, until_s=1000.0)
    assert len({bounds.words(cause) for cause in (*OWN_TIMEOUTS, Cause.IDLE_TIMEOUT)}) == 5


@pytest.mark.parametrize(
    ("cause", "end", "blames_pool"),
    [
        (Cause.IDLE_TIMEOUT, End.IDLE, True),
        (Cause.TOTAL_TIMEOUT, End.TOTAL, False),
        (Cause.DEADLINE, End.DEADLINE, False),
        (Cause.LOST, End.BROKEN, True),
        (Cause.PROTOCOL, End.BROKEN, True),
    ],
)
def test_an_answer_that_breaks_off_ends_as_its_cause_says(cause: Cause, end: End, blames_pool: bool) -> None:
    assert end_of(cause) is end
    assert end.blames_pool is blames_pool
