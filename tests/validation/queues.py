"""Queues of the textbooks: Erlang's formulas, Pollaczek and Khinchine's, impatience, retrial queues, a pool under load.

Service rates are 1 and times are in units of a service, unless a row says otherwise.
"""

from typing import Any

import numpy as np

from scenarios.layers import Backoff, Layer
from scenarios.spec import Scenario, Service
from simulator import chain as model
from simulator.chain.columns import JOB_REJECTED
from tests.simulator.chains import textbook
from tests.validation.row import Exactly, Measured, Row

OPERATIONS = 100_000
WARM = 0.02
"""Share of the operations that come before the queue is what it will be."""

ERLANG = "A. K. Erlang, 1917; L. Kleinrock, Queueing Systems, 1975"
POLLACZEK = "F. Pollaczek, 1930; A. Khinchine, 1932"
PALM = "C. Palm, 1957 (Erlang A)"
BARRER = "D. Y. Barrer, Operations Research 5, 1957"
RETRIAL = "G. Falin and J. Templeton, Retrial Queues, 1997"
BIRTH_DEATH = "birth-death chain of capacity c / (s1 F), solved numerically"


def _observed(scenario: Scenario, replication: int) -> Measured:
    """Return what textbooks ask of a queue: waits, stays, numbers there, what was lost, how idle it is."""
    outcome = model.run(scenario, replication)
    sends = outcome.sends
    first = int(WARM * len(sends["operation"]))
    sends = {name: column[first:] for name, column in sends.items()}
    operations = outcome.operations
    begun = ~np.isnan(sends["t_work_s"])
    wait_s = sends["t_work_s"][begun] - sends["t_start_s"][begun]
    stay_s = sends["t_end_s"] - sends["t_start_s"]
    entered = sends["job"] != JOB_REJECTED
    span_s = float(sends["t_start_s"][-1] - sends["t_start_s"][0])
    work_s = sends["t_done_s"][begun] - sends["t_work_s"][begun]
    ok = sends["end"] == 0
    left_s = np.where(begun, 0.0, stay_s)
    took_s = operations["t_end_s"] - operations["t_start_s"]
    known = np.arange(len(took_s)) >= int(WARM * len(took_s))
    work_of = np.bincount(sends["operation"][begun], work_s, minlength=len(took_s))
    return {
        "P(wait)": float(np.mean(wait_s > 1e-9)),
        "Wq": float(wait_s.mean()),
        "W": float(stay_s[entered].mean()),
        "L": float(stay_s[entered].sum()) / span_s,
        "Lq": (float(wait_s.sum()) + float(left_s[entered].sum())) / span_s,
        "p50": float(np.quantile(stay_s[ok], 0.5)),
        "p99": float(np.quantile(stay_s[ok], 0.99)),
        "p99 Wq": float(np.quantile(wait_s, 0.99)),
        "blocked": float(np.mean(~entered)),
        "lost": float(np.mean(~ok & entered)),
        "idle": 1.0 - float(work_s.sum()) / span_s / scenario.pools[0].slots if scenario.pools[0].slots else 0.0,
        "orbit": float((took_s[known] - work_of[known]).sum()) / float(np.ptp(operations["t_start_s"][known])),
    }


def _queue(row: str, what: str, source: str, expected: dict[str, Exactly], *, slow: bool = False, **knobs: Any) -> Row:
    rate = knobs.pop("rate")
    operations = knobs.pop("operations", OPERATIONS)
    scenario = textbook(rate, operations=operations, **knobs)
    return Row(
        id=row,
        what=what,
        source=source,
        measure=lambda replication: _observed(scenario, replication),
        expected=expected,
        slow=slow,
    )


def _within(tol: float, **values: float) -> dict[str, Exactly]:
    return {name.replace("_", " "): Exactly(value, tol) for name, value in values.items()}


def _patient(mean_s: float, spread: Any) -> Layer:
    return Layer(name="client", attempt_timeout_s=mean_s, timeout_covers="queue", timeout_spread=spread)


def _retrial(rate: float) -> Layer:
    pause = Backoff(initial_s=1 / rate, max_s=1 / rate, factor=1.0, spread="exponential")
    return Layer(name="client", retries=1_000_000, retry_on=("503",), backoff=pause)


def _busy(mean_s: float) -> Service:
    return Service(kind="exponential", mean_s=mean_s, load_factor=1.5)


ROWS = (
    _queue(
        "Q1",
        "M/M/1, lambda .8",
        ERLANG,
        _within(0.03, Wq=4.0, W=5.0, L=4.0, p50=3.466) | _within(0.06, p99=23.026),
        rate=0.8,
        operations=200_000,
    ),
    _queue("Q2", "M/M/2, offered 1.6", ERLANG, {"P(wait)": Exactly(0.71111, 0.03), "Wq": Exactly(1.7778, 0.03)},
           rate=1.6, slots=2),
    _queue("Q3", "M/M/10, lambda 8", ERLANG,
           {"P(wait)": Exactly(0.40918, 0.05), "Wq": Exactly(0.20459, 0.05), "p99 Wq": Exactly(1.8558, 0.05)},
           rate=8.0, slots=10),
    _queue("Q5", "M/M/10/10, offered 8 (Erlang B)", ERLANG, _within(0.03, blocked=0.121661),
           rate=8.0, slots=10, queue_max=0),
    _queue("Q6", "M/M/1/K, 10 in the system, lambda .9", ERLANG, _within(0.03, blocked=0.050814, L=3.9694, W=4.6466),
           rate=0.9, queue_max=9),
    _queue("Q8", "M/D/1, lambda .7", POLLACZEK, _within(0.02, Wq=1.166667), rate=0.7, kind="deterministic"),
    _queue("Q9", "M/lognormal/1, lambda .7, mean 1, cv2 4", POLLACZEK, _within(0.06, Wq=5.833333),
           rate=0.7, operations=400_000, service=Service(kind="lognormal", mean_s=1.0, cv2=4.0), slow=True),
    _queue("Q10", "M/M/1+M, lambda .9, theta .2 (Erlang A)", PALM, _within(0.015, lost=0.209546, Lq=0.94296),
           rate=0.9, layer=_patient(5.0, "exponential"), cancel="queue"),
    _queue("Q12", "M/M/1+D, lambda .9, patience 5", BARRER, _within(0.02, lost=0.107306, idle=0.196576),
           rate=0.9, layer=_patient(5.0, "fixed"), cancel="queue"),
    _queue("Q13", "M/M/1+D, lambda 1, patience 10", BARRER, _within(0.03, lost=1 / 12),
           rate=1.0, layer=_patient(10.0, "fixed"), cancel="queue"),
    _queue("Q14a", "M/M/1 retrial, lambda .5, theta .2", RETRIAL, _within(0.02, orbit=3.0),
           rate=0.5, layer=_retrial(0.2), queue_max=0),
    _queue("Q14b", "M/M/1 retrial, lambda .7, theta 1", RETRIAL, _within(0.02, orbit=3.26667),
           rate=0.7, operations=50_000, layer=_retrial(1.0), queue_max=0),
    _queue("L1a", "LLM pool, 8 slots, s1 1, F 1.5, lambda 4", BIRTH_DEATH, _within(0.02, W=1.5930, Wq=0.2226),
           rate=4.0, slots=8, service=_busy(1.0)),
    _queue("L1b", "LLM pool, 8 slots, s1 1, F 1.5, lambda 5", BIRTH_DEATH, _within(0.06, W=3.8006, Wq=2.3314),
           rate=5.0, slots=8, service=_busy(1.0)),
)  # fmt: skip
