"""Requests as bytes, right ones and wrong ones, each with the one right answer.

`torn` says whether the verdict must be the same when the bytes come one at a time. It is another one where something
wrong comes after a whole request, which is answered if it came alone, or a refusal needs no more than the head. What is
very long would only cost time.
"""

from dataclasses import dataclass

from tests.router.live import CHAT

BODY = b'{"model": "m"}'
POST = f"POST {CHAT} HTTP/1.1\r\n".encode()
HOST = b"Host: r\r\n"
LENGTH = b"Content-Length: 14\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"e\r\n" + BODY + b"\r\n0\r\n\r\n"
HIDDEN = b"POST /v1/embeddings HTTP/1.1\r\nHost: hidden\r\nContent-Length: 14\r\n\r\n" + BODY
"""A whole request, for places where none must be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is sent, and what must come of it. `closes`: the router closes the connection after its answers."""

    name: str
    data: bytes
    answers: tuple[str, ...] = ("400 bad_request",)
    bodies: int = 0
    closes: bool = True
    torn: bool = True


def good(name: str, data: bytes, *, bodies: int = 1, closes: bool = False, torn: bool = True) -> Case:
    """Return a case in which every body is passed on and answered."""
    return Case(name=name, data=data, answers=("200",) * bodies, bodies=bodies, closes=closes, torn=torn)


def head(*lines: bytes) -> bytes:
    """Return POST and Host, then these lines, then the end of the head."""
    return POST + HOST + b"".join(lines) + b"\r\n"


def _bad(group: dict[str, bytes]) -> list[Case]:
    return [Case(name=name, data=data) for name, data in group.items()]


def _lengths() -> list[Case]:
    wrong = {
        "two lengths that differ": head(LENGTH, b"Content-Length: 15\r\n") + BODY,
        "two lengths that are the same": head(LENGTH, LENGTH) + BODY,
        "a list of lengths": head(b"Content-Length: 14, 14\r\n") + BODY,
        "a negative length": head(b"Content-Length: -1\r\n") + BODY,
        "a length with a plus": head(b"Content-Length: +14\r\n") + BODY,
        "a length in hexadecimal": head(b"Content-Length: 0xe\r\n") + BODY,
        "a length with a space in it": head(b"Content-Length: 1 4\r\n") + BODY,
        "a length with a tab in it": head(b"Content-Length: 1\t4\r\n") + BODY,
        "a length that is a fraction": head(b"Content-Length: 14.0\r\n") + BODY,
        "a length with an underscore": head(b"Content-Length: 1_4\r\n") + BODY,
        "a length in digits of another script": head("Content-Length: 1\N{FULLWIDTH DIGIT FOUR}\r\n".encode()) + BODY,
        "an empty length": head(b"Content-Length: \r\n") + BODY,
        "a length of 23 digits": head(b"Content-Length: 99999999999999999999999\r\n") + BODY,
    }
    too_large = ("413 body_too_large",)
    return [
        *_bad(wrong),
        Case(name="no length and a body", data=head() + BODY, torn=False),
        Case(name="a length under another name", data=head(b"Content_Length: 14\r\n") + BODY, torn=False),
        Case(name="a length that is too short", data=head(b"Content-Length: 5\r\n") + BODY, torn=False),
        Case(name="a length of 2**63", data=head(b"Content-Length: 9223372036854775808\r\n"), answers=too_large),
        Case(name="a length of 2**64-1", data=head(b"Content-Length: 18446744073709551615\r\n"), answers=too_large),
        good("a length with zeros before it", head(b"Content-Length: 014\r\n") + BODY),
        good("a length with spaces around it", head(b"Content-Length:  14 \t\r\n") + BODY),
        good("a second request after the body", head(LENGTH) + BODY + HIDDEN, bodies=2),
    ]


