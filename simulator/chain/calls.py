"""What goes down the chain: the operation, one call for each attempt of a layer, one attempt at a pool.

An attempt of a layer is a call of the layer below it, and the operation is the call of the outermost layer. `live` is
true as long as somebody waits for it; all that waits for it in timers looks at that and at nothing else.
"""

from math import inf, nan
from typing import TYPE_CHECKING, Any

from router.core.budgets.retry_budget import Call as BudgetCall
from scenarios.world.job import NEW, QUEUED, RUNNING, Job
from simulator.chain.results import OPEN_END

if TYPE_CHECKING:
    from router.core.effects import Send, Waiting
    from simulator.chain.pools import Frontend

CONNECTING, WAITING, WORKING, TELLING = range(4)
"""How far an attempt is: no connection yet, no slot yet, no token yet, tokens are coming."""


class Call:
    """One call of one layer. `attempts` counts what the layer has made for it, `child` is the one under way."""

    __slots__ = (
        "attempts",
        "budget",
        "budget_call",
        "child",
        "end",
        "instance",
        "live",
        "number",
        "operation",
        "parent",
        "status",
        "t_start_s",
        "turn",
        "until_s",
        "waiting",
    )

    def __init__(self, operation: "Operation", parent: "Call | None", number: int, t_start_s: float) -> None:
        self.operation = operation
        self.parent = parent
        self.number = number
        self.t_start_s = t_start_s
        self.attempts = 0
        self.child: Call | Attempt | None = None
        self.live = True
        self.until_s = inf
        self.turn = 0
        self.instance = 0
        self.budget: Any = None
        self.budget_call: BudgetCall | None = None
        self.waiting: Waiting | None = None


class Operation(Call):
    """What a user's program asked for: the call of the outermost layer.

    `unit` is the draw that its first send's service time is made of; `spent` counts re-sends of the whole chain.
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
        "turns",
        "unit",
    )

    def __init__(self, index: int, load: int, model: str, t_start_s: float, unit: Any, layers: int) -> None:
        Call.__init__(self, self, None, 1, t_start_s)
        self.turn = 1
        self.index = index
        self.load = load
        self.model = model
        self.unit = unit
        self.sends = 0
        self.spent = 0
        self.session: str | None = None
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.turns = [0] * layers


class Attempt(Job):
    """One send to a pool: the router's send, the pool's job and the row of the record in one."""

    __slots__ = (
        "closed",
        "connected",
        "cut_after",
        "end",
        "frontend",
        "live",
        "number",
        "operation",
        "parent",
        "send",
        "status",
        "t_end_s",
        "t_start_s",
    )

    def __init__(
        self,
        parent: Call,
        frontend: "Frontend",
        number: int,
        t_start_s: float,
        work: tuple[float, float, int],
    ) -> None:
        # What Job.__init__ does, written out: this is the hot path of the model.
        self.prefill_s, self.work_s, self.tokens = work
        self.state = NEW
        self.parent = parent
        self.operation = parent.operation
        self.frontend = frontend
        self.number = number
        self.t_start_s = t_start_s
        self.t_end_s = nan
        self.end = OPEN_END
        self.status = 0
        self.live = True
        self.connected = False
        self.closed = False
        self.cut_after = 0
        self.send: Send | None = None

    def phase(self, now_s: float) -> int:
        """Return how far it is."""
        if self.state is RUNNING:
            return TELLING if self.first_token_s <= now_s else WORKING
        if self.state is QUEUED:
            return WAITING
        return WAITING if self.connected else CONNECTING


def phase_of(call: Call, now_s: float) -> int:
    """Return how far a call is: as far as its present attempt."""
    child = call.child
    while isinstance(child, Call):
        child = child.child
    return CONNECTING if child is None or not child.live else child.phase(now_s)
