"""How many attempts one operation becomes.

Laws
1. Nested layers telescope: with n attempts in all layers together, E[attempts] = (1 - p^n) / (1 - p), n the product of
   (retries + 1) over the layers. Attempts end at the first success, wherever in the nest it happens.
2. A cap of k re-sends over the whole chain makes n = min(product, k + 1).
"""

import math
from collections.abc import Iterable


def attempts_product(retries: Iterable[int]) -> int:
    """Return the most attempts of one operation below layers with so many retries each (law 1)."""
    return math.prod(count + 1 for count in retries)


def capped(attempts_max: int, resends_max: int | None) -> int:
    """Return the most attempts under a cap of re-sends over the whole chain (law 2); None: no cap."""
    return attempts_max if resends_max is None else min(attempts_max, resends_max + 1)


def expected_attempts(failure_p: float, attempts_max: float) -> float:
    """Return the mean attempts of one operation, each failing with chance p on its own (laws 1 and 2)."""
    if failure_p >= 1:
        return float(attempts_max)
    return float((1 - failure_p**attempts_max) / (1 - failure_p))


def expected_success(failure_p: float, attempts_max: float) -> float:
    """Return the share of operations of which one attempt succeeds."""
    return 1.0 - float(failure_p**attempts_max)
