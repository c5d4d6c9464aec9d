"""Edges of the chain budget: garbage in front, headers that tell of time alone, and words that are cut."""

import pytest

from router.core.chain import (
    AMZ_SDK_REQUEST,
    DEADLINE_MS,
    ENVOY_ATTEMPT_COUNT,
    READ,
    RETRIES_LEFT,
    STAINLESS_READ_TIMEOUT,
    STAINLESS_RETRY_COUNT,
    ChainBudget,
)
from router.core.delivery import Delivery


def test_garbage_in_front_hides_nothing_behind_it() -> None:
    first, last = READ[0], READ[-1]
    budget = ChainBudget({first: "many", last: "attempt=2" if last == AMZ_SDK_REQUEST else "1"})
    assert (budget.spent, list(budget.ignored)) == (1, [first])


@pytest.mark.parametrize("name", [DEADLINE_MS, STAINLESS_READ_TIMEOUT, RETRIES_LEFT])
def test_who_tells_of_time_or_of_what_is_left_reports_no_resend(name: str) -> None:
    assert ChainBudget({name: "2"}).spent == 0


def test_what_is_not_said_to_be_good_has_failed() -> None:
    assert dict(ChainBudget({}).headers_out(Delivery.UNKNOWN, sends=1))["x-should-retry"] == "false"


def test_the_longest_number_is_read_and_a_longer_one_is_not() -> None:
    longest = next(n for n in range(1, 40) if ChainBudget({STAINLESS_RETRY_COUNT: "1" * (n + 1)}).ignored)
    assert ChainBudget({STAINLESS_RETRY_COUNT: "1" * longest}).spent == int("1" * longest)
    (why,) = ChainBudget({STAINLESS_RETRY_COUNT: "1" * (longest + 1)}).ignored.values()
    assert why.endswith(f"is not a whole number of at most {longest} digits")


def test_a_long_header_is_told_by_its_beginning() -> None:
    for value in ("max=" + "9" * 100, "x" * 100):
        assert ChainBudget({AMZ_SDK_REQUEST: value}).ignored == {
            AMZ_SDK_REQUEST: f"{value[:40]!r} has no attempt=N",
        }
    assert ChainBudget({ENVOY_ATTEMPT_COUNT: "x" * 100}).ignored[ENVOY_ATTEMPT_COUNT].startswith(f"'{'x' * 40}' is not")


def test_a_pair_is_a_key_and_all_that_follows_its_first_sign() -> None:
    (why,) = ChainBudget({AMZ_SDK_REQUEST: "attempt=1=2"}).ignored.values()
    assert why.startswith("'1=2' is not a whole number")


def test_a_fraction_of_a_second_has_as_many_digits_as_it_likes() -> None:
    quarter, longer = (ChainBudget({STAINLESS_READ_TIMEOUT: text}).within_s for text in ("100.25", "100.250"))
    assert quarter == longer == pytest.approx(100.25 - 0.25)
