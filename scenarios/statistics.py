"""What replications of a model say: intervals of means, shares and differences, and when there are enough of them.

Laws
1. The replication is the unit: requests of one run depend on each other, so an interval over them covers far less than
   it says (8.5 % instead of 95 % at a utilisation of .9).
2. Replication k draws from the seed sequence (master, spawn key k): the same numbers whatever runs beside it, and the
   same ones in every configuration that is compared (common random numbers), so differences are taken pair by pair.
3. A mean over runs of different classes says nothing of any of them: such a mixture is told class by class, with the
   share of runs that collapsed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

LEVEL = 0.95
REPLICATIONS_MIN = 10
"""Fewer say nothing about their own spread."""
REPLICATIONS_MAX = 200
"""Where sequential stopping gives up, whatever the intervals."""
HALF_WIDTH_MAX = 0.05
"""Half-width of an interval, as a share of its mean, at which there are enough replications."""
HALF_WIDTH_FLOOR = 0.005
"""Half-width that is always narrow enough: a share that is almost 0 has no relative width."""
SHARE_HALF_WIDTH_MAX = 0.1
"""Half-width at which a share of runs is known well enough."""

_STEPS = 200
"""Bisections of a quantile: more than a double can tell apart."""


def replication_seed(master: int, replication: int) -> int:
    """Return the seed of one replication (law 2); the first one's is the master itself."""
    if replication == 0:
        return master
    return int(np.random.SeedSequence(master, spawn_key=(replication,)).generate_state(1, np.uint64)[0] >> 1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean of replications and the half-width of its interval; infinite where one replication tells no spread."""

    mean: float
    half_width: float
    count: int

    @property
    def low(self) -> float:
        """Return the lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Return the upper end."""
        return self.mean + self.half_width

    @property
    def narrow(self) -> bool:
        """Whether it is narrow enough for sequential stopping."""
        return self.half_width <= max(HALF_WIDTH_MAX * abs(self.mean), HALF_WIDTH_FLOOR)


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return Student's interval of the mean of independent replications."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, math.inf, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Interval(mean, t_quantile(0.5 + level / 2, count - 1) * math.sqrt(variance / count), count)


def paired_interval(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the interval of the mean difference, ours - theirs, replication by replication (law 2)."""
    return mean_interval([a - b for a, b in zip(ours, theirs, strict=True)], level)


def wilson(hits: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's interval of a share (E. B. Wilson, 1927): it is right near 0 and 1 too."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, weight = hits / count, z * z / count
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    # Exactly so at the ends, where rounding would leave 3e-17.
    return (middle - half if hits else 0.0), (middle + half if hits < count else 1.0)


def by_class(classes: Sequence[str], values: Sequence[float]) -> dict[str, list[float]]:
    """Return values by the class of their run (law 3), the commonest class first."""
    found: dict[str, list[float]] = {}
    for run_class, value in zip(classes, values, strict=True):
        found.setdefault(run_class, []).append(value)
    return dict(sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0])))


def enough(classes: Sequence[str], values: Mapping[str, Sequence[float]], collapsed: Iterable[str]) -> bool:
    """Tell whether there are enough replications: every measure is known to 5 % within each class that occurs.

    If some runs collapsed and others did not, their share must be known well enough too.
    """
    count = len(classes)
    if count < REPLICATIONS_MIN:
        return False
    bad = set(collapsed)
    hits = sum(run_class in bad for run_class in classes)
    low, high = wilson(hits, count)
    if 0 < hits < count and (high - low) / 2 > SHARE_HALF_WIDTH_MAX:
        return False
    groups = [group for measured in values.values() for group in by_class(classes, measured).values()]
    return all(mean_interval(group).narrow for group in groups if len(group) > 1)


def t_quantile(probability: float, freedom: int) -> float:
    """Return a quantile of Student's distribution, for a whole number of degrees of freedom.

    The distribution in closed form is Abramowitz and Stegun 26.7.3 and 26.7.4; it is turned round by bisection.
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < probability:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_below(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _t_below(t: float, freedom: int) -> float:
    """Return the probability of a value below t, t not negative."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    between = 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total
    return 0.5 + between / 2
