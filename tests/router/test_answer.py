"""Reading pools' answers: every framing, and whatever is none."""

import pytest

from router.upstream.answer import HEAD_BYTES_MAX, AnswerReader
from router.upstream.faults import NotHttp

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SIZED = OK + b"Content-Length: 2\r\n\r\nok"

WHOLE = {
    "sized": (SIZED, b"ok"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "chunked": (CHUNKED + b"2\r\nok\r\n3\r\n...\r\n0\r\n\r\n", b"ok..."),
    "chunk extensions": (CHUNKED + b"2;a=b\r\nok\r\n0;c\r\n\r\n", b"ok"),
    "trailers": (CHUNKED + b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n", b"ok"),
    "both framings": (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok"),
    "both framings, chunks first": (
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok",
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", b""),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    "after interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + SIZED, b"ok",
    ),
    "after empty lines": (b"\r\n\r\n" + SIZED, b"ok"),
}  # fmt: skip
NOT_HTTP = {
    "another protocol": b"220 mail.example ESMTP\r\n\r\n",
    "no version": b"HTTP/x 200 OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "switching to nothing": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "a folded header": OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a space before the colon": OK + b"X : a\r\nContent-Length: 0\r\n\r\n",
    "a control character": OK + b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "a list of lengths": OK + b"Content-Length: 2, 2\r\n\r\nok",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n",
    "a length beyond all numbers": OK + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a coding that nobody asked for": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a chunk without a length": CHUNKED + b"zz\r\nok\r\n",
    "a chunk longer than it says": CHUNKED + b"1\r\nok\r\n0\r\n\r\n",
    "a chunk with bare line feeds": CHUNKED + b"2\nok\n0\n\n",
    "too much in one header": OK + b"X: " + b"a" * HEAD_BYTES_MAX + b"\r\nContent-Length: 0\r\n\r\n",
    "too many headers": OK + b"X: 1\r\n" * HEAD_BYTES_MAX + b"\r\n",
    "too long a reason": b"HTTP/1.1 200 " + b"a" * (HEAD_BYTES_MAX + 1) + b"\r\nContent-Length: 0\r\n\r\n",
}


def fed(data: bytes, size: int, reader: AnswerReader | None = None) -> tuple[AnswerReader, bytes]:
    """Feed an answer in pieces of `size` bytes; returns the reader and the body."""
    reader = reader or AnswerReader()
    body = b""
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        body += reader.take()
    return reader, body


def bytes_until_not_http(reader: AnswerReader, piece: bytes) -> int:
    """Feed a piece again and again until it is too much; returns how much that was."""
    for count in range(1000):
        try:
            reader.feed(piece)
        except NotHttp:
            return count * len(piece)
    return 1000 * len(piece)


@pytest.mark.parametrize("size", [1, 7, 2**20])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_answers_in_whatever_pieces(name: str, size: int) -> None:
    data, body = WHOLE[name]
    reader, read = fed(data, size)
    assert (reader.whole, reader.spoilt, read) == (True, False, body)
    assert reader.head is not None
    assert reader.head.framed


@pytest.mark.parametrize("size", [4096, 2**20])
@pytest.mark.parametrize("name", NOT_HTTP)
def test_what_is_no_answer_is_told_without_repeating_it(name: str, size: int) -> None:
    with pytest.raises(NotHttp) as raised:
        fed(NOT_HTTP[name], size)
    assert "mail" not in str(raised.value)


def test_what_came_before_a_fault_is_there() -> None:
    reader = AnswerReader()
    with pytest.raises(NotHttp):
        reader.feed(CHUNKED + b"2\r\nok\r\nnot a length\r\n")
    assert reader.take() == b"ok"
    assert not reader.whole


def test_head_and_reason_are_the_pools_bytes() -> None:
    reader, _ = fed(b"HTTP/1.1 299 Odd \xe9\r\nX-One: caf\xe9\r\nx-one: 2\r\nContent-Length: 0\r\n\r\n", 3)
    head = reader.head
    assert head is not None
    assert (head.status, head.reason) == (299, b"Odd \xe9")
    assert head.headers == [(b"X-One", b"caf\xe9"), (b"x-one", b"2"), (b"Content-Length", b"0")]
    assert (head.values("x-one"), head.values("x-two")) == ([b"caf\xe9", b"2"], [])
    assert repr(head) == "<Head 299 3 headers>"


@pytest.mark.parametrize(
    ("data", "keeps"),
    [
        (SIZED, True),
        (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", True),
        (WHOLE["both framings"][0], False),
        (WHOLE["both framings, chunks first"][0], False),
        (OK + b"\r\nto the end", False),
    ],
)
def test_which_connections_can_serve_another_request(data: bytes, keeps: bool) -> None:
    reader, _ = fed(data, 2**20)
    assert reader.head is not None
    assert reader.head.keeps is keeps


def test_what_only_the_connection_ends_says_so() -> None:
    reader, body = fed(OK + b"\r\nto the end", 4)
    assert reader.head is not None
    assert (body, reader.whole, reader.head.framed) == (b"to the end", False, False)


@pytest.mark.parametrize("after", [SIZED, b"HT", b"junk"], ids=["another answer", "half a line", "junk"])
def test_what_follows_a_whole_answer_spoils_the_connection(after: bytes) -> None:
    reader, body = fed(SIZED + after, 2**20)
    assert (reader.whole, reader.spoilt, body) == (True, True, b"ok")


def test_the_next_answer_has_nothing_of_the_last() -> None:
    reader, _ = fed(SIZED, 2**20)
    reader.feed(b"")
    reader.begin()
    assert (reader.head, reader.whole) == (None, False)
    reader, body = fed(WHOLE["chunked"][0], 5, reader)
    assert (reader.whole, reader.spoilt, body) == (True, False, b"ok...")


@pytest.mark.parametrize("start", [OK, CHUNKED + b"2\r\nok\r\n0\r\n"], ids=["head", "trailers"])
def test_endless_heads_and_trailers_end(start: bytes) -> None:
    reader = AnswerReader()
    reader.feed(start)
    reader.take()
    assert bytes_until_not_http(reader, b"X: " + b"a" * 1024 + b"\r\n") <= HEAD_BYTES_MAX + 2048


def test_an_endless_chunk_extension_ends() -> None:
    reader = AnswerReader()
    reader.feed(CHUNKED + b"2;")
    assert bytes_until_not_http(reader, b"a" * 1024) <= HEAD_BYTES_MAX + 2048


def test_interim_answers_do_not_add_up() -> None:
    reader = AnswerReader()
    for _ in range(HEAD_BYTES_MAX // 1024 + 2):
        reader.feed(b"HTTP/1.1 102 Processing\r\nX: " + b"a" * 1024 + b"\r\n\r\n")
    reader.feed(SIZED)
    assert reader.whole
