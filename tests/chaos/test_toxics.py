"""No toxic that harms the server, or that it would silently change, can be made."""

from typing import Any

import pytest

from chaos.toxics import Toxic, ToxicError


def test_equal_toxics_are_equal_and_cannot_be_changed() -> None:
    attributes = {"rate": 3}
    toxic = Toxic("bandwidth", attributes)
    attributes["rate"] = 4
    assert toxic == Toxic("bandwidth", {"rate": 3}, "downstream", "bandwidth_downstream", 1)
    with pytest.raises(TypeError, match="does not support item assignment"):
        toxic.attributes["rate"] = 5  # type: ignore[index]  # that it cannot be done is the point


@pytest.mark.parametrize(
    ("kind", "attributes", "reason"),
    [
        ("bandwidth", {"rate": -1}, "bandwidth: rate is -1; use 0 to 10000000"),
        ("bandwidth", {"rate": 1.5}, "rate is 1.5; use a whole number"),
        ("bandwidth", {"rate": True}, "rate is True; use a whole number"),
        ("bandwidth", {}, r"attributes are \[\]; use \['rate'\]"),
        ("bandwidth", {"rate": 1, "burst": 2}, r"attributes are \['burst', 'rate'\]; use \['rate'\]"),
        ("slicer", {"average_size": 0, "size_variation": 0, "delay": 0}, "average_size is 0; use 1 to"),
        ("slicer", {"average_size": 5, "size_variation": 5, "delay": 0}, "size_variation must be less than"),
        ("latency", {"latency": 1, "jitter": 1}, "jitter is 1; use 0 to 0"),
        ("limit_data", {"bytes": 2**40}, "bytes is 1099511627776; use 0 to 1099511627775"),
        ("timeout", {"timeout": 3_600_001}, "timeout is 3600001; use 0 to 3600000"),
        ("jam", {}, "no such type; there are latency, bandwidth, slow_close, timeout, reset_peer, slicer, limit_data"),
    ],
)
def test_bad_attributes_are_refused(kind: str, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ToxicError, match=reason) as caught:
        Toxic(kind, attributes)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("field", "value"), [("stream", "sideways"), ("toxicity", 0.5)])
def test_bad_fields_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ToxicError, match=f"{field} is "):
        Toxic("limit_data", {"bytes": 1}, **{field: value})
