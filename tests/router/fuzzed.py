"""Random requests as bytes: a grammar of HTTP/1.1 that often errs, then mutations; and what h11 makes of them.

A case is made from its seed alone. What h11, a second and stricter reader, takes for requests bounds what the pools may
see: a body that h11 does not find in a connection must never leave the router.
"""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import h11

from tests.router.live import CHAT

CANARY = "s3cr3t-canary"
"""Stands in bodies and credentials, and must be in no log."""
MUTATED = 0.35
"""Share of the cases that are mutated after they were made."""
DICTIONARY = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"0\r\n\r\n", b"\r\n\r\n", b"chunked", b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b" HTTP/1.1\r\n", b"\xff\xfe", b"5\r\nabcde\r\n", b"-1", b"{", b'"', b";a=b",
)  # fmt: skip
TARGETS = (
    "/v1/completions", "/v1/embeddings", "/v1/models", "/healthz", "/readyz", "/metrics", "/", "*", "", "//",
    CHAT + "/", CHAT + "?a=b&c=%2F", CHAT + "#f", CHAT + " ", CHAT + "%00", CHAT + "?" + "q" * 3_000,
    "http://elsewhere" + CHAT, "https://elsewhere" + CHAT, "http:" + CHAT, "elsewhere:443", "/v1/.." + CHAT,
)  # fmt: skip
EXTRAS = (
    ("Connection", "close"), ("Connection", "keep-alive"), ("Connection", "Upgrade"), ("Connection", "x-odd, te, host"),
    ("Upgrade", "websocket"), ("Upgrade", "h2c"), ("Expect", "100-continue"), ("Expect", "nothing"), ("TE", "trailers"),
    ("Content-Encoding", "gzip"), ("Content-Encoding", "identity"), ("Content-Type", "application/json"),
    ("Via", "1.1 someone"), ("x-pooldrill-deadline-ms", "30000"), ("x-pooldrill-deadline-ms", "soon"),
    ("x-stainless-retry-count", "1"), ("x-envoy-attempt-count", "9" * 22), ("amz-sdk-request", "attempt="),
    ("X-Odd", "\x80\xff"), ("x-request-id", "\xe9"), ("x-request-id", "i" * 2_000), ("Keep-Alive", "timeout=5"),
    ("Trailer", "X-Odd"), ("Transfer_Encoding", "chunked"), ("Content-Length ", "3"), ("Host", "second"), ("", "none"),
    ("X-Odd", "a\r\n folded"), ("Proxy-Connection", "keep-alive"), ("Sec-WebSocket-Key1", "1"), ("X-Odd", ""),
)  # fmt: skip
LENGTHS = (
    "0",
    "-1",
    "+5",
    "5, 5",
    "0x5",
    "5 5",
    "1e2",
    "",
    "5.0",
    "18446744073709551615",
    "99999999999999999999",
    "05",
)
CODINGS = (
    "chunked",
    "Chunked",
    "chunked, chunked",
    "identity",
    "gzip, chunked",
    "chunked;q=1",
    "xchunked",
    "",
    "chunked,",
)
SIZES = ("-5", "+5", "0x5", "", " 5", "5 ", "ffffffffffffffffff", "g", "5;" + "x" * 500, "00005", "5\n", "5;a\rb")

_SPACES = re.compile(rb"([A-Z]+) +([!-~]+) +(HTTP/1\.[01])(?=\r\n)")
"""More spaces than one in a request's first line may be taken for one (RFC 9112, 3); llhttp does, h11 does not."""


class Ending(StrEnum):
    """What the client does when it has sent everything."""

    WAIT = "wait"
    HALF_CLOSE = "half_close"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """One connection's bytes, in the pieces in which they are sent."""

    seed: int
    pieces: tuple[bytes, ...]
    ending: Ending

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def __str__(self) -> str:
        return f"seed {self.seed}, then {self.ending}:\n{list(self.pieces)!r}"


def case(seed: int) -> Fuzzed:
    """Make one case."""
    rng = random.Random(seed)
    requests = rng.choices((1, 2, 3), (70, 20, 10))[0]
    data = b"".join(_request(rng, f"{seed}-{number}") for number in range(requests))
    if rng.random() < MUTATED:
        for _ in range(rng.randint(1, 4)):
            data = _mutated(rng, data)
    ending = rng.choices(list(Ending), (85, 5, 10))[0]
    return Fuzzed(seed, tuple(_pieces(rng, data)), ending)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the second reader makes of a connection's bytes: the bodies of whole requests; whether nothing follows."""

    bodies: list[bytes]
    ends_between: bool


