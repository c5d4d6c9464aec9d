"""The budget of a whole chain: what the layers above have spent, and what they are told."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.chain import READ, ChainBudget, WhenUnknown
from router.core.config import RouterConfig
from router.core.delivery import Delivery
from tests.router.core.playbook import policy_of


def chain(**headers: str) -> ChainBudget:
    """Read headers, written with underscores."""
    return ChainBudget({name.replace("_", "-"): value for name, value in headers.items()})


def told(budget: ChainBudget, delivery: Delivery, *, sends: int = 1, failed: bool = True) -> dict[str, str]:
    return dict(budget.headers_out(delivery, sends=sends, failed=failed))


@pytest.mark.parametrize(
    ("headers", "spent", "left"),
    [
        ({}, 0, 2),
        ({"x_stainless_retry_count": "0"}, 0, 2),
        ({"x_stainless_retry_count": "1"}, 1, 1),
        ({"x_stainless_retry_count": "2"}, 2, 0),
        ({"x_stainless_retry_count": "7"}, 7, 0),
        ({"x_envoy_attempt_count": "1"}, 0, 2),
        ({"x_envoy_attempt_count": "2"}, 1, 1),
        ({"grpc_previous_rpc_attempts": "1"}, 1, 1),
        ({"amz_sdk_request": "attempt=1"}, 0, 2),
        ({"amz_sdk_request": "ttl=20300101T000000Z; attempt=2; max=3"}, 1, 1),
        ({"amz_sdk_request": "attempt=2; max=2"}, 1, 0),
        ({"amz_sdk_request": "ATTEMPT=1;MAX=2"}, 0, 1),
        ({"amz_sdk_request": "attempt=3; max=2"}, 2, 0),
        ({"x_pooldrill_retries_left": "1"}, 0, 1),
        ({"x_pooldrill_retries_left": "0"}, 0, 0),
        ({"x_pooldrill_retries_left": "9"}, 0, 2),
        ({"x_pooldrill_retries_left": " 1 "}, 0, 1),
        ({"x_pooldrill_retries_left": "2", "x_stainless_retry_count": "1"}, 1, 1),
        ({"x_stainless_retry_count": "1", "x_envoy_attempt_count": "2"}, 2, 0),
        ({"x_stainless_retry_count": "1", "grpc_previous_rpc_attempts": "0", "x_envoy_attempt_count": "1"}, 1, 1),
    ],
)
def test_every_resend_that_is_reported_counts_one(headers: dict[str, str], spent: int, left: int) -> None:
    budget = chain(**headers)
    assert (budget.spent, budget.left) == (spent, left)
    assert not budget.ignored


@pytest.mark.parametrize(
    ("headers", "within_s"),
    [
        ({}, float("inf")),
        ({"x_pooldrill_deadline_ms": "1500"}, 1.5),
        ({"x_stainless_read_timeout": "600"}, 599.75),
        ({"x_stainless_read_timeout": "600.0"}, 599.75),
        ({"x_stainless_read_timeout": "0.5"}, 0.475),
        ({"x_stainless_read_timeout": "2.", "x_pooldrill_deadline_ms": "3000"}, 1.9),
        ({"x_stainless_read_timeout": "4.0", "x_pooldrill_deadline_ms": "3000"}, 3.0),
    ],
)
def test_the_shortest_time_that_anybody_waits_counts(headers: dict[str, str], within_s: float) -> None:
    assert chain(**headers).within_s == within_s


GARBAGE = ("", " ", "-1", "+1", "1.5.", "1e3", "one", "\u0661", "1,2", "0x1", "1_0", "9" * 16, "nan", "inf")


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("value", GARBAGE)
def test_garbage_changes_nothing_and_is_named(name: str, value: str) -> None:
    budget = ChainBudget({name: value})
    assert (budget.spent, budget.left, budget.within_s) == (0, 2, float("inf"))
    assert list(budget.ignored) == [name]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"x_envoy_attempt_count": "0"}, "attempts count from 1"),
        ({"amz_sdk_request": "max=3"}, "'max=3' has no attempt=N"),
        ({"amz_sdk_request": "attempt=0"}, "attempts count from 1"),
        ({"amz_sdk_request": "attempt=1; max=many"}, "'many' is not a whole number of at most 15 digits"),
        ({"amz_sdk_request": "attempt=1; max=0"}, "attempts count from 1"),
        ({"x_stainless_retry_count": "x" * 100}, f"{'x' * 40!r} is not a whole number of at most 15 digits"),
        ({"x_stainless_read_timeout": "1.x"}, "'x' is not a whole number of at most 15 digits"),
    ],
)
def test_it_is_said_why_a_header_is_ignored(headers: dict[str, str], why: str) -> None:
    assert list(chain(**headers).ignored.values()) == [why]


def test_what_can_be_read_counts_beside_garbage() -> None:
    budget = chain(x_stainless_retry_count="1", x_envoy_attempt_count="soon")
    assert (budget.spent, budget.left, list(budget.ignored)) == (1, 1, ["x-envoy-attempt-count"])


VALUES = (*GARBAGE, "0", "1", "2", "7", "attempt=1", "attempt=2; max=2", "attempt=5;max=9", "attempt=-1", "0.25")


@given(st.dictionaries(st.sampled_from(READ), st.sampled_from(VALUES)))
def test_headers_can_only_lower_what_is_left(headers: dict[str, str]) -> None:
    budget = ChainBudget(headers)
    assert 0 <= budget.left <= 2
    assert budget.spent >= 0
    assert budget.within_s >= 0
    for name in headers:
        fewer = ChainBudget({other: value for other, value in headers.items() if other != name})
        assert budget.left <= fewer.left
        assert budget.within_s <= fewer.within_s


@given(st.dictionaries(st.sampled_from(READ), st.integers(0, 5).map(str)), st.integers(0, 5))
def test_the_cap_is_a_cap(headers: dict[str, str], retries_max: int) -> None:
    assert ChainBudget(headers, retries_max=retries_max).left <= max(0, retries_max - ChainBudget(headers).spent)


# ---- what we spend ourselves


def test_a_failover_is_free_by_default() -> None:
    spent_chain = ChainBudget({"x-stainless-retry-count": "2"})
    assert spent_chain.failovers_left == 1
    assert ChainBudget({}).left_after(2) == 2


def test_where_a_failover_spends_it_needs_something_left() -> None:
    assert ChainBudget({"x-stainless-retry-count": "2"}, failover_spends=True).failovers_left == 0
    budget = ChainBudget({"x-stainless-retry-count": "1"}, failover_spends=True)
    assert budget.failovers_left == 1
    assert [budget.left_after(sends) for sends in (0, 1, 2)] == [1, 1, 0]
    assert ChainBudget({}, retries_max=0, failover_spends=True).left_after(2) == 0


# ---- what the layers above are told


@pytest.mark.parametrize("delivery", [Delivery.UNSENT, Delivery.ANSWERED])
def test_a_retry_is_left_to_the_client_where_nothing_runs(delivery: Delivery) -> None:
    assert told(ChainBudget({}), delivery) == {"x-pooldrill-retries-left": "2"}


def test_no_retry_where_a_pool_may_be_running_it() -> None:
    assert told(ChainBudget({}), Delivery.UNKNOWN) == {"x-pooldrill-retries-left": "2", "x-should-retry": "false"}


def test_it_can_be_left_to_the_client_while_the_chain_has_retries() -> None:
    lenient = ChainBudget({}, when_unknown=WhenUnknown.LEAVE_TO_CLIENT)
    assert told(lenient, Delivery.UNKNOWN) == {"x-pooldrill-retries-left": "2"}
    spent = ChainBudget({"x-stainless-retry-count": "2"}, when_unknown=WhenUnknown.LEAVE_TO_CLIENT)
    assert told(spent, Delivery.UNKNOWN) == {"x-pooldrill-retries-left": "0", "x-should-retry": "false"}


@pytest.mark.parametrize("delivery", Delivery)
def test_no_retry_where_the_chain_is_spent(delivery: Delivery) -> None:
    spent = ChainBudget({"x-stainless-retry-count": "2"})
    assert told(spent, delivery) == {"x-pooldrill-retries-left": "0", "x-should-retry": "false"}
    assert told(spent, delivery, failed=False) == {"x-pooldrill-retries-left": "0"}


def test_a_failover_that_spends_the_last_retry_is_told() -> None:
    budget = ChainBudget({}, retries_max=1, failover_spends=True)
    assert told(budget, Delivery.UNSENT, sends=1) == {"x-pooldrill-retries-left": "1"}
    assert told(budget, Delivery.UNSENT, sends=2) == {"x-pooldrill-retries-left": "0", "x-should-retry": "false"}


@pytest.mark.parametrize(
    ("headers", "deadline_s", "hurries"),
    [
        ({}, 600.0, False),
        ({"x_stainless_read_timeout": "600"}, 600.0, False),
        ({"x_stainless_read_timeout": "599"}, 600.0, True),
        ({"x_stainless_read_timeout": "601"}, 600.0, False),
        ({"x_pooldrill_deadline_ms": "600000"}, 600.0, False),
        ({"x_pooldrill_deadline_ms": "599999"}, 600.0, True),
        ({"x_stainless_read_timeout": "600", "x_pooldrill_deadline_ms": "1"}, 600.0, True),
    ],
)
def test_a_client_that_waits_as_long_as_the_router_is_in_no_hurry(
    headers: dict[str, str], deadline_s: float, hurries: bool
) -> None:
    """A stock SDK says 600 s, the router's own deadline: the margin by which it is answered earlier is no hurry."""
    assert chain(**headers).hurries(deadline_s) is hurries


