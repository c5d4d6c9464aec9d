"""Random numbers by the million: endless iterators over numpy's draws, filled in blocks.

Laws
1. The numbers of a stream do not depend on the size of its blocks, nor on what other streams draw.
2. A stream is named by seed and purpose, as in streams.py; the two kinds of stream share nothing.

`next` on one of these costs about a third of a call of `random.Random`. The draws are those of the installed numpy:
its random streams may change between feature releases (NEP 19), so a record names the version.
"""

import hashlib
from collections.abc import Iterator
from itertools import repeat
from math import log, sqrt
from typing import Final

import numpy as np

BLOCK: Final = 4096


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the source of one purpose."""
    digest = hashlib.sha256(f"{seed}/{purpose}/blocks".encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big"))))


def uniform(draws: np.random.Generator, *, block: int = BLOCK) -> Iterator[float]:
    """Yield numbers from [0, 1)."""
    while True:
        yield from draws.random(block).tolist()


def exponential(draws: np.random.Generator, mean: float = 1.0, *, block: int = BLOCK) -> Iterator[float]:
    """Yield exponential numbers of this mean."""
    while True:
        yield from (draws.standard_exponential(block) * mean).tolist()


def gamma(draws: np.random.Generator, mean: float = 1.0, *, cv: float, block: int = BLOCK) -> Iterator[float]:
    """Yield gamma numbers of this mean and coefficient of variation: 1 is exponential, above is burstier."""
    shape = cv**-2.0
    while True:
        yield from (draws.standard_gamma(shape, block) * (mean / shape)).tolist()


def lognormal(draws: np.random.Generator, mean: float = 1.0, *, cv2: float, block: int = BLOCK) -> Iterator[float]:
    """Yield lognormal numbers of this mean and squared coefficient of variation; 0: every one is the mean."""
    if cv2 == 0:
        yield from constant(mean)
    mu, sigma = lognormal_parameters(mean, cv2)
    while True:
        yield from draws.lognormal(mu, sigma, block).tolist()


def constant(value: float) -> Iterator[float]:
    """Yield the same number for ever."""
    return repeat(value)


def lognormal_parameters(mean: float, cv2: float) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm."""
    variance = log(1.0 + cv2)
    return log(mean) - variance / 2.0, sqrt(variance)
