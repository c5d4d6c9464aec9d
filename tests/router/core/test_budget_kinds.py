"""Budgets as they are described in one line, and what the end of a send means to them."""

import random

import pytest

from router.core.budgets.adaptive import Adaptive
from router.core.budgets.aws import Aws
from router.core.budgets.envoy import Envoy
from router.core.budgets.fixed import Fixed
from router.core.budgets.gateway_api import GatewayApi
from router.core.budgets.grpc import Grpc
from router.core.budgets.kinds import KINDS, budget_of, knobs_of
from router.core.budgets.retry_budget import BudgetError, Call, Ending, ending_of
from router.core.budgets.token_bucket import TokenBucket
from router.core.budgets.window import Window, WindowKnobs
from router.core.delivery import Cause, Outcome
from tests.router.core.playbook import REFUSED, answered, unknown, unsent

RNG = random.Random(1)


@pytest.mark.parametrize(
    ("description", "kind", "balance"),
    [
        ("fixed", Fixed, 2),
        ("fixed:max_retries=5", Fixed, 5),
        ("token_bucket", TokenBucket, 0),
        ("token_bucket:deposit_on=success, tokens_start=3.5", TokenBucket, 3.5),
        ("window", Window, 100),
        ("window:ttl_s=2,min_retries_per_second=1.5", Window, 3),
        ("envoy", Envoy, 3),
        ("grpc:max_tokens=20", Grpc, 20),
        ("aws", Aws, 500),
        ("aws-2026:quota=100", Aws, 100),
        ("adaptive", Adaptive, 1),
        ("gateway_api:percent=0,min_retry_rate_count=7", GatewayApi, 7),
    ],
)
def test_a_description_makes_a_budget(description: str, kind: type, balance: float) -> None:
    budget = budget_of(description, RNG)
    assert budget is not None
    assert type(budget) is kind
    assert budget.balance(0.0) == balance


def test_the_knobs_of_a_description_can_be_asked_for() -> None:
    assert knobs_of("window:ttl_s=5") == WindowKnobs(ttl_s=5.0)
    assert knobs_of("none") is None


def test_no_budget_is_a_kind_too() -> None:
    assert budget_of("none", RNG) is None


def test_all_kinds_can_be_had_by_name() -> None:
    assert [kind for kind in KINDS if budget_of(kind, RNG) is None] == ["none"]


def test_a_price_of_2026_is_dearer() -> None:
    balances = {}
    for kind in ("aws", "aws-2026"):
        budget, call = budget_of(kind, RNG), Call()
        assert budget is not None
        budget.deposit(call, 0.0)
        for ending in (Ending.TIMEOUT, Ending.THROTTLED):
            budget.ended(call, ending, 0.0)
            assert budget.try_withdraw(call, 0.0)
        balances[kind] = budget.balance(0.0)
    assert balances == {"aws": 485, "aws-2026": 481}


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ("", r"'' is no budget; remedy: one of none, fixed, token_bucket"),
        ("none:x=1", "is no budget"),
        ("windows", "'windows' is no budget"),
        ("window:ttl=1", "window has no knob 'ttl'; remedy: one of retry_ratio, min_retries_per_second, ttl_s"),
        ("window:ttl_s", "ttl_s must be of type float, got ''"),
        ("window:ttl_s=soon", "ttl_s must be of type float, got 'soon'"),
        ("window:ttl_s=0", "ttl_s must be a positive number of seconds, got 0.0"),
        ("window:retry_ratio=0.0005", r"retry_ratio must be 0 or more in steps of 0.001, got 0.0005"),
        ("window:retry_ratio=inf", "retry_ratio must be 0 or more"),
        ("window:retry_ratio=-1", "retry_ratio must be 0 or more"),
        ("window:min_retries_per_second=nan", "min_retries_per_second must be 0 or more"),
        ("fixed:max_retries=1.5", "max_retries must be of type int"),
        ("fixed:max_retries=-1", "max_retries must be at least 0 and finite, got -1"),
        ("token_bucket:deposit_on=day", "deposit_on must be one of call, success, got 'day'"),
        ("token_bucket:tokens_max=0.5", "tokens_max must be at least 1, or no retry is ever made, got 0.5"),
        ("token_bucket:tokens_start=101", r"tokens_start must be at most tokens_max \(100\)"),
        ("envoy:budget_percent=-1", "budget_percent must be at least 0"),
        ("envoy:min_retry_concurrency=-1", "min_retry_concurrency must be at least 0"),
        ("grpc:max_tokens=0", "max_tokens must be above 0"),
        ("grpc:token_ratio=0", "token_ratio must be above 0"),
        ("aws:retry_cost=0", "retry_cost must be at least 1"),
        ("aws:no_retry_increment=-1", "no_retry_increment must be at least 0"),
        ("adaptive:k=0.9", "k must be at least 1 and finite, got 0.9"),
        ("adaptive:window_s=inf", "window_s must be a positive number of seconds, got inf"),
        ("gateway_api:percent=-1", "percent must be at least 0"),
        ("gateway_api:interval_s=0", "interval_s must be a positive number of seconds"),
        ("gateway_api:min_retry_rate_count=-1", "min_retry_rate_count must be at least 0"),
        ("gateway_api:min_retry_rate_interval_s=0", "min_retry_rate_interval_s must be a positive"),
    ],
)
def test_a_wrong_description_is_refused_with_the_knob(description: str, complaint: str) -> None:
    with pytest.raises(BudgetError, match=complaint):
        budget_of(description, RNG)


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (answered(200), Ending.SUCCESS),
        (answered(404), Ending.SUCCESS),
        (answered(499), Ending.SUCCESS),
        (answered(500), Ending.FAILURE),
        (answered(429), Ending.THROTTLED),
        (answered(503), Ending.THROTTLED),
        (answered(529), Ending.THROTTLED),
        (REFUSED, Ending.FAILURE),
        (unsent(Cause.CONNECT_TIMEOUT), Ending.TIMEOUT),
        (unknown(Cause.FIRST_BYTE_TIMEOUT), Ending.TIMEOUT),
        (unknown(Cause.LOST), Ending.FAILURE),
        (unknown(Cause.CLIENT_LEFT), Ending.LEFT),
        (None, Ending.LEFT),
    ],
)
def test_what_the_end_of_a_send_means(outcome: Outcome | None, ending: Ending) -> None:
    assert ending_of(outcome) is ending
