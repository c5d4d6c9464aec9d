"""Ids of the harness's own requests: a pool that sees an id which nobody issued fails the run."""

import asyncio

from chaos.faults.fault import ProbeIds
from scenarios.record import Probe


class ProbeBook:
    """Issues ids and keeps what came of each; times on the loop's clock."""

    def __init__(self) -> None:
        self._issued: list[Probe] = []

    def issue(self, target: str) -> ProbeIds:
        """Return new ids for a probe of a target."""
        operation_id = f"probe-{len(self._issued)}"
        request_id = f"{operation_id}-r0"
        now_s = asyncio.get_running_loop().time()
        self._issued.append(Probe(request_id=request_id, target=target, t=now_s, outcome=""))
        return ProbeIds(operation_id=operation_id, request_id=request_id)

    def settle(self, target: str, outcome: str) -> None:
        """Write down what the probes of a target saw that were issued since the last time."""
        self._issued = [
            Probe(request_id=p.request_id, target=p.target, t=p.t, outcome=outcome)
            if p.target == target and not p.outcome
            else p
            for p in self._issued
        ]

    def rows(self) -> list[Probe]:
        """Return every probe in the order of issue."""
        return list(self._issued)
