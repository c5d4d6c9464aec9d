"""What is known of a send: the slot first, then the status, and no cause can change it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.delivery import BLAME, OWN_TIMEOUTS, Blame, Cause, Delivery, Outcome, delivery_of
from router.core.refusal import STATUS, Code, Reason, code_for, retry_after
from tests.router.core.playbook import LOST, REFUSED, answered, unknown, unsent


@pytest.mark.parametrize(
    ("slot_taken", "status", "delivery"),
    [
        (False, None, Delivery.UNSENT),
        (False, 408, Delivery.UNSENT),
        (True, None, Delivery.UNKNOWN),
        (True, 200, Delivery.ANSWERED),
        (True, 503, Delivery.ANSWERED),
    ],
)
def test_the_slot_and_the_status_decide(slot_taken: bool, status: int | None, delivery: Delivery) -> None:
    assert delivery_of(slot_taken=slot_taken, status=status) is delivery


@given(slot_taken=st.booleans(), cause=st.sampled_from(Cause))
def test_no_cause_takes_part_in_the_decision(slot_taken: bool, cause: Cause) -> None:
    outcome = Outcome(slot_taken=slot_taken, cause=cause)
    assert outcome.delivery is (Delivery.UNKNOWN if slot_taken else Delivery.UNSENT)
    assert (outcome.status, outcome.cause, outcome.blame) == (None, cause, BLAME[cause])


def test_a_status_that_came_while_the_slot_was_full_is_dropped() -> None:
    outcome = Outcome(slot_taken=False, status=408, cause=Cause.STALE)
    assert (outcome.delivery, outcome.status, outcome.cause) == (Delivery.UNSENT, None, Cause.STALE)


def test_an_answer_has_no_cause_and_no_blame() -> None:
    outcome = Outcome(slot_taken=True, status=500, cause=Cause.RESET)
    assert (outcome.status, outcome.cause, outcome.blame) == (500, None, Blame.NOBODY)


@pytest.mark.parametrize("slot_taken", [False, True])
def test_a_failed_send_needs_its_cause(slot_taken: bool) -> None:
    with pytest.raises(ValueError, match="needs its cause"):
        Outcome(slot_taken=slot_taken)


def test_every_cause_has_its_blame() -> None:
    assert set(BLAME) == set(Cause)
    assert {cause for cause, blame in BLAME.items() if blame is not Blame.FRONTEND} == {
        Cause.STALE,
        Cause.TOTAL_TIMEOUT,
        Cause.DEADLINE,
        Cause.OWN_LIMIT,
        Cause.CLIENT_LEFT,
        Cause.BODY_BROKEN,
    }


def test_outcomes_show_what_is_known() -> None:
    assert [repr(o) for o in (REFUSED, LOST, answered(429))] == ["<unsent refused>", "<unknown lost>", "<answered 429>"]


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("reason", [Reason.MAYBE_SENT, Reason.TWO_SENDS])
def test_what_may_be_running_is_told_by_who_ended_it(cause: Cause, reason: Reason) -> None:
    code = code_for(reason, unknown(cause))
    assert code is (Code.POOL_TIMEOUT if cause in OWN_TIMEOUTS else Code.MAYBE_RUNNING)
    assert STATUS[code] == (504 if cause in OWN_TIMEOUTS else 503)


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        (Reason.TWO_SENDS, 503, "pool_unreachable"),
        (Reason.NO_OTHER_POOL, 503, "pool_unreachable"),
        (Reason.BUDGET, 503, "budget_spent"),
        (Reason.DEADLINE, 504, "deadline"),
        (Reason.NO_POOL, 503, "no_pool"),
        (Reason.OVERLOADED, 503, "router_overloaded"),
        (Reason.UNKNOWN_MODEL, 404, "model_not_found"),
    ],
)
@pytest.mark.parametrize("outcome", [None, unsent(Cause.REFUSED), unsent(Cause.DEADLINE)])
def test_what_was_never_sent_is_told_by_the_reason(
    reason: Reason, status: int, code: str, outcome: Outcome | None
) -> None:
    told = code_for(reason, outcome)
    assert (told, STATUS[told]) == (code, status)


def test_every_code_has_its_status() -> None:
    assert set(STATUS) == set(Code)


@pytest.mark.parametrize(("wait_s", "told"), [(0.0, 1), (0.2, 1), (1.0, 1), (1.01, 2), (5.5, 6)])
def test_retry_after_is_in_whole_seconds_rounded_up_and_never_none(wait_s: float, told: int) -> None:
    assert retry_after(wait_s) == told