def reading_of(data: bytes) -> Reading:
    """Read a connection's bytes with h11, which ends a connection of HTTP/1.0 after one request, and need not."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=2**20)
    if data:  # nothing is h11's word for the end
        connection.receive_data(_SPACES.sub(rb"\1 \2 \3", data))
    bodies: list[bytes] = []
    body = version = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return Reading(bodies, ends_between=False)
        match event:
            case h11.Request(http_version=version):
                body = b""
            case h11.Data():
                body += bytes(event.data)
            case h11.EndOfMessage():
                bodies.append(body)
                connection.send(h11.Response(status_code=400, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    rest = connection.trailing_data[0] if version == b"1.0" else b""
                    return Reading([*bodies, *(reading_of(rest).bodies if rest else [])], ends_between=False)
                connection.start_next_cycle()
            case _:
                idle = connection.their_state is h11.IDLE and not connection.trailing_data[0].strip(b"\r\n")
                return Reading(bodies, ends_between=idle)


def _request(rng: random.Random, name: str) -> bytes:
    body = _body(rng, name)
    method = rng.choices(
        ("POST", "GET", "PUT", "OPTIONS", "TRACE", "CONNECT", "post", "FROB"), (80, 6, 3, 3, 2, 2, 2, 2)
    )[0]
    target = CHAT if rng.random() < 0.7 else rng.choice(TARGETS)
    versions = ("HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/11", "")
    version = rng.choices(versions, (90, 4, 1, 1, 1, 1, 2))[0]
    headers = [("Host", rng.choices(("r", "", "a b", "[::1]:80"), (90, 4, 3, 3))[0])]
    headers += [("Authorization", f"Bearer {CANARY}")] * (rng.random() < 0.3)
    headers += [("x-request-id", name)] * (rng.random() < 0.5)
    headers += rng.sample(EXTRAS, rng.choices((0, 1, 2, 4), (50, 30, 15, 5))[0])
    framing, framed = _framed(rng, body)
    headers += framing
    if rng.random() < 0.2:
        rng.shuffle(headers)
    colon = rng.choices((": ", ":", ":\t", " : "), (90, 6, 3, 1))[0]
    lines = [f"{method} {target} {version}".rstrip(" "), *(name + colon + value for name, value in headers)]
    end = rng.choices(("\r\n", "\n"), (98, 2))[0]
    return (end.join(lines) + end + end).encode("latin-1") + framed


def _body(rng: random.Random, name: str) -> bytes:
    padding = "x" * rng.choices((0, 10, 1_000, 70_000), (50, 30, 15, 5))[0]
    content = {"model": "m", "name": name, "messages": CANARY + padding, "stream": rng.random() < 0.5}
    whole = json.dumps(content).encode()
    others = (
        b"",
        b"{",
        b"[]",
        b'{"model": 1}',
        b'{"model": ""}',
        b"\xff\xfe",
        b"[" * 3_000,
        whole + b"}",
        b'{"model": "\\ud800"}',
    )
    return whole if rng.random() < 0.85 else rng.choice(others)


def _framed(rng: random.Random, body: bytes) -> tuple[list[tuple[str, str]], bytes]:
    """Return framing headers and the body as they frame it, or nearly."""
    length, chunked = ("Content-Length", str(len(body))), ("Transfer-Encoding", "chunked")
    near = str(max(0, len(body) + rng.choice((-3, -1, 1, 3))))
    whole, broken = _chunked(rng, body, wrong=False), _chunked(rng, body, wrong=True)
    ways: tuple[tuple[int, list[tuple[str, str]], bytes], ...] = (
        (50, [length], body),
        (24, [chunked], whole),
        (6, [("Content-Length", rng.choice((*LENGTHS, near)))], body),
        (4, [length, rng.choice((length, chunked))], rng.choice((body, whole))),
        (5, [("Transfer-Encoding", rng.choice(CODINGS))], whole),
        (7, [chunked], broken),
        (4, [], body),
    )
    _, framing, framed = rng.choices(ways, [way[0] for way in ways])[0]
    return framing, framed


def _chunked(rng: random.Random, body: bytes, *, wrong: bool) -> bytes:
    cuts = sorted(rng.sample(range(len(body) + 1), min(len(body), rng.randint(0, 3))))
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if b > a]
    out = []
    for part in parts:
        size = rng.choice(SIZES) if wrong and rng.random() < 0.5 else f"{len(part):x}"
        extension = ";a=b" if rng.random() < 0.05 else ""
        out.append(f"{size}{extension}\r\n".encode() + part + b"\r\n")
    return b"".join(out) + b"0\r\n" + (b"X-Trailer: 1\r\n" if rng.random() < 0.05 else b"") + b"\r\n"


def _mutated(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data)) if rng.random() < 0.3 else rng.randrange(min(len(data), 400))
    to = min(len(data), at + rng.choice((1, 2, 10, 100)))
    flipped = bytes((data[at] ^ 1 << rng.randrange(8),))
    ways = (
        data[:at] + flipped + data[at + 1 :],
        data[:at] + data[to:],
        data[:at] + rng.choice(DICTIONARY) + data[at:],
        data[:to] + data[at:],
        data[:at] + rng.randbytes(to - at) + data[to:],
        data[:at],
    )
    return rng.choice(ways)


def _pieces(rng: random.Random, data: bytes) -> Iterator[bytes]:
    cuts: list[int] = []
    way = rng.random()
    if way > 0.6:
        cuts = sorted(rng.sample(range(len(data) + 1), min(len(data), rng.randint(1, 4))))
    if way > 0.95 and len(data) < 400:
        cuts = list(range(len(data)))
    yield from (data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if b > a)
