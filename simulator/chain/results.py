"""How an attempt can come out, for whoever made it."""

from typing import Final, Literal

from router.core.budgets.retry_budget import Ending
from router.core.refusal import Code

Kind = Literal["ok", "connect", "lost", "timeout", "status", "left", "open"]
KINDS: Final[tuple[Kind, ...]] = ("ok", "connect", "lost", "timeout", "status", "left", "open")
"""Ends of an attempt, by their number in the columns: complete; provably unsent; lost after hand-over; given up by the
layer that made it; answered with an error status; its caller left; still under way when the model stopped."""

OK_END, CONNECT_END, LOST_END, TIMEOUT_END, STATUS_END, LEFT_END, OPEN_END = range(len(KINDS))

CODES: Final = ("", *Code)
"""Error codes of the router's own answers, by their number in the columns."""

_NOT_NOW = frozenset((429, 503, 529))


class Result:
    """One way to come out. `end` numbers the kind; `retry_after_s` and `veto` are what the answer's headers say.

    `code` numbers the error code of a router's own answer (see CODES), 0: it has none. `key` is what a layer's
    `retry_on` is asked with; `cheap` tells that the pool has done nothing but refuse, `begun` that the caller has had
    the first token of a stream already.
    """

    __slots__ = ("begun", "cheap", "code", "end", "ending", "key", "retry_after_s", "status", "veto")

    def __init__(
        self,
        end: int,
        *,
        status: int = 0,
        retry_after_s: float | None = None,
        veto: bool = False,
        cheap: bool = False,
        code: int = 0,
        begun: bool = False,
    ) -> None:
        self.end = end
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s
        self.veto = veto
        self.cheap = cheap
        self.begun = begun
        # No layer is asked about a stream that has begun: what it has passed on it cannot take back.
        self.key: str | int = "begun" if begun else status if end == STATUS_END else KINDS[end]
        self.ending = _ending(end, status)

    def vetoed(self) -> "Result":
        """Return the same with the word that nobody shall send again."""
        return Result(
            self.end,
            status=self.status,
            retry_after_s=self.retry_after_s,
            veto=True,
            cheap=self.cheap,
            code=self.code,
            begun=self.begun,
        )

    def __repr__(self) -> str:
        return f"<Result {self.key}{' veto' if self.veto else ''}>"


def _ending(end: int, status: int) -> Ending:
    """Say what it means to a retry budget."""
    if end == STATUS_END:
        return Ending.THROTTLED if status in _NOT_NOW else Ending.FAILURE
    return {OK_END: Ending.SUCCESS, TIMEOUT_END: Ending.TIMEOUT, LEFT_END: Ending.LEFT}.get(end, Ending.FAILURE)


OK: Final = Result(OK_END, status=200)
CONNECT: Final = Result(CONNECT_END)
LOST: Final = Result(LOST_END)
BROKEN: Final = Result(LOST_END, begun=True)
TIMEOUT: Final = Result(TIMEOUT_END)
CUT_SHORT: Final = Result(TIMEOUT_END, begun=True)
LEFT: Final = Result(LEFT_END)

_GATEWAY_STATUS: Final = {CONNECT_END: 503, LOST_END: 502, TIMEOUT_END: 504}
_AS_STATUS: Final = {
    (end, veto): Result(STATUS_END, status=status, veto=veto)
    for end, status in _GATEWAY_STATUS.items()
    for veto in (False, True)
}


def as_gateway(result: Result) -> Result:
    """Return what a layer of its own tells its caller: connect, loss and time-out become 503, 502, 504.

    A stream that has begun has its status already: whatever ended it, the caller sees it break off.
    """
    return BROKEN if result.begun else _AS_STATUS.get((result.end, result.veto), result)
