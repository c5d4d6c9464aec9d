"""Which headers pass through a proxy, and how they are framed (RFC 9110, 7.6.1)."""

import re
from collections.abc import Mapping

from multidict import CIMultiDict

from router.core import chain

HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Said to the next hop only; each connection has its own."""
OWN_PREFIX = "x-pooldrill-"
REQUEST_ID = "x-request-id"
OPERATION_ID = "x-pooldrill-operation-id"
DELIVERY = "x-pooldrill-delivery"
POOL = "x-pooldrill-pool"
ATTEMPTS = "x-pooldrill-attempts"
DEADLINE_MS = chain.DEADLINE_MS

_PLAIN = re.compile(r"[!-~]{1,256}")

_NOT_TO_POOL = HOP_BY_HOP | {"content-length", "expect", "host"}


def for_pool(headers: Mapping[str, str], *, body_bytes: int, via: str) -> CIMultiDict[str]:
    """Return a client's headers as a pool gets them: end-to-end ones, and one framing header of our own."""
    passed = CIMultiDict(
        (name, value)
        for name, value in end_to_end(headers, _NOT_TO_POOL)
        if not name.lower().startswith(OWN_PREFIX) or name.lower() == OPERATION_ID
    )
    passed["Content-Length"] = str(body_bytes)
    passed.add("Via", via)
    return passed


def for_client(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return a pool's headers as the client gets them; Content-Length only if it is what frames the answer."""
    chunked = "transfer-encoding" in headers
    return CIMultiDict(
        (name, value)
        for name, value in end_to_end(headers, HOP_BY_HOP)
        if _can_be_sent(value) and not (chunked and name.lower() == "content-length")
    )


def end_to_end(headers: Mapping[str, str], dropped: frozenset[str]) -> list[tuple[str, str]]:
    """Return the headers without those `dropped` (in lower case) and those that Connection names.

    An underscore counts as a dash: some servers take `Transfer_Encoding` for the real one.
    """
    connection = headers.get("connection")
    if connection is not None:
        named = [value for name, value in headers.items() if name.lower() == "connection"]
        dropped = dropped.union(token.strip().lower() for value in named for token in value.split(","))
    return [(name, value) for name, value in headers.items() if name.lower().replace("_", "-") not in dropped]


def plain(headers: Mapping[str, str], name: str) -> str | None:
    """Return an id that can be logged and answered with as it is; None: there is none, or it is long or odd."""
    value = headers.get(name)
    return value if value is not None and _PLAIN.fullmatch(value) else None


def unsendable(headers: Mapping[str, str]) -> str | None:
    """Return the name of a header whose value is not UTF-8, which aiohttp reads but cannot write; None: all are."""
    return next((name for name, value in headers.items() if not _can_be_sent(value)), None)


def _can_be_sent(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