def test_a_router_reads_the_chain_by_its_own_knobs_and_counts_what_it_cannot_read() -> None:
    config = RouterConfig(chain_retries_max=5, failover_spends=True, when_unknown=WhenUnknown.LEAVE_TO_CLIENT)
    policy = policy_of("a", config=config)
    budget = policy.chain_of({"x-stainless-retry-count": "1", "x-envoy-attempt-count": "one"})
    assert (budget.left, budget.failovers_left) == (4, 4)
    assert told(budget, Delivery.UNKNOWN, sends=2) == {"x-pooldrill-retries-left": "3"}
    assert policy.tally.headers_ignored == {"x-envoy-attempt-count": 1}


def test_it_shows_its_state() -> None:
    assert repr(chain(x_stainless_retry_count="1")) == "<ChainBudget spent=1 left=1>"


# ---- the law of the cap, through two layers that carry it


def sends_through(failing: float, dice: random.Random, retries_max: int = 2) -> tuple[int, bool]:
    """Make one call: an SDK with 3 retries over a gateway with 2 that both obey; returns sends and success."""
    sends, spent = 0, 0
    for sdk_retry in range(4):
        for gateway_retry in range(3):
            sends += 1
            headers = {"x-stainless-retry-count": str(spent), "x-envoy-attempt-count": str(gateway_retry + 1)}
            if dice.random() >= failing:
                return sends, True
            answer = told(ChainBudget(headers, retries_max=retries_max), Delivery.ANSWERED)
            if "x-should-retry" in answer:
                return sends, False
        spent += gateway_retry + 1
        assert sdk_retry < 3
    raise AssertionError("the chain was never spent")


@pytest.mark.parametrize(
    ("failing", "sends", "success"), [(0.1, 1.11, 0.999), (0.5, 1.75, 0.875), (0.9, 2.71, 0.271), (1.0, 3, 0)]
)
def test_a_cap_of_two_bounds_the_whole_chain(failing: float, sends: float, success: float) -> None:
    dice = random.Random(3)
    calls = [sends_through(failing, dice) for _ in range(200_000 if failing < 1 else 1000)]
    assert sum(count for count, _ in calls) / len(calls) == pytest.approx(sends, rel=0 if failing == 1 else 0.005)
    assert sum(well for _, well in calls) / len(calls) == pytest.approx(success, rel=0.005)
