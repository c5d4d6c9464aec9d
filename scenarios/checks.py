"""Every check of one run, by name, and which of them a scenario asks for.

A check reads one record and says pass, fail or undecided, with what it found. Each can fail.
"""

from collections.abc import Callable

from scenarios import accounts, claims, expectations, laws
from scenarios.fitness import unfit
from scenarios.measures.checks import expected_class, expected_measures
from scenarios.record import Record
from scenarios.spec import Scenario
from scenarios.verdict import State, Verdict, undecided

__all__ = ["CHECKS", "Check", "State", "Verdict", "checks_for", "judge"]

Check = Callable[[Record], Verdict]

CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        laws.never_twice,
        laws.at_most_two_sends,
        laws.never_same_pool_twice,
        laws.only_unsent_goes_again,
        laws.one_answer_each,
        laws.no_false_end,
        laws.in_flight_zero,
        accounts.only_issued_ids,
        accounts.sends_match_pools,
        claims.delivery_follows_slot,
        claims.claims_match_sends,
        accounts.bytes_unaltered,
        accounts.metrics_add_up,
        expectations.faults_fired,
        expectations.every_byte_before_break,
        expectations.expected_answers,
        expectations.expected_failovers,
        expectations.expected_resends,
        expected_measures,
        expected_class,
    )
}
"""In the order in which tables show them: the laws first, then the books, then the scenario's own wishes."""

_OF_A_ROUTER = frozenset(
    ("never_twice", "at_most_two_sends", "never_same_pool_twice", "only_unsent_goes_again", "metrics_add_up")
)
"""Laws of this project's router: other gateways, which a layer can stand for, break them by design."""

_OF_CLIENTS = frozenset(
    ("one_answer_each", "no_false_end", "claims_match_sends", "bytes_unaltered", "every_byte_before_break")
)
"""Checks of bytes, headers and the ends that stock clients see, none of which the queue-level model has."""

_ASKED_FOR: dict[str, Callable[[Scenario], bool]] = {
    "faults_fired": lambda scenario: bool(scenario.faults),
    "every_byte_before_break": lambda scenario: any(fault.kind == "cut" for fault in scenario.faults),
    "expected_answers": lambda scenario: bool(scenario.expect.answers),
    "expected_failovers": lambda scenario: scenario.expect.failovers is not None,
    "expected_resends": lambda scenario: scenario.expect.sdk_resends is not None,
    "expected_measures": lambda scenario: bool(scenario.expect.measures),
    "expected_class": lambda scenario: scenario.expect.run_class is not None,
}
"""Checks that have a meaning in some scenarios only."""


def checks_for(scenario: Scenario) -> dict[str, Check]:
    """Return the checks that a scenario asks for; what would have nothing to look at is left out."""
    out = _beyond_the_model(scenario)
    return {
        name: check
        for name, check in CHECKS.items()
        if name not in out and (name not in _ASKED_FOR or _ASKED_FOR[name](scenario))
    }


def _beyond_the_model(scenario: Scenario) -> frozenset[str]:
    """Name the checks that cannot be asked of a scenario with layers."""
    if not scenario.layers:
        return frozenset()
    out = _OF_CLIENTS if scenario.layers[-1].kind == "pooldrill" else _OF_CLIENTS | _OF_A_ROUTER
    # A horizon stops the model in the midst of its work.
    return out if scenario.horizon_s is None else out | {"in_flight_zero"}


def judge(record: Record) -> dict[str, Verdict]:
    """Run every check that the record's scenario asks for. An unfit run is never judged: all undecided."""
    checks = checks_for(record.scenario)
    if why := unfit(record):
        return dict.fromkeys(checks, undecided(f"the run is invalid: {why}"))
    return {name: check(record) for name, check in checks.items()}
