"""One entry of a pool server: what it asks for, and what becomes of it."""

from enum import Enum
from typing import Final


class JobState(Enum):
    """Where a job is."""

    NEW = "new"
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


NEW: Final = JobState.NEW
QUEUED: Final = JobState.QUEUED
RUNNING: Final = JobState.RUNNING
FINISHED: Final = JobState.FINISHED
CANCELLED: Final = JobState.CANCELLED
REJECTED: Final = JobState.REJECTED


class Job:
    """One entry of a pool. A driver may subclass it and keep more in it; jobs are told apart by identity.

    `work_s` is the whole work in seconds at load 1, `prefill_s` the part of it before the first token, `tokens` the
    length of the answer. The server writes `start_s` and `first_token_s` when the job starts, and `end_s` when it has
    finished or was cancelled. Where a load falls after the start, the work may end before `first_token_s`, which is
    then brought forward to `end_s`.
    """

    __slots__ = ("end_s", "first_token_s", "prefill_s", "start_s", "start_v", "state", "tokens", "work_s")

    start_s: float
    first_token_s: float
    end_s: float
    start_v: float
    """Where the virtual clock stood at the start: the server's own business."""

    def __init__(self, work_s: float, *, prefill_s: float = 0.0, tokens: int = 0) -> None:
        self.work_s = work_s
        self.prefill_s = prefill_s
        self.tokens = tokens
        self.state = NEW

    def tokens_done(self, work_s: float) -> int:
        """Return how many tokens are out once so much of the work is done: the first after the prefill, then evenly."""
        if work_s >= self.work_s:
            return self.tokens
        if self.tokens < 2 or work_s < self.prefill_s:
            return 0
        return 1 + int((work_s - self.prefill_s) / (self.work_s - self.prefill_s) * (self.tokens - 1))
