"""One reason why a scenario cannot be run or judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Which key, what is wrong with it, and what to do."""

    key: str
    what: str
    remedy: str
