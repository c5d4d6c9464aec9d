"""The queue-level model of a whole chain: users, layers that retry, pools with queues; see simulator/README.md."""

from simulator.chain.outcome import Outcome
from simulator.chain.run import run

__all__ = ["Outcome", "run"]
