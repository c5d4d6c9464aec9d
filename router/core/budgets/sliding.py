"""A sum over the last seconds, kept in slices: what is older than the window drops out slice by slice."""

from collections import deque

SLICES = 10
"""Slices of a window, as in Finagle and tower."""


class SlidingSum:
    """Sum of whole numbers that were added within the last `window_s`, exact to one slice of it."""

    __slots__ = ("_slice_s", "_slices", "_sum")

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / SLICES
        self._slices: deque[tuple[int, int]] = deque()
        """(slice number, sum of that slice), oldest first."""
        self._sum = 0

    def add(self, amount: int, now: float) -> None:
        """Add to the slice of `now`."""
        number = int(now // self._slice_s)
        if self._slices and self._slices[-1][0] == number:
            amount_before = self._slices.pop()[1]
            self._slices.append((number, amount_before + amount))
        else:
            self._slices.append((number, amount))
        self._sum += amount
        self._expire(number)

    def sum(self, now: float) -> int:
        """Return the sum of the last slices, the present one included."""
        self._expire(int(now // self._slice_s))
        return self._sum

    def _expire(self, number: int) -> None:
        while self._slices and self._slices[0][0] <= number - SLICES:
            self._sum -= self._slices.popleft()[1]
