"""The columns of a queue-level run as all measures take them."""

import numpy as np

from scenarios.measures.history import (
    Attempts,
    FaultSpan,
    History,
    Ints,
    Operations,
    Sends,
    bools,
    floats,
    ints,
)
from simulator.chain.columns import JOB_CANCELLED, JOB_FINISHED, JOB_QUEUED, JOB_RUNNING, Columns, tokens_made
from simulator.chain.outcome import Outcome
from simulator.chain.results import OK_END

_ENTERED = (JOB_QUEUED, JOB_RUNNING, JOB_FINISHED, JOB_CANCELLED)


def history_of(outcome: Outcome) -> History:
    """Return one replication of the queue-level model as columns; it lacks nothing."""
    pools = tuple(pool.id for pool in outcome.scenario.pools)
    by_frontend = ints([pools.index(frontend.pool) for frontend in outcome.frontends])
    rows = outcome.operations
    return History(
        operations=Operations(
            t_s=floats(rows["t_start_s"]),
            first_s=floats(rows["t_first_s"]),
            end_s=floats(rows["t_end_s"]),
            ok=bools(rows["end"] == OK_END),
        ),
        sends=_sends(outcome.sends, by_frontend[outcome.sends["frontend"]]),
        attempts={
            name: Attempts(operation=ints(table["operation"]), start_s=floats(table["t_start_s"]))
            for name, table in outcome.layers.items()
        },
        pools=pools,
        faults=tuple(
            FaultSpan(pool=pools.index(fault.pool), start_s=fault.inject_s, end_s=fault.clear_s)
            for fault in (outcome.scenario.faults if outcome.faults else ())
        ),
        end_s=outcome.end_s,
        warm_up_s=outcome.scenario.warm_up_s,
        lacks={},
    )


def _sends(table: Columns, pool: Ints) -> Sends:
    return Sends(
        operation=ints(table["operation"]),
        pool=pool,
        start_s=floats(table["t_start_s"]),
        left_s=floats(table["t_end_s"]),
        entered=bools(np.isin(table["job"], _ENTERED)),
        work_s=floats(table["t_work_s"]),
        free_s=floats(table["t_done_s"]),
        ok=bools(table["end"] == OK_END),
        tokens=floats(tokens_made(table)),
    )
