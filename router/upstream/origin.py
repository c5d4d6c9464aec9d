"""Where a frontend is, as its URL says it, and the first line and headers of a request to it."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

ORIGINS_MAX = 4096
"""So many URLs are kept in their parts."""


class Origin(NamedTuple):
    """The parts of a frontend's URL; `path` is what stands before every target."""

    secure: bool
    host: str
    port: int
    authority: str
    path: str


@lru_cache(maxsize=ORIGINS_MAX)
def origin_of(url: str) -> Origin:
    """Take a URL apart."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return Origin(secure, parts.hostname or "", parts.port or (443 if secure else 80), parts.netloc, parts.path)


def request_head(method: str, origin: Origin, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a request up to its body; `headers` have its framing. Raises ValueError if a header holds a line break.

    What is not ASCII goes out in the bytes in which it came in.
    """
    lines = [f"{method} {origin.path}{target} HTTP/1.1\r\nHost: {origin.authority}", *map(": ".join, headers), "\r\n"]
    head = "\r\n".join(lines).encode("utf-8", "surrogateescape")
    if head.count(b"\n") != len(lines) + 1:  # whoever made such a header could add a request of their own
        raise ValueError("a header holds a line break")
    return head
