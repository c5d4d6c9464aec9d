"""Where clients write down what was asked and what came of it."""

from collections.abc import Sequence

from chaos.clients.exchange import Exchange
from scenarios.plan import Planned
from scenarios.record import Operation, Request


class Ledger:
    """The rows of all clients of one run, times absolute on the loop's clock."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.requests: list[Request] = []

    def enter(
        self, planned: Planned, exchanges: Sequence[Exchange], *, t_intended: float, t_end: float, error: str
    ) -> None:
        """Write down an operation that has ended, with its requests in order."""
        self.requests.extend(exchange.row() for exchange in exchanges)
        self.operations.append(
            Operation(
                operation_id=planned.operation_id,
                load=planned.load,
                t_intended=t_intended,
                t_end=t_end,
                ok=not error and bool(exchanges) and exchanges[-1].ok,
                requests=len(exchanges),
                session=planned.session,
                error=error,
            )
        )
