"""One request on its way through the router."""

from aiohttp import web
from multidict import CIMultiDict

from router import headers
from router.body import BodySlot
from router.buffered import Hold
from router.core.chain import ChainBudget
from router.streaming import PassedOn
from router.upstream import Attempt


class Talk:
    """What the driver remembers of one request from its arrival to its end.

    `request_id` is the client's x-request-id, else a name of our own that never leaves the logs.
    """

    __slots__ = (
        "attempts",
        "chain",
        "deadline_s",
        "headers",
        "hold",
        "model",
        "out",
        "request",
        "request_id",
        "slot",
        "started_s",
    )

    def __init__(
        self, request: web.BaseRequest, chain: ChainBudget, hold: Hold, *, started_s: float, request_id: str
    ) -> None:
        self.request = request
        self.chain = chain
        """What the layers above have left."""
        self.hold = hold
        """What its body has of the router's memory."""
        self.request_id = request_id
        self.started_s = started_s
        self.deadline_s = 0.0
        self.model = ""
        self.slot = BodySlot(b"")
        self.headers: CIMultiDict[str] = CIMultiDict()
        """What a pool gets."""
        self.attempts: list[Attempt] = []
        self.out: PassedOn | None = None
        """The answer that is being passed on; None until there is one."""

    @property
    def clients_id(self) -> str | None:
        """The x-request-id as the client gave it, if it can be given back."""
        return headers.plain(self.request.headers, headers.REQUEST_ID)

    @property
    def target(self) -> str:
        """Path and query, as the client wrote them."""
        return self.request.rel_url.raw_path_qs