def _codings() -> list[Case]:
    wrong = {
        "length, then chunks": head(LENGTH, CHUNKED) + CHUNKS + HIDDEN,
        "chunks, then length": head(CHUNKED, LENGTH) + CHUNKS + HIDDEN,
        "chunked twice": head(CHUNKED, CHUNKED) + CHUNKS,
        "identity, then chunked, in two lines": head(b"Transfer-Encoding: identity\r\n", CHUNKED) + CHUNKS,
        "xchunked": head(b"Transfer-Encoding: xchunked\r\n") + CHUNKS,
        "chunked, then identity": head(b"Transfer-Encoding: chunked, identity\r\n") + CHUNKS,
        "chunked, then gzip": head(b"Transfer-Encoding: chunked, gzip\r\n") + CHUNKS,
        "gzip, then chunked": head(b"Transfer-Encoding: gzip, chunked\r\n") + CHUNKS,
        "identity beside a length": head(b"Transfer-Encoding: identity\r\n", LENGTH) + BODY,
        "identity alone": head(b"Transfer-Encoding: identity\r\n") + BODY,
        "an empty coding beside a length": head(b"Transfer-Encoding: \r\n", LENGTH) + BODY,
        "chunked and a comma": head(b"Transfer-Encoding: chunked,\r\n") + CHUNKS,
        "chunked with a parameter": head(b"Transfer-Encoding: chunked;q=1\r\n") + CHUNKS,
        "chunked in quotes": head(b'Transfer-Encoding: "chunked"\r\n') + CHUNKS,
        "chunked after a vertical tab": head(b"Transfer-Encoding: \x0bchunked\r\n") + CHUNKS,
        "chunked before a no-break space": head(b"Transfer-Encoding: chunked\xc2\xa0\r\n") + CHUNKS,
        "a space before the colon": head(b"Transfer-Encoding : chunked\r\n", LENGTH) + BODY,
        "a coding on a folded line": head(b"Transfer-Encoding:\r\n chunked\r\n") + CHUNKS,
        "a coding hidden by a bare CR": head(b"X: a\rTransfer-Encoding: chunked\r\n", LENGTH) + BODY,
        "a coding hidden by a bare LF": head(b"X: a\nTransfer-Encoding: chunked\r\n", LENGTH) + BODY,
        "chunks in HTTP/1.0": head(CHUNKED).replace(b"1.1", b"1.0") + CHUNKS,
    }
    return [
        *_bad(wrong),
        good("chunks", head(CHUNKED) + CHUNKS),
        good("Chunked", head(b"Transfer-Encoding: Chunked\r\n") + CHUNKS),
        good("chunked after a tab and before a space", head(b"Transfer-Encoding:\tchunked \r\n") + CHUNKS),
        good("a coding that Connection names", head(CHUNKED, b"Connection: transfer-encoding\r\n") + CHUNKS),
        good("a length that Connection names", head(LENGTH, b"Connection: Content-Length\r\n") + BODY),
        good("a coding under another name", head(b"Transfer_Encoding: chunked\r\n", LENGTH) + BODY),
    ]


