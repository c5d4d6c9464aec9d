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

from aiohttp import HttpVersion10, HttpVersion11, web

_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_URL = re.compile(r"https?://[^/?@]+(?:[/?]|$)", re.IGNORECASE)


def fault_of(request: web.BaseRequest) -> str | None:
    """Return what is wrong with a request's head, in words without anything of it; None: nothing is."""
    version, headers = request.version, request.headers
    if version not in (HttpVersion10, HttpVersion11):
        return "The version is neither HTTP/1.1 nor HTTP/1.0."
    if "Transfer-Encoding" in headers and not _is_chunked(request):
        return "Transfer-Encoding must be chunked and nothing else, without Content-Length, in HTTP/1.1."
    target = request.raw_path
    if target[:1] != "/" and not _is_absolute(request):
        return "The request's target is neither a path nor an http URL."
    if "#" in target:
        return "The request's target has a fragment."
    if not _HOST.fullmatch(headers.get("Host", "")):
        return "The Host header is no host."
    return None


def _is_chunked(request: web.BaseRequest) -> bool:
    coding = request.headers.getall("Transfer-Encoding")
    alone = len(coding) == 1 and "Content-Length" not in request.headers
    return alone and coding[0].lower() == "chunked" and request.version == HttpVersion11


def _is_absolute(request: web.BaseRequest) -> bool:
    if request.method == "OPTIONS" and request.raw_path == "*":
        return True
    return request.method != "CONNECT" and _URL.match(request.raw_path) is not None
