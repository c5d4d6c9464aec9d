"""One HTTP request as its client sees it: what is measured while it runs, whatever library carries it.

`events` counts the whole `data:` events of a stream: the one with the finish reason too, the end mark `[DONE]` not.
`t_first_token` is the arrival of the first of them. `gap_max_s` is the longest silence between two pieces of a body.
"""

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from scenarios.record import Request, RequestEnd

ERROR_BODY_BYTES_MAX = 65_536
"""How much of an error's body is kept to find its code in."""
END_MARK = b"[DONE]"

Clock = Callable[[], float]


class Exchange:
    """A request from its start to its end; `row` tells it."""

    def __init__(
        self, *, operation_id: str, request_id: str, attempt: int, stream: bool, body: bytes, clock: Clock
    ) -> None:
        self.request_id = request_id
        self.status: int | None = None
        self.ended: RequestEnd | None = None
        self._operation_id = operation_id
        self._attempt = attempt
        self._stream = stream
        self._sha256_up = hashlib.sha256(body).hexdigest()
        self._clock = clock
        self._t_start = self._t_end = clock()
        self._t_headers: float | None = None
        self._t_first_token: float | None = None
        self._t_last_byte: float | None = None
        self._headers: Mapping[str, str] = {}
        self._bytes = 0
        self._gap_max_s = 0.0
        self._sha256_down = hashlib.sha256()
        self._error = bytearray()
        self._events = EventCount()

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and the headers, looked up whatever their case."""
        self.status = status
        self._headers = headers
        self._t_headers = self._clock()

    def piece(self, data: bytes) -> None:
        """Take a piece of the body as it arrives."""
        now_s = self._clock()
        if self._t_last_byte is not None:
            self._gap_max_s = max(self._gap_max_s, now_s - self._t_last_byte)
        self._t_last_byte = now_s
        self._bytes += len(data)
        self._sha256_down.update(data)
        if self._is_stream():
            self._events.feed(data)
            if self._events.seen and self._t_first_token is None:
                self._t_first_token = now_s
        elif self._failed():
            self._error += data[: ERROR_BODY_BYTES_MAX - len(self._error)]

    def complete(self) -> None:
        """Take the clean end of the answer."""
        if not self._is_stream():
            self.end("done")
        elif self._events.error:
            self.end("error_frame")
        else:
            self.end("done" if self._events.end_mark else "eof_no_done")

    def left(self) -> None:
        """Take that the client reads no more: it has all it wants, or it has given up."""
        if self._is_stream() and (self._events.end_mark or self._events.error):
            self.complete()
        else:
            self.end("client_left")

    def end(self, how: RequestEnd) -> None:
        """Take the end; only the first one counts."""
        if self.ended is None:
            self.ended = how
            self._t_end = self._clock()

    @property
    def ok(self) -> bool:
        """Whether a good answer came whole."""
        return self.ended == "done" and self.status is not None and not self._failed()

    def row(self) -> Request:
        """Return what was measured. Only for a request that has ended."""
        assert self.ended is not None, "a request is told once it has ended"
        return Request(
            operation_id=self._operation_id,
            request_id=self.request_id,
            attempt=self._attempt,
            t_start=self._t_start,
            t_headers=self._t_headers,
            t_first_token=self._t_first_token,
            t_last_byte=self._t_last_byte,
            t_end=self._t_end,
            end=self.ended,
            status=self.status,
            code=self._code(),
            stream=self._stream,
            events=self._events.seen,
            bytes=self._bytes,
            sha256_up=self._sha256_up,
            sha256_down=self._sha256_down.hexdigest() if self._bytes else None,
            gap_max_s=self._gap_max_s,
            delivery=self._headers.get("x-pooldrill-delivery"),
            pool=self._headers.get("x-pooldrill-pool"),
            sends=_count(self._headers.get("x-pooldrill-attempts")),
        )

    def _is_stream(self) -> bool:
        return self._headers.get("content-type", "").startswith("text/event-stream")

    def _failed(self) -> bool:
        return self.status is not None and self.status >= 400

    def _code(self) -> str | None:
        if not self._error:
            return None
        try:
            return msgspec.json.decode(bytes(self._error), type=_ErrorBody).error.code
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None


class EventCount:
    """Counts the events of a stream as its bytes arrive, line by line as the format of server-sent events demands."""

    def __init__(self) -> None:
        self.seen = 0
        self.end_mark = False
        self.error = False
        self._tail = b""
        self._data: bytes | None = None

    def feed(self, piece: bytes) -> None:
        """Take the next bytes; an event counts once its blank line is there."""
        *lines, self._tail = (self._tail + piece).split(b"\n")
        for line in lines:
            self._line(line.rstrip(b"\r"))

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data = line[5:].strip()
        elif not line and self._data is not None:
            self._event(self._data)
            self._data = None

    def _event(self, data: bytes) -> None:
        if data == END_MARK:
            self.end_mark = True
            return
        self.seen += 1
        # the cheap look first: a token costs no decoding
        self.error = self.error or (b'"error"' in data and _is_error(data))


class _Error(msgspec.Struct):
    code: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Error


def _is_error(data: bytes) -> bool:
    try:
        content = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return False
    return isinstance(content, dict) and bool(content.get("error"))


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
