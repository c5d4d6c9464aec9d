"""How a request on a connection that stands can fail by our own observation; the kernel's failures are OSErrors."""

from router.core.delivery import Cause


class UpstreamError(Exception):
    """A request to a frontend came to nothing. The text repeats nothing of what the frontend said."""


class Late(UpstreamError):
    """A bound of ours was reached; `cause` names it."""

    def __init__(self, cause: Cause, words: str) -> None:
        super().__init__(words)
        self.cause = cause


class Lost(UpstreamError):
    """The connection has ended before the answer has."""


class NotHttp(UpstreamError):
    """What came is not an answer in HTTP/1.1."""
