"""Reading a client's request: its bounds, its body, and the one field of the body that routing needs."""

import asyncio

import msgspec
from aiohttp import web

from router import headers
from router.answers import Refused
from router.core.chain import ChainBudget
from router.core.clock import Clock
from router.core.refusal import Code

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Body(msgspec.Struct):
    """What is read of a body; everything else in it is the pool's business."""

    model: str


_decode = msgspec.json.Decoder(_Body).decode


def model_of(body: bytes) -> str:
    """Return the model that a body asks for. Raises Refused."""
    try:
        model = _decode(body).model
    except msgspec.ValidationError as problem:
        raise Refused(Code.BAD_REQUEST, f"The body must be a JSON object with a string `model`: {problem}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Refused(Code.BAD_REQUEST, f"The body is not JSON: {problem}.") from None
    if not model:
        raise Refused(Code.BAD_REQUEST, "`model` must not be empty.")
    return model


def deadline_of(chain: ChainBudget, deadline_s: float) -> float:
    """Return the seconds this request may take: the router's deadline, or less if nobody waits as long."""
    if headers.DEADLINE_MS in chain.ignored:
        wrong = chain.ignored[headers.DEADLINE_MS]
        raise Refused(Code.BAD_REQUEST, f"{headers.DEADLINE_MS} must be a whole number of milliseconds; {wrong}.")
    return min(deadline_s, chain.within_s)


def check_head(request: web.BaseRequest, bytes_max: int) -> None:
    """Refuse what can be refused before the body has come. Raises Refused."""
    length = request.content_length
    if length is not None and length > bytes_max:
        raise _too_large(bytes_max)
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding != "identity":
        raise Refused(Code.BAD_REQUEST, f"The body is encoded as {coding!r}; send it as it is.")
    unsendable = headers.unsendable(request.headers)
    if unsendable is not None:
        raise Refused(Code.BAD_REQUEST, f"The header {unsendable} is not UTF-8.")


async def read_body(request: web.BaseRequest, *, bytes_max: int, until_s: float, clock: Clock) -> bytes:
    """Read the whole body, at most `bytes_max` bytes, until `until_s` on the clock. Raises Refused."""
    expected = request.headers.get("Expect")
    if expected is not None and expected.lower() == "100-continue":
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # the answer proper has not begun
    content = request.content
    if content.is_eof():
        return _within(await content.readany(), bytes_max)
    pieces: list[bytes] = []
    size = 0
    started_s = clock.monotonic()
    try:
        async with asyncio.timeout_at(until_s):
            while piece := await content.readany():
                size += len(piece)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                pieces.append(piece)
    except TimeoutError:
        raise Refused(
            Code.CLIENT_TOO_SLOW, f"The body did not arrive within the deadline of {until_s - started_s:g} s."
        ) from None
    return b"".join(pieces)


def _within(body: bytes, bytes_max: int) -> bytes:
    if len(body) > bytes_max:
        raise _too_large(bytes_max)
    return body


def _too_large(bytes_max: int) -> Refused:
    return Refused(Code.BODY_TOO_LARGE, f"The body is larger than {bytes_max} bytes, the most this router takes.")
