"""The bytes of requests and answers: what a client writes, what a pool says, and an independent reading of it.

The reading is written from RFC 9112 and shares nothing with the parsers that are under test.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.virtual.plan import Answer, Ask, Kind

CHAT = "/v1/chat/completions"
DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"


def request_head(ask: Ask, length: int) -> bytes:
    """Return the head of a client's request."""
    if ask.lists:
        return b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n"
    framing = "Transfer-Encoding: chunked" if ask.chunked else f"Content-Length: {length}"
    version = "1.0" if ask.old else "1.1"
    lines = [f"POST {CHAT} HTTP/{version}", "Host: router", f"x-request-id: {ask.name}", framing]
    if ask.session is not None:
        lines.append(f"x-session-id: {ask.session}")
    if ask.deadline_ms is not None:
        lines.append(f"x-pooldrill-deadline-ms: {ask.deadline_ms}")
    if ask.expects:
        lines.append("Expect: 100-continue")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def request_body(ask: Ask) -> bytes:
    """Return the body of a client's request; no other request has the same."""
    start = f'{{"model": "{ask.model}", "name": "{ask.name}", "text": "'.encode()
    return start + b"x" * max(0, ask.body_bytes - len(start) - 2) + b'"}'


def upload_of(ask: Ask) -> list[bytes]:
    """Return the pieces in which a client writes its body, the last one with its end."""
    if ask.lists:
        return []
    body = request_body(ask)
    step = -(-len(body) // ask.upload_pieces)
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    if ask.chunked:
        pieces = [_chunk(piece) for piece in pieces]
        pieces[-1] += LAST_CHUNK
    return pieces


@dataclass(frozen=True, slots=True)
class Said:
    """What a pool would say to a request: the pieces as they go over the wire, and the body in them."""

    pieces: tuple[bytes, ...]
    body: bytes

    @property
    def wire(self) -> bytes:
        """Return all pieces in one."""
        return b"".join(self.pieces)


def answer_of(ask: Ask) -> Said:
    """Return what a pool says to a request that asks for a real answer."""
    texts = [_text(ask, number, ask.answer) for number in range(ask.answer.pieces)]
    return _SAID[ask.answer.kind](ask, texts)


def _nothing(_: Ask, __: list[bytes]) -> Said:
    return Said((), b"")


def _garbage(_: Ask, __: list[bytes]) -> Said:
    return Said((b"220 mail.example ESMTP ready\r\n\r\n",), b"")


def _empty(ask: Ask, _: list[bytes]) -> Said:
    return Said((_head(204, ask),), b"")


def _plain(ask: Ask, texts: list[bytes]) -> Said:
    body = b"".join(texts)
    head = _head(ask.answer.status, ask, "Content-Type: application/json", f"Content-Length: {len(body)}")
    return Said((head + texts[0], *texts[1:]), body)


def _until_close(ask: Ask, texts: list[bytes]) -> Said:
    head = _head(ask.answer.status, ask, "Content-Type: text/event-stream")
    return Said((head, *texts, DONE), b"".join(texts) + DONE)


def _chunked(ask: Ask, texts: list[bytes]) -> Said:
    head = _head(ask.answer.status, ask, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
    return Said((head, *map(_chunk, texts), _chunk(DONE), LAST_CHUNK), b"".join(texts) + DONE)


def _bad_chunk(ask: Ask, texts: list[bytes]) -> Said:
    return Said((*_chunked(ask, texts).pieces[:-2], b"not a length\r\n"), b"".join(texts))


_SAID: dict[Kind, Callable[[Ask, list[bytes]], Said]] = {
    Kind.PLAIN: _plain,
    Kind.CHUNKED: _chunked,
    Kind.UNTIL_CLOSE: _until_close,
    Kind.ERROR: _plain,
    Kind.EMPTY: _empty,
    Kind.SILENT: _nothing,
    Kind.DROPPED: _nothing,
    Kind.GARBAGE: _garbage,
    Kind.BAD_CHUNK: _bad_chunk,
}


def _text(ask: Ask, number: int, answer: Answer) -> bytes:
    start = f"data: {ask.name} {number} ".encode()
    return start + b"t" * max(0, answer.piece_bytes - len(start) - 2) + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _head(status: int, ask: Ask, *lines: str) -> bytes:
    return "".join(
        [f"HTTP/1.1 {status} Said\r\n", *(f"{x}\r\n" for x in (f"x-of: {ask.name}", *lines)), "\r\n"]
    ).encode()


class Reading:
    """Reads one answer, piece by piece."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.complete = False
        self.wrong = False
        """The bytes are not HTTP."""
        self.continues = 0
        """Answers of 100 that came before."""
        self._rest = bytearray()
        self._left = 0
        self._read = self._head

    @property
    def until_close(self) -> bool:
        """Tell whether the end of the connection is the answer's end."""
        return self._read == self._all

    def feed(self, data: bytes) -> None:
        """Read on."""
        self._rest += data
        while not self.complete and not self.wrong and self._read():
            pass

    def ended(self) -> None:
        """Take in that the connection has ended in order."""
        if self.until_close:
            self.complete = True

    def _line(self) -> bytes | None:
        line, found, rest = self._rest.partition(b"\r\n")
        if not found:
            return None
        self._rest = rest
        return bytes(line)

    def _head(self) -> bool:
        head, found, rest = self._rest.partition(b"\r\n\r\n")
        if not found:
            self.wrong = len(self._rest) > 7 and not self._rest.startswith(b"HTTP/1.")
            return False
        self._rest = rest
        first, *lines = head.decode("latin-1").split("\r\n")
        if not first.startswith(("HTTP/1.1 ", "HTTP/1.0 ")):
            self.wrong = True
            return False
        self.status = int(first[9:12])
        if self.status == 100:
            self.continues += 1
            return True
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
        self._framing()
        return True

    def _framing(self) -> None:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._read = self._size
        elif self.status == 204:
            self.complete = True
        elif "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
            self._read = self._counted
            self.complete = not self._left
        else:
            self._read = self._all

    def _take(self, size: int) -> int:
        piece = self._rest[:size]
        del self._rest[:size]
        self.body += piece
        return len(piece)

    def _counted(self) -> bool:
        self._left -= self._take(self._left)
        self.complete = not self._left
        return False

    def _all(self) -> bool:
        self._take(len(self._rest))
        return False

    def _size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        try:
            self._left = int(line, 16)
        except ValueError:
            self.wrong = True
            return False
        self._read = self._chunk_data if self._left else self._trailer
        return True

    def _chunk_data(self) -> bool:
        self._left -= self._take(self._left)
        if self._left or len(self._rest) < 2:
            return False
        del self._rest[:2]
        self._read = self._size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        self.complete = line == b""
        return line is not None and not self.complete


def read_whole(wire: bytes, *, fin: bool = False) -> Reading:
    """Read what there is of an answer."""
    reading = Reading()
    reading.feed(wire)
    if fin:
        reading.ended()
    return reading
