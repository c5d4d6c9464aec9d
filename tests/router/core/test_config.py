"""Knobs with impossible values are refused with their name."""

import pytest

from router.core.config import ConfigError, RouterConfig


@pytest.mark.parametrize("knob", ["connect_timeout_s", "deadline_s", "idle_timeout_s", "patience_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_must_be_positive_and_finite(knob: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{knob} must be a positive number of seconds"):
        RouterConfig(**{knob: value})
