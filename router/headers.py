"""Which headers pass through a proxy, and how they are framed (RFC 9110, 7.6.1)."""

import re
from collections.abc import Mapping

from multidict import CIMultiDict, MultiMapping

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
LOOP = "The request has been here before: a pool's URL leads back to the router."

_PLAIN = re.compile(r"[!-~]{1,256}")

_NOT_TO_POOL = HOP_BY_HOP | {"content-length", "expect", "host"}


def for_pool(headers: Mapping[str, str], *, body_bytes: int, via: str) -> CIMultiDict[str]:
    """Return a client's headers as a pool gets them: end-to-end ones, and one framing header of our own."""
    passed = end_to_end(headers, _NOT_TO_POOL)
    if OWN_PREFIX in "\n".join(passed).lower():
        for name in {name.lower() for name in passed}:
            if name.startswith(OWN_PREFIX) and name != OPERATION_ID:
                del passed[name]
    passed["Content-Length"] = str(body_bytes)
    passed.add("Via", via)
    return passed


def end_to_end(headers: Mapping[str, str], dropped: frozenset[str]) -> CIMultiDict[str]:
    """Return the headers without those `dropped` (in lower case) and those that Connection names.

    An underscore counts as a dash: some servers take `Transfer_Encoding` for the real one.
    """
    passed = CIMultiDict(headers)  # in one piece; looking at every header costs five times as much
    if "connection" in passed:
        named = ",".join(passed.getall("connection")).split(",")
        dropped = dropped.union(token.strip().lower() for token in named)
    for name in dropped:
        if name in passed:
            del passed[name]
    if "_" in "".join(passed):
        for name in {name.lower() for name in passed}:
            if name.replace("_", "-") in dropped:
                del passed[name]
    return passed


def has_passed(headers: MultiMapping[str], via: str) -> bool:
    """Tell whether a request has passed the router of this name before, by any Via of it."""
    return any(via in value for value in headers.getall("Via", ()))


def plain(headers: Mapping[str, str], name: str) -> str | None:
    """Return an id that can be logged and answered with as it is; None: there is none, or it is long or odd."""
    value = headers.get(name)
    return value if value is not None and _PLAIN.fullmatch(value) else None


def unsendable(headers: Mapping[str, str]) -> str | None:
    """Return the name of a header whose value is not UTF-8; None: all are."""
    if "".join(headers.values()).isascii():
        return None
    return next((name for name, value in headers.items() if not _is_utf_8(value)), None)


def _is_utf_8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
