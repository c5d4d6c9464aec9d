"""The bytes of clients' bodies that the router holds, all requests together, and the bound on them.

Laws
1. What is declared is reserved before it comes, what is not declared is counted as it comes; the sum never passes the
   bound.
2. Each request has one hold, and gives it back once: as soon as its body is written to a pool, at the latest when the
   request ends, however it ends.
"""

from router.core.refusal import Code
from router.refused import Refused


class BufferedBytes:
    """All bytes held now. `bytes_max` bounds them."""

    __slots__ = ("bytes_max", "held")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0

    def open(self) -> "Hold":
        """Return the hold of one more request; it holds nothing yet."""
        return Hold(self)

    def __repr__(self) -> str:
        return f"<BufferedBytes {self.held} of {self.bytes_max}>"


class Hold:
    """What one request's body holds."""

    __slots__ = ("_all", "size")

    def __init__(self, all_held: BufferedBytes) -> None:
        self._all = all_held
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Hold `size` bytes from now on, if that is more than before. Raises Refused."""
        more = size - self.size
        if more <= 0:
            return
        if self._all.held + more > self._all.bytes_max:
            raise Refused(
                Code.ROUTER_OVERLOADED,
                f"The router is full: the bodies of all requests together may have {self._all.bytes_max} bytes."
                " The request was not sent.",
            )
        self._all.held += more
        self.size = size

    def release(self) -> None:
        """Give everything back; doing so again does no harm."""
        self._all.held -= self.size
        self.size = 0
