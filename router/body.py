"""A request's body, and the slot it waits in until a send takes it.

Laws
1. The body is in the slot until a send takes it; it is taken once, whatever anybody decides later.
2. A send takes it only when its connection stands, name lookup and TLS included, and nothing of the request leaves
   before. So a slot that is still full proves that no pool had the request.
3. What was taken is freed as soon as it is written.
"""

from collections.abc import Callable


class BodySlot:
    """Holds one body until it is taken; `on_written` is called once nobody holds its bytes any more."""

    __slots__ = ("_body", "_on_written", "size")

    def __init__(self, body: bytes, on_written: Callable[[], None] | None = None) -> None:
        self._body: bytes | None = body
        self._on_written = on_written
        self.size = len(body)

    @property
    def full(self) -> bool:
        """Tell whether nobody has taken the body yet."""
        return self._body is not None

    def take(self) -> bytes:
        """Take the body out. Raises RuntimeError when it is gone."""
        body, self._body = self._body, None
        if body is None:
            raise RuntimeError("the body has been handed over already")
        return body

    def written(self) -> None:
        """Take in that what was taken has been written whole: nobody holds its bytes any more."""
        if self._on_written is not None:
            self._on_written()

    def __repr__(self) -> str:
        return f"<BodySlot {'full' if self.full else 'taken'}, {self.size} bytes>"
