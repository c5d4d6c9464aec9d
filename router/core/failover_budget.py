"""The extra limit on the router's own failovers: one budget of whatever kind over all requests.

A call of the budget is one client request, its first attempt the first send; a failover is its one retry.
"""

from router.core.budgets.retry_budget import Call, Ending, RetryBudget, ending_of
from router.core.effects import End, Request, Send


class FailoverBudget:
    """Tells a budget of sends, and asks it before a failover."""

    __slots__ = ("_budget",)

    def __init__(self, budget: RetryBudget) -> None:
        self._budget = budget

    def begins(self, request: Request, now: float) -> None:
        """Take in the first send of a request."""
        request.call = Call()
        self._budget.deposit(request.call, now)

    def ended(self, send: Send, now: float) -> None:
        """Take in that a send has ended, its answer's stream included."""
        broken = send.end is not None and send.end is not End.COMPLETE
        self._budget.ended(_call_of(send.request), Ending.FAILURE if broken else ending_of(send.outcome), now)

    def allows(self, request: Request, now: float) -> bool:
        """Tell whether the budget allows a failover; if it does, its price is paid."""
        return self._budget.try_withdraw(_call_of(request), now)

    def balance(self, now: float) -> float:
        """Return what is left, in the unit of the budget's kind."""
        return self._budget.balance(now)


def _call_of(request: Request) -> Call:
    assert request.call is not None, "a request's first send was told"
    return request.call
