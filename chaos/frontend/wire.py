"""The bytes of a frontend's answers, so exactly that the bytes up to any event of a stream can be counted beforehand.

The head of a streamed answer is padded to one size whatever the request's id, and all token events of a model have one
size (scenarios.world.answers). Framing is HTTP/1.1 chunked coding, one chunk an event, as h11 writes it.
"""

from scenarios.world import answers

Headers = list[tuple[str, str]]

HEAD_BYTES = 512
"""Size of a streamed answer's head, its blank line included."""
REQUEST_ID_MAX = 128
"""Longest `x-request-id`, in characters; a longer one would not fit into the padded head."""
STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
BLANK_LINE = b"\r\n"

_PADDING = "x-pooldrill-padding"
_SAMPLE_WORD = answers.words("sample", 1)[0]


def stream_headers(request_id: str | None, *, date: str, close: bool) -> Headers:
    """Return the headers of a streamed answer, padded to `HEAD_BYTES`."""
    headers = [
        ("date", date),
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("transfer-encoding", "chunked"),
        *common_headers(request_id, close=close),
    ]
    used = len(STATUS_LINE) + sum(map(_line_bytes, headers)) + _line_bytes((_PADDING, "")) + len(BLANK_LINE)
    return [*headers, (_PADDING, "." * (HEAD_BYTES - used))]


def common_headers(request_id: str | None, *, close: bool) -> Headers:
    """Return the headers that every answer carries: the echoed request id, and the end of the connection if it is."""
    echo = [("x-request-id", request_id)] if request_id is not None else []
    return [*echo, ("connection", "close")] if close else echo


def chunk(data: bytes) -> bytes:
    """Frame one piece in chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def wire_bytes(events: int, *, model: str) -> int:
    """Return how many bytes a streamed answer takes up to the end of its first `events` token events, head included."""
    return HEAD_BYTES + events * len(chunk(answers.event(model, _SAMPLE_WORD)))


def _line_bytes(header: tuple[str, str]) -> int:
    name, value = header
    return len(f"{name}: {value}\r\n".encode())