def _chunks() -> list[Case]:
    start, end = head(CHUNKED), b"\r\n0\r\n\r\n"
    wrong = {
        "a negative size": start + b"-e\r\n" + BODY + end,
        "a size with a plus": start + b"+e\r\n" + BODY + end,
        "a size with 0x": start + b"0xe\r\n" + BODY + end,
        "an empty size": start + b"\r\n" + BODY + end,
        "a space before the size": start + b" e\r\n" + BODY + end,
        "a space after the size": start + b"e \r\n" + BODY + end,
        "a size beyond 64 bits": start + b"fffffffffffffffff\r\n" + BODY + end,
        "a size that is no number": start + b"z\r\n" + BODY + end,
        "a size that is too small": start + b"5\r\n" + BODY + end,
        "a size that is too large": start + b"f\r\n" + BODY + end,
        "no line end after the data": start + b"e\r\n" + BODY + b"0\r\n\r\n",
        "a bare LF after the size": start + b"e\n" + BODY + end,
        "a bare LF after the data": start + b"e\r\n" + BODY + b"\n0\r\n\r\n",
        "a bare CR after the size": start + b"e\r" + BODY + end,
        "a bare LF after the last size": start + b"e\r\n" + BODY + b"\r\n0\n\n",
        "a bare LF in an extension": start + b"e;a\nb\r\n" + BODY + end,
        "a bare CR in an extension": start + b"e;a\rb\r\n" + BODY + end,
        "a NUL in an extension": start + b"e;a\0b\r\n" + BODY + end,
        "a trailer that is no header": start + b"e\r\n" + BODY + b"\r\n0\r\nX T: 1\r\n\r\n",
        "a length as a trailer": start + b"e\r\n" + BODY + b"\r\n0\r\nContent-Length: 14\r\n\r\n",
    }
    many = start + b"e\r\n" + BODY + b"\r\n0\r\n" + b"X: 1\r\n" * 500 + b"\r\n"
    return [
        *_bad(wrong),
        Case(name="500 trailers", data=many, answers=("431 headers_too_large",), torn=False),
        good("an extension", start + b"e;a=b\r\n" + BODY + end),
        good("an extension in quotes", start + b'e;a="b;c"\r\n' + BODY + end),
        good("a size with zeros before it", start + b"0000000e\r\n" + BODY + end),
        good("a size in capitals", start + b"E\r\n" + BODY + end),
        good("a trailer", start + b"e\r\n" + BODY + b"\r\n0\r\nX-Trailer: 1\r\n\r\n"),
        good("chunks of one byte", start + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    ]


def _lines() -> list[Case]:
    wrong = {
        "bare LFs only": head(LENGTH).replace(b"\r\n", b"\n") + BODY,
        "a bare LF after a header": POST + b"Host: r\n" + LENGTH + b"\r\n" + BODY,
        "a bare LF after the head": POST + HOST + LENGTH + b"\n" + BODY,
        "a bare CR after a header": POST + b"Host: r\r" + LENGTH + b"\r\n" + BODY,
        "a bare CR in a value": head(b"X: a\rb\r\n", LENGTH) + BODY,
        "a folded line": head(b"X: a\r\n b\r\n", LENGTH) + BODY,
        "a folded line first": POST + b" X: a\r\n" + HOST + LENGTH + b"\r\n" + BODY,
        "a NUL in a value": head(b"X: a\0b\r\n", LENGTH) + BODY,
        "a NUL in a name": head(b"X\0: a\r\n", LENGTH) + BODY,
        "a control character in a value": head(b"X: a\x01b\r\n", LENGTH) + BODY,
        "DEL in a value": head(b"X: a\x7fb\r\n", LENGTH) + BODY,
        "a space before the colon": head(b"X : a\r\n", LENGTH) + BODY,
        "a line without a colon": head(b"X\r\n", LENGTH) + BODY,
        "a name that is empty": head(b": a\r\n", LENGTH) + BODY,
        "a name in brackets": head(b"X[a]: a\r\n", LENGTH) + BODY,
        "a name beyond ASCII": head("Xé: a\r\n".encode(), LENGTH) + BODY,
        "no Host": POST + LENGTH + b"\r\n" + BODY,
        "two Hosts": head(b"Host: s\r\n", LENGTH) + BODY,
        "a Host with a space": POST + b"Host: a b\r\n" + LENGTH + b"\r\n" + BODY,
        "a Host with a user": POST + b"Host: a@b\r\n" + LENGTH + b"\r\n" + BODY,
        "a Host with a path": POST + b"Host: a/b\r\n" + LENGTH + b"\r\n" + BODY,
    }
    too_large = ("431 headers_too_large",)
    many = b"".join(b"X-%d: %b\r\n" % (n, b"a" * 20_000) for n in range(100))
    return [
        *_bad(wrong),
        Case(name="a value that is not UTF-8", data=head(b"X: caf\xe9\r\n", LENGTH) + BODY, closes=False, torn=False),
        Case(
            name="a body that is encoded",
            data=head(b"Content-Encoding: gzip\r\n", LENGTH) + BODY,
            closes=False,
            torn=False,
        ),
        Case(
            name="a long target",
            data=POST.replace(b" HTTP", b"?" + b"a" * 40_000 + b" HTTP"),
            answers=too_large,
            torn=False,
        ),
        Case(
            name="a long value",
            data=head(b"X: " + b"a" * 40_000 + b"\r\n", LENGTH) + BODY,
            answers=too_large,
            torn=False,
        ),
        Case(name="a long name", data=head(b"X" * 40_000 + b": a\r\n", LENGTH) + BODY, answers=too_large, torn=False),
        Case(name="200 headers", data=head(b"X: a\r\n" * 200, LENGTH) + BODY, answers=too_large, torn=False),
        Case(name="a head of 2 MB", data=head(many, LENGTH) + BODY, answers=too_large, torn=False),
        good("empty lines first", b"\r\n\r\n" + head(LENGTH) + BODY),
        good("an empty Host", POST + b"Host:\r\n" + LENGTH + b"\r\n" + BODY),
        good("a Host that is an address of version 6", POST + b"Host: [::1]:80\r\n" + LENGTH + b"\r\n" + BODY),
    ]


def _starts() -> list[Case]:
    rest = HOST + LENGTH + b"\r\n" + BODY

    def start(line: bytes) -> bytes:
        return line + b"\r\n" + rest

    path = CHAT.encode()
    wrong = {
        "HTTP/1.2": start(b"POST " + path + b" HTTP/1.2"),
        "HTTP/2.0": start(b"POST " + path + b" HTTP/2.0"),
        "HTTP/0.9 with headers": start(b"POST " + path + b" HTTP/0.9"),
        "HTTP/11": start(b"POST " + path + b" HTTP/11"),
        "HTTP/1.10": start(b"POST " + path + b" HTTP/1.10"),
        "http/1.1": start(b"POST " + path + b" http/1.1"),
        "no version": start(b"POST " + path),
        "HTTP/0.9": b"GET /healthz\r\n\r\n",
        "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
        "a TLS hello": bytes.fromhex("16030100f8010000f40303") + b"\x11" * 240,
        "a SOCKS hello": b"\x05\x01\x00",
        "an SSH hello": b"SSH-2.0-OpenSSH_9.2\r\n",
        "zeros": b"\0" * 100,
        "a method in small letters": start(b"post " + path + b" HTTP/1.1"),
        "a method nobody knows": start(b"FROB " + path + b" HTTP/1.1"),
        "a space first": start(b" POST " + path + b" HTTP/1.1"),
        "a tab for a space": start(b"POST\t" + path + b" HTTP/1.1"),
        "a space in the target": start(b"POST " + path + b" x HTTP/1.1"),
        "a NUL in the target": start(b"POST " + path + b"\0 HTTP/1.1"),
        "bytes above ASCII in the target": start(b"POST " + path + b"?\xff HTTP/1.1"),
        "a fragment": start(b"POST " + path + b"#x HTTP/1.1"),
        "a target that is no path": start(b"POST " + path[1:] + b" HTTP/1.1"),
        "a URL with a user": start(b"POST http://a:b@r" + path + b" HTTP/1.1"),
        "a URL of another scheme": start(b"POST ftp://r" + path + b" HTTP/1.1"),
        "CONNECT": b"CONNECT hidden:443 HTTP/1.1\r\n" + HOST + b"\r\n" + HIDDEN,
    }
    not_allowed, not_found = ("405 method_not_allowed",), ("404 not_found",)
    return [
        *_bad(wrong),
        Case(name="CONNECT to a path", data=start(b"CONNECT " + path + b" HTTP/1.1"), answers=not_found),
        Case(
            name="TRACE", data=b"TRACE " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n", answers=not_allowed, closes=False
        ),
        Case(name="OPTIONS *", data=b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", answers=not_found, closes=False),
        Case(
            name="dots in the path",
            data=start(b"POST /v1/.." + path + b" HTTP/1.1"),
            answers=not_found,
            closes=False,
            torn=False,
        ),
        Case(
            name="two slashes", data=start(b"POST /" + path + b" HTTP/1.1"), answers=not_found, closes=False, torn=False
        ),
        Case(
            name="an escaped letter",
            data=start(b"POST /v1/%63hat/completions HTTP/1.1"),
            answers=not_found,
            closes=False,
            torn=False,
        ),
        good("a URL as the target", start(b"POST http://other" + path + b" HTTP/1.1")),
        good("HTTP/1.0", start(b"POST " + path + b" HTTP/1.0"), closes=True),
        Case(
            name="a GET with a body",
            data=b"GET /healthz HTTP/1.1\r\n" + rest,
            answers=("200",),
            closes=False,
            torn=False,
        ),
    ]


def _connections() -> list[Case]:
    whole = head(LENGTH) + BODY
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
    return [
        good("three requests at once", whole * 3, bodies=3),
        good("a hundred requests at once", whole * 100, bodies=100, torn=False),
        good("Connection: close", head(b"Connection: close\r\n", LENGTH) + BODY, closes=True),
        Case(
            name="a request after Connection: close",
            data=head(b"Connection: close\r\n", LENGTH) + BODY + HIDDEN,
            torn=False,
        ),
        good("an upgrade to a websocket", head(upgrade % b"websocket", LENGTH) + BODY + HIDDEN, closes=True),
        good("an upgrade to HTTP/2", head(upgrade % b"h2c", LENGTH) + BODY + HIDDEN, closes=True),
        Case(
            name="a websocket instead of a request",
            data=f"GET {CHAT} HTTP/1.1\r\n".encode() + HOST + upgrade % b"websocket" + b"\r\n" + HIDDEN,
            answers=("405 method_not_allowed",),
        ),
        Case(name="garbage after a request", data=whole + b"\x16\x03\x01garbage", torn=False),
        Case(name="a broken body after a request", data=whole + head(CHUNKED) + b"z\r\n", torn=False),
        good("100-continue with its body", head(LENGTH, b"Expect: 100-continue\r\n") + BODY, torn=False),
        good("an expectation nobody knows", head(LENGTH, b"Expect: 200-ok\r\n") + BODY),
    ]


GROUPS = {
    "lengths": _lengths(),
    "codings": _codings(),
    "chunks": _chunks(),
    "lines": _lines(),
    "starts": _starts(),
    "connections": _connections(),
}
