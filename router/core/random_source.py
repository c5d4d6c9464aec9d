"""The one source of chance that decisions may ask."""

from typing import Protocol


class RandomSource(Protocol):
    """Chance handed in from outside, seeded where a run must repeat; `random.Random` is one."""

    def random(self) -> float:
        """Return a number from 0 up to, but not including, 1."""
        ...
