"""What must hold in every run of the model, whatever the scenario: checked over the columns, cheaply.

1. Conservation: operations = ended well + ended badly + still open; each layer's attempts = calls + retries; each
   frontend's offers = finished + cancelled + rejected + still there, by its own count and by the rows.
2. Causality: nothing ends before it began, no work begins before it was offered or ends before it began.
3. What is there: at moments spread over the run each server's own count of who waits and who runs is that of the rows.
   Together with Little's law (an identity of the rows: see `little`) this ties mean numbers to mean stays.
4. Work conservation: at those moments nobody waits while a slot is free.
"""

from collections.abc import Iterator

import numpy as np

from simulator.chain.columns import (
    JOB_CANCELLED,
    JOB_FINISHED,
    JOB_LOST,
    JOB_QUEUED,
    JOB_REJECTED,
    JOB_RUNNING,
    Columns,
)
from simulator.chain.model import Look
from simulator.chain.outcome import Outcome
from simulator.chain.results import OPEN_END
from simulator.chain.rows import gauges


class BrokenModelError(AssertionError):
    """A run has broken a law that no scenario can break: a defect of the model."""


def check(outcome: Outcome) -> None:
    """Check a run. Raises BrokenModelError."""
    wrong = list(problems(outcome))
    if wrong:
        raise BrokenModelError(f"{outcome.scenario.name}, replication {outcome.replication}: {'; '.join(wrong[:5])}")


def problems(outcome: Outcome) -> Iterator[str]:
    """Yield every broken law."""
    yield from _operations(outcome)
    yield from _layers(outcome)
    yield from _frontends(outcome)
    yield from _causality(outcome)
    yield from _looks(outcome)


def _operations(outcome: Outcome) -> Iterator[str]:
    table = outcome.operations
    open_ = table["end"] == OPEN_END
    arrived = ~np.isnan(table["t_start_s"])
    ended = ~np.isnan(table["t_end_s"])
    if np.any(ended == open_) or np.any(ended & ~arrived):
        yield "an operation has an end and is open, or neither"
    if outcome.drained and np.any(open_):
        yield f"{int(open_.sum())} operations are open, though nothing is under way"


def _layers(outcome: Outcome) -> Iterator[str]:
    """Ask that attempts are numbered 1, 2, ... within their call, so that retries = attempts - calls."""
    for name, table in outcome.layers.items():
        firsts = int((table["number"] == 1).sum())
        calls = _calls_of(outcome, name)
        if calls is not None and outcome.drained and firsts != calls:
            yield f"{name} began {firsts} calls with an attempt, of {calls}"


def _calls_of(outcome: Outcome, name: str) -> int | None:
    """Return how many calls a layer got; None: a budget may have refused some before their first attempt."""
    layers = outcome.scenario.layers
    names = [layer.name for layer in layers]
    if not layers:
        return len(outcome.operations["end"])
    place = names.index(name)
    if any(layer.budget_gates == "attempts" or layer.kind == "pooldrill" for layer in layers[: place + 1]):
        return None
    return len(outcome.operations["end"]) if place == 0 else len(outcome.layers[names[place - 1]]["end"])


def _frontends(outcome: Outcome) -> Iterator[str]:
    sends = outcome.sends
    for place, told in enumerate(outcome.frontends):
        jobs = sends["job"][sends["frontend"] == place]
        counted = {
            "finished": (told.finished, JOB_FINISHED),
            "cancelled": (told.cancelled, JOB_CANCELLED),
            "rejected": (told.rejected, JOB_REJECTED),
            "waiting": (told.waiting, JOB_QUEUED),
            "running": (told.running, JOB_RUNNING),
        }
        for word, (count, job) in counted.items():
            rows = int((jobs == job).sum())
            if rows != count:
                yield f"{told.frontend} counts {count} {word}, the rows {rows}"
        if told.offered != sum(count for count, _ in counted.values()):
            yield f"{told.frontend} was offered {told.offered} jobs, which do not add up"


def _causality(outcome: Outcome) -> Iterator[str]:
    sends = outcome.sends
    pairs = (
        ("t_start_s", "t_end_s"),
        ("t_start_s", "t_in_s"),
        ("t_in_s", "t_work_s"),
        ("t_work_s", "t_done_s"),
        ("t_work_s", "t_first_s"),
    )
    for first, then in pairs:
        if np.any(sends[first] > sends[then]):
            yield f"a send has {then} before {first}"
    for name, table in outcome.layers.items():
        if np.any(table["t_start_s"] > table["t_end_s"]):
            yield f"an attempt of {name} ends before it begins"


def _looks(outcome: Outcome) -> Iterator[str]:
    sends = outcome.sends
    for place, told in enumerate(outcome.frontends):
        looks = [look for look in outcome.looks if look.place == place]
        here = (sends["frontend"] == place) & (sends["connected"] == 1)
        queue, in_flight = gauges(sends, here, np.asarray([look.t_s for look in looks]))
        for look, waiting, running in zip(looks, queue.tolist(), (in_flight - queue).tolist(), strict=True):
            yield from _look(look, told.frontend, waiting, running)


def _look(look: Look, name: str, waiting: int, running: int) -> Iterator[str]:
    """Compare what a server counted at one moment with what the rows have."""
    if (waiting, running) != (look.waiting, look.running):
        yield (
            f"{name} had {look.waiting} waiting and {look.running} running at {look.t_s:.3f} s, "
            f"the rows have {waiting} and {running}"
        )
    if look.waiting and look.running < look.slots:
        yield f"{name} let {look.waiting} wait at {look.t_s:.3f} s, with {look.running} of {look.slots} slots taken"


def little(sends: Columns, place: int, end_s: float) -> tuple[float, float]:
    """Return both sides of Little's law times the run's length: the integral of jobs there, the sum of their stays."""
    here = (sends["frontend"] == place) & (sends["connected"] == 1) & ~np.isin(sends["job"], (JOB_REJECTED, JOB_LOST))
    t_in = sends["t_in_s"][here]
    t_out = np.where(np.isnan(sends["t_done_s"]), end_s, sends["t_done_s"])[here]
    times = np.concatenate([t_in, t_out])
    steps = np.concatenate([np.ones_like(t_in), -np.ones_like(t_out)])
    order = np.argsort(times, kind="stable")
    times, count = times[order], np.cumsum(steps[order])
    held = float(np.sum(count[:-1] * np.diff(times))) if len(times) else 0.0
    return held, float(np.sum(t_out - t_in))
