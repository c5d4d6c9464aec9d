"""What goes down the chain: the operation, one call for each attempt of a layer, one attempt at a pool.

An attempt of a layer is a call of the layer below it, and the operation is the call of the outermost layer. `live` is
true as long as somebody waits for it; all that waits for it in timers looks at that and at nothing else.
"""

from math import inf
from typing import TYPE_CHECKING, Any

from scenarios.world.job import NEW, RUNNING, Job

if TYPE_CHECKING:
    from router.core.budgets.retry_budget import Call as BudgetCall
    from router.core.budgets.retry_budget import RetryBudget
    from router.core.effects import Send, Waiting
    from simulator.chain.pools import Frontend

CONNECTING, WAITING, WORKING, TELLING = range(4)
"""How far an attempt is for its caller: no connection yet, no slot yet, no token yet, tokens are coming."""


class Call:
    """One call of one layer. `attempts` counts what the layer has made for it, `child` is the one under way.

    `turn` numbers the calls of a layer within an operation, from 1. `until_s`, `budget` and `budget_call` are set by
    layers that have a deadline or a budget, `waiting` by a router.
    """

    __slots__ = (
        "attempts",
        "budget",
        "budget_call",
        "child",
        "live",
        "number",
        "operation",
        "parent",
        "t_start_s",
        "turn",
        "until_s",
        "waiting",
    )

    budget: "RetryBudget | None"
    budget_call: "BudgetCall"
    waiting: "Waiting | None"

    def __init__(self, operation: "Operation", parent: "Call | None", number: int, t_start_s: float, turn: int) -> None:
        self.operation = operation
        self.parent = parent
        self.number = number
        self.t_start_s = t_start_s
        self.turn = turn
        self.attempts = 0
        self.child: Call | Attempt | None = None
        self.live = True
        self.until_s = inf


class Operation(Call):
    """What a user's program asked for: the call of the outermost layer, and as such its own operation until it ends.

    `unit` is the draw that its first send's service time is made of; `spent` counts re-sends of the whole chain;
    `turns` the calls of each layer but the outermost; `stream` tells that tokens are passed on as they come.
    """

    __slots__ = (
        "index",
        "load",
        "model",
        "output_tokens",
        "prompt_tokens",
        "sends",
        "session",
        "spent",
        "stream",
        "turns",
        "unit",
    )

    stream: bool
    turns: list[int]
    prompt_tokens: int
    output_tokens: int

    def __init__(self, index: int, load: int, model: str, t_start_s: float, unit: Any) -> None:
        # What Call.__init__ does, written out: this is the hot path of the model.
        self.operation = self
        self.parent = None
        self.number = self.turn = 1
        self.t_start_s = t_start_s
        self.attempts = self.sends = self.spent = 0
        self.child = None
        self.session: str | None = None
        self.live = True
        self.until_s = inf
        self.index = index
        self.load = load
        self.model = model
        self.unit = unit


OUTSIDE, INSIDE, CLOSED = range(3)
"""Where an attempt is as its frontend sees it: not connected, in, written down."""


class Attempt(Job):
    """One send to a pool: the router's send, the pool's job and the row of the record in one.

    `index` is its operation's; `status` that of the answer, once its head is there. `end` and `t_end_s` are set when it
    is over for its caller, `cut_after` where its stream will be cut, `send` by a router.
    """

    __slots__ = (
        "cut_after",
        "end",
        "frontend",
        "index",
        "live",
        "number",
        "parent",
        "send",
        "status",
        "t_end_s",
        "t_in_s",
        "t_start_s",
        "where",
    )

    cut_after: int
    end: int
    send: "Send"
    t_end_s: float
    t_in_s: float
    """When its connection stood."""

    def __init__(
        self,
        parent: Call,
        frontend: "Frontend",
        number: int,
        t_start_s: float,
        work: tuple[float, float, int],
    ) -> None:
        # What Job.__init__ does, written out too.
        self.prefill_s, self.work_s, self.tokens = work
        self.state = NEW
        self.parent = parent
        self.index = parent.operation.index
        self.frontend = frontend
        self.number = number
        self.t_start_s = t_start_s
        self.live = True
        self.status = 0
        self.where = OUTSIDE

    def phase(self, now_s: float) -> int:
        """Return how far it is."""
        if self.state is RUNNING:
            # An answer that is not streamed comes as a whole, with its head, when the work is done.
            return TELLING if self.first_token_s <= now_s and self.parent.operation.stream else WORKING
        return WAITING if self.where == INSIDE else CONNECTING


def phase_of(call: Call, now_s: float) -> int:
    """Return how far a call is: as far as its present attempt."""
    child = call.child
    while isinstance(child, Call):
        child = child.child
    return CONNECTING if child is None or not child.live else child.phase(now_s)
