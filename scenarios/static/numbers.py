"""Numbers as people read them: three digits, with their unit."""

import math


def count(value: float) -> str:
    """Write a count or a rate."""
    return "no bound" if math.isinf(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Write a duration."""
    if math.isinf(value):
        return "without end"
    return f"{value:,.0f} s" if value >= 100 else f"{value:.4g} s"


def percent(share: float) -> str:
    """Write a share."""
    return "no bound" if math.isinf(share) else f"{share * 100:.3g} %"
