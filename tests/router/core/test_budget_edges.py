"""Edges of the retry budgets: exactly at their bounds, and a complaint that names the knob."""

import random

import pytest

from router.core.budgets.adaptive import Adaptive, AdaptiveKnobs
from router.core.budgets.aws import AwsKnobs
from router.core.budgets.envoy import Envoy, EnvoyKnobs
from router.core.budgets.kinds import budget_of
from router.core.budgets.retry_budget import BudgetError, Call, Ending
from router.core.budgets.sliding import SlidingSum
from router.core.budgets.token_bucket import TokenBucketKnobs


class Lowest:
    """A source of chance that draws the lowest number there is."""

    def random(self) -> float:
        return 0.0


def test_a_call_that_begins_has_made_no_retry_and_paid_nothing() -> None:
    call = Call()
    assert (call.retries, call.paid, call.ending) == (0, 0, Ending.SUCCESS)


def test_where_nothing_was_refused_yet_no_draw_refuses() -> None:
    assert Adaptive(AdaptiveKnobs(), Lowest()).try_withdraw(Call(), 0.0)


def test_a_budget_that_needs_chance_has_the_source_it_was_given() -> None:
    budget = budget_of("adaptive", random.Random(1))
    assert budget is not None
    for _ in range(20):
        budget.deposit(Call(), 0.0)
    assert {budget.try_withdraw(Call(), 0.0) for _ in range(200)} == {True, False}


def test_the_prices_of_2026() -> None:
    assert AwsKnobs.of_2026() == AwsKnobs(retry_cost=14, timeout_cost=14, throttling_cost=5)
    assert AwsKnobs.of_2026() != AwsKnobs()


def test_the_retries_of_a_call_are_counted() -> None:
    budget, call = Envoy(EnvoyKnobs()), Call()
    budget.deposit(call, 0.0)
    for retries in (1, 2):
        budget.ended(call, Ending.FAILURE, 0.0)
        assert budget.try_withdraw(call, 0.0)
        assert call.retries == retries


def test_a_slice_is_told_by_its_time_and_not_by_its_sum() -> None:
    recent = SlidingSum(10.0)
    recent.add(5, 4.0)
    recent.add(1, 5.0)
    assert recent.sum(13.9) == 6
    assert recent.sum(14.0) == 1


@pytest.mark.parametrize(
    "knobs", [{"tokens_max": 1.0}, {"tokens_max": 5.0, "tokens_start": 5.0}, {"ratio": 0.0}], ids=str
)
def test_a_bound_itself_is_accepted(knobs: dict[str, float]) -> None:
    accepted = TokenBucketKnobs(**knobs)  # type: ignore[arg-type]  # the other knob is no number
    assert {name: getattr(accepted, name) for name in knobs} == knobs


@pytest.mark.parametrize(
    ("description", "knob"),
    [
        ("token_bucket:ratio=-1", "ratio"),
        ("token_bucket:tokens_max=-1", "tokens_max"),
        ("token_bucket:tokens_start=-1", "tokens_start"),
        ("grpc:max_tokens=-1", "max_tokens"),
        ("grpc:token_ratio=-1", "token_ratio"),
        ("envoy:budget_percent=inf", "budget_percent"),
        ("adaptive:k=inf", "k"),
    ],
)
def test_a_complaint_begins_with_the_knob(description: str, knob: str) -> None:
    with pytest.raises(BudgetError, match=f"^{knob} must be"):
        budget_of(description, random.Random(1))
