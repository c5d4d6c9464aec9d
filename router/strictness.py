"""What of a request's head aiohttp's parser lets pass (3.14.5, llhttp) and RFC 9112 does not.

Whoever stands before or behind the router may read such a head differently, and then sees other requests than the
router does. So it is refused, and the connection is closed.

| what | why |
| --- | --- |
| a version other than 1.0 and 1.1, or none | 2.0 and 0.9 are framed in other ways |
| Transfer-Encoding that is not `chunked` alone, beside Content-Length, or in HTTP/1.0 | 6.1, 6.3: its end is unclear |
| a target that is no path and no http URL, one with a user or a fragment; CONNECT | 3.2 |
| a Host that is none | 3.2: must be refused |
"""

import re

from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import RawRequestMessage

_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_URL = re.compile(r"https?://[^/?@]+(?:[/?]|$)", re.IGNORECASE)


def fault_of(message: RawRequestMessage) -> str | None:
    """Return what is wrong with a request's head, in words without anything of it; None: nothing is."""
    version, headers = message.version, message.headers
    if version not in (HttpVersion10, HttpVersion11):
        return "The version is neither HTTP/1.1 nor HTTP/1.0."
    if "Transfer-Encoding" in headers and not _is_chunked(message):
        return "Transfer-Encoding must be chunked and nothing else, without Content-Length, in HTTP/1.1."
    target = message.path
    if target[:1] != "/" and not _is_absolute(message):
        return "The request's target is neither a path nor an http URL."
    if "#" in target:
        return "The request's target has a fragment."
    if not _HOST.fullmatch(headers.get("Host", "")):
        return "The Host header is no host."
    return None


def _is_chunked(message: RawRequestMessage) -> bool:
    coding = message.headers.getall("Transfer-Encoding")
    alone = len(coding) == 1 and "Content-Length" not in message.headers
    return alone and coding[0].lower() == "chunked" and message.version == HttpVersion11


def _is_absolute(message: RawRequestMessage) -> bool:
    if message.method == "OPTIONS" and message.path == "*":
        return True
    return message.method != "CONNECT" and _URL.match(message.path) is not None
