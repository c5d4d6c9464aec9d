"""Knobs with impossible values are refused with their name."""

from dataclasses import fields
from typing import Any

import pytest

from router.core.config import ConfigError, RouterConfig

TIMES = [field.name for field in fields(RouterConfig) if field.name.endswith(("_s", "_s_max"))]
COUNTS = [field.name for field in fields(RouterConfig) if field.type is int]
MAY_BE_ZERO = [
    "chain_retries_max",
    "connect_slow_s",
    "first_byte_timeout_s",
    "total_timeout_s",
    "upload_timeout_s",
    "retry_after_spread_s",
    "slow_start_s",
    "queue_max",
    "queue_bytes_max",
]


def config(**knobs: Any) -> RouterConfig:
    """Build a configuration from knobs that may have any value."""
    return RouterConfig(**knobs)


@pytest.mark.parametrize("knob", TIMES)
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_must_be_positive_and_finite(knob: str, value: float) -> None:
    if value == 0.0 and knob in MAY_BE_ZERO:
        assert getattr(config(**{knob: value}), knob) == 0.0
        return
    with pytest.raises(ConfigError, match=f"{knob} must be a positive number of seconds"):
        config(**{knob: value})


@pytest.mark.parametrize("knob", COUNTS)
def test_a_count_must_not_be_negative(knob: str) -> None:
    least = 0 if knob in MAY_BE_ZERO else 1
    assert getattr(config(**{knob: least}), knob) == least
    with pytest.raises(ConfigError, match=f"{knob} must be at least {least}, got {least - 1}"):
        config(**{knob: least - 1})


@pytest.mark.parametrize("value", [0.0, -0.1, 1.1, 2, float("nan")])
def test_a_share_lies_between_nothing_and_all(value: float) -> None:
    with pytest.raises(ConfigError, match="cooldown_ratio must be a share above 0 and at most 1"):
        config(cooldown_ratio=value)


def test_a_budget_must_be_one_that_exists() -> None:
    with pytest.raises(ConfigError, match=r"^failover_budget: window has no knob 'ttl'; remedy: one of retry_ratio"):
        config(failover_budget="window:ttl=3")


def test_bounds_must_not_contradict_one_another() -> None:
    with pytest.raises(ConfigError, match=r"connect_slow_s must be at most connect_timeout_s \(1\), got 2"):
        config(connect_timeout_s=1.0, connect_slow_s=2.0)
    with pytest.raises(ConfigError, match=r"cooldown_s must be at most cooldown_s_max \(55\), got 61"):
        config(cooldown_s=61.0)


@pytest.mark.parametrize(
    ("knobs", "slow_s"),
    [
        ({}, 0.25),
        ({"connect_timeout_s": 1.0}, 0.05),
        ({"connect_timeout_s": 60.0}, 0.25),
        ({"connect_slow_s": 1.5}, 1.5),
    ],
)
def test_a_connect_is_slow_from_a_twentieth_of_its_time_on(knobs: dict[str, float], slow_s: float) -> None:
    assert config(**knobs).slow_s == slow_s


def test_no_default_asks_for_a_wait_that_stock_sdks_ignore() -> None:
    config = RouterConfig()
    assert config.cooldown_s_max + config.retry_after_spread_s <= 60.0
