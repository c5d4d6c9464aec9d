"""Reading a client's request: its bounds, its body, and the one field of the body that routing needs.

Laws
1. What can be refused by the head alone is refused before any byte of the body is asked for: `100 Continue` is said
   only once the size is accepted and its bytes are reserved.
2. A body is held once: it grows in one buffer, which becomes the body without another copy.
3. Every wait for a body has three bounds: between two pieces, for the whole body, and the request's deadline.
"""

import asyncio
import io
from contextlib import suppress

import msgspec
from aiohttp import HttpVersion11, web

from router import headers
from router.buffered import BufferedBytes, Hold
from router.core.chain import ChainBudget
from router.core.refusal import Code
from router.refused import Refused
from router.settings import ShellConfig

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyBroken(Exception):
    """The framing of a body is not HTTP; nobody knows where the next request begins."""


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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refused(Code.BAD_REQUEST, f"The body is not JSON: {_place_of(problem)}.") from None
    if not model:
        raise Refused(Code.BAD_REQUEST, "`model` must not be empty.")
    return model


def _place_of(problem: Exception) -> str:
    """Say what is wrong with a body without quoting it."""
    return f"byte {problem.start} is not UTF-8" if isinstance(problem, UnicodeDecodeError) else str(problem)


def deadline_of(chain: ChainBudget, deadline_s: float) -> float:
    """Return the seconds this request may take: the router's deadline, or less if nobody waits as long."""
    if headers.DEADLINE_MS in chain.ignored:
        wrong = chain.ignored[headers.DEADLINE_MS]
        must = f"{headers.DEADLINE_MS} must be a whole number of milliseconds"
        raise Refused(Code.BAD_REQUEST, f"{must}; {wrong}.", reason=f"{must}.")
    return min(deadline_s, chain.within_s)


def check_head(request: web.BaseRequest, bytes_max: int) -> None:
    """Refuse what can be refused before the body has come. Raises Refused."""
    length = request.content_length
    if length is not None and length > bytes_max:
        raise _too_large(bytes_max)
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding != "identity":
        problem = "The body is encoded"
        raise Refused(Code.BAD_REQUEST, f"{problem} as {coding[:40]!r}; send it as it is.", reason=f"{problem}.")
    unsendable = headers.unsendable(request.headers)
    if unsendable is not None:
        raise Refused(Code.BAD_REQUEST, f"The header {unsendable} is not UTF-8.")


class Intake:
    """Reads bodies within the bounds of the settings; all that is held at one time is counted in `buffered`."""

    def __init__(self, shell: ShellConfig) -> None:
        self._bytes_max = shell.body_bytes_max
        self._whole_s = shell.body_timeout_s
        self._idle_s = shell.body_idle_timeout_s
        self.buffered = BufferedBytes(shell.buffered_bytes_max)

    async def read(self, request: web.BaseRequest, hold: Hold, *, until_s: float, deadline_s: float) -> bytes:
        """Check the head, then read the whole body, until `until_s` on the loop's clock. Raises Refused.

        `deadline_s` is what the request had from its start, for words.
        """
        check_head(request, self._bytes_max)
        hold.grow_to(request.content_length or 0)
        try:
            if request.content.is_eof():
                body = await request.content.readany()
                self._grown(hold, len(body))
                return body
            if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
                with suppress(ConnectionError):  # of a client that is gone: reading its body ends with that
                    await request.writer.write(_CONTINUE)
                request.writer.output_size = 0  # the answer proper has not begun
            return await self._pieces(request, hold, (until_s, f"within the deadline of {deadline_s:g} s"))
        except BodyBroken:
            raise Refused(Code.BAD_REQUEST, "The framing of the body is not HTTP/1.1.") from None

    async def _pieces(self, request: web.BaseRequest, hold: Hold, deadline: tuple[float, str]) -> bytes:
        now, read = asyncio.get_running_loop().time, request.content.readany
        whole = now() + self._whole_s, f"whole within {self._whole_s:g} s"
        buffer = io.BytesIO()
        try:
            async with asyncio.timeout(None) as clock:
                while True:
                    bound = min(
                        deadline, whole, (now() + self._idle_s, f"further: nothing came for {self._idle_s:g} s")
                    )
                    clock.reschedule(bound[0])
                    piece = await read()
                    if not piece:
                        return buffer.getvalue()
                    self._grown(hold, buffer.tell() + len(piece))
                    buffer.write(piece)
        except TimeoutError:
            raise Refused(Code.CLIENT_TOO_SLOW, f"The body did not arrive {bound[1]}.") from None

    def _grown(self, hold: Hold, size: int) -> None:
        if size > self._bytes_max:
            raise _too_large(self._bytes_max)
        hold.grow_to(size)


def _too_large(bytes_max: int) -> Refused:
    return Refused(Code.BODY_TOO_LARGE, f"The body is larger than {bytes_max} bytes, the most this router takes.")
