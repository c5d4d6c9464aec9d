"""What happened in a modelled run, row by row, in the order in which it happened."""

from scenarios.record import Operation, PoolEvent, Request, Send


class Journal:
    """The rows that clients, router and frontends write while the model runs."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.requests: list[Request] = []
        self.sends: list[Send] = []
        self.pool_events: list[PoolEvent] = []
