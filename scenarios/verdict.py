"""What a check says of a run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["pass", "fail", "undecided"]
NAMED_MAX = 5
"""So many ids a detail names before it only counts the rest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """pass, fail, or undecided (the record lacks what the check needs), with what was found."""

    state: State
    detail: str

    @property
    def passed(self) -> bool:
        """Whether all is well; undecided is not."""
        return self.state == "pass"


def passed(detail: str) -> Verdict:
    """All is well."""
    return Verdict("pass", detail)


def failed(detail: str) -> Verdict:
    """Something is wrong, and it was seen."""
    return Verdict("fail", detail)


def undecided(detail: str) -> Verdict:
    """The record cannot tell."""
    return Verdict("undecided", detail)


def verdict_of(found: Iterable[str], fine: str) -> Verdict:
    """Fail with what was found wrong; pass with `fine` if that is nothing."""
    wrong = list(found)
    return failed(named(wrong, "; ")) if wrong else passed(fine)


def named(things: Iterable[str], separator: str = ", ") -> str:
    """Name the first few things and count the rest."""
    every = list(things)
    more = [f"and {len(every) - NAMED_MAX} more"] if len(every) > NAMED_MAX else []
    return separator.join([*every[:NAMED_MAX], *more])
