"""The one source of time that decisions may ask."""

from typing import Protocol


class Clock(Protocol):
    """Time handed in from outside: the event loop's, the model's or a test's."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start, never going back; every duration is measured with it."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch; for stamps that people read, never for a duration."""
        ...
