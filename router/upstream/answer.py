"""Reading a pool's answer: bytes in, a head and pieces of a body out.

Laws
1. What is held is bounded: a head, trailers and the extensions of chunks have one bound, and nothing of a body is kept
   once its reader has taken it.
2. Interim answers (1xx) are no answers. Trailers are dropped. 101 is refused, since nobody asked for it.
3. What follows a whole answer is an answer to nothing; its connection must not be used again.
"""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from router.upstream.faults import NotHttp

HEAD_BYTES_MAX = 64 * 2**10
"""Longest head of an answer, trailers and chunk extensions included. One read of the socket may come on top of it."""


class Head:
    """Status line and headers of an answer, the headers as they came."""

    __slots__ = ("chunked", "empty", "framed", "headers", "keeps", "names", "reason", "sized", "status")

    def __init__(self, status: int, reason: bytes, headers: list[tuple[bytes, bytes]], *, keeps: bool) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.names = [name.decode("latin-1").lower() for name, _ in headers]
        """Of the headers, in lower case and in their order."""
        self.sized = "content-length" in self.names
        self.chunked = "transfer-encoding" in self.names
        if self.chunked and any(coding.strip().lower() != b"chunked" for coding in self.values("transfer-encoding")):
            raise NotHttp("a transfer coding that nobody asked for")
        self.empty = status in _NO_BODY
        """It has no body, whatever its headers say."""
        self.framed = self.chunked or self.sized or self.empty
        """Whether the answer says where it ends; else the connection's end is its end, and proves nothing."""
        # A 408 may have been said to nobody just before the request came: then the true answer is still to follow.
        self.keeps = keeps and not (self.chunked and self.sized) and status != _MAY_BE_UNASKED
        """Whether the connection may serve another request."""

    def values(self, name: str) -> list[bytes]:
        """Return all values of a header, named in lower case."""
        return [value for given, (_, value) in zip(self.names, self.headers, strict=True) if given == name]

    def __repr__(self) -> str:
        return f"<Head {self.status} {len(self.headers)} headers>"


_NO_BODY = frozenset((204, 304))
_MAY_BE_UNASKED = 408


class AnswerReader:
    """Parses the answers of one connection, one after the other."""

    __slots__ = ("_empty_bytes", "_headers", "_interim", "_parser", "_reason", "head", "on_body", "pieces", "spoilt",
                 "whole")  # fmt: skip

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        """What has come of the body and was not taken."""
        self.on_body = self.pieces.append
        self.head: Head | None = None
        self.whole = False
        """The answer has ended by its own framing."""
        self.spoilt = False
        """Something came that no request asked for."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._interim = False
        self._empty_bytes = 0
        self._parser = HttpResponseParser(self)
        # Both framings at once are read by the chunks (RFC 9112, 6.3); such a connection is not used again.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True)

    def begin(self) -> None:
        """Expect the next answer; what nobody has taken of the last one is nobody else's."""
        self.pieces.clear()
        self.head = None
        self.whole = False
        self._empty_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take what was read. Raises NotHttp; what came before the fault is in `pieces`."""
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.whole:
                inner = error.__context__
                raise inner if isinstance(inner, NotHttp) else NotHttp(type(error).__name__) from None
            self.spoilt = True
        if self.pieces or self.whole:
            self._empty_bytes = 0
            return
        self._empty_bytes += len(data)
        if self._empty_bytes > HEAD_BYTES_MAX:
            raise NotHttp(f"more than {HEAD_BYTES_MAX} bytes without anything of a body")

    def take(self) -> bytes:
        """Take out what has come of the body since the last time."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return data

    # ---- called by the parser

    def on_message_begin(self) -> None:
        """Note the first byte of an answer."""
        self.spoilt = self.whole

    def on_status(self, text: bytes) -> None:
        """Take a piece of the reason."""
        self._reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; after the head it is a trailer."""
        if self.head is None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Make the head."""
        if self.whole:
            raise NotHttp("an answer to nothing")
        headers, reason = self._headers, self._reason
        self._headers, self._reason = [], b""
        status = self._parser.get_status_code()
        if status < 200:
            if status < 100 or status == 101:
                raise NotHttp("a status that nobody asked for")
            self._interim = True
            return
        if len(reason) + sum(len(name) + len(value) for name, value in headers) > HEAD_BYTES_MAX:
            raise NotHttp(f"a head of more than {HEAD_BYTES_MAX} bytes")
        self.head = Head(status, reason, headers, keeps=self._parser.should_keep_alive())

    def on_message_complete(self) -> None:
        """Note the end that the framing gives."""
        if self._interim:
            self._interim, self._empty_bytes = False, 0
        else:
            self.whole = True
