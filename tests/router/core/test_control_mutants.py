"""Defects of budgets, chain, health, switchover, discovery, drift and alarms that must not survive."""

import random
from collections.abc import Callable
from types import ModuleType

import pytest

from router.core import alarms, chain, discovery, drift, failover_budget, health, policy, switchover
from router.core.alarms import AlarmKind, Alarms
from router.core.budgets import adaptive, aws, envoy, fixed, gateway_api, grpc, sliding, token_bucket, window
from router.core.budgets.adaptive import Adaptive, AdaptiveKnobs
from router.core.delivery import Delivery
from router.core.effects import End, Failed
from tests.router.core import (
    test_alarms,
    test_budget_expectations,
    test_budget_rules,
    test_chain,
    test_discovery,
    test_drift,
    test_failover_budget,
    test_health,
    test_switchover,
)
from tests.router.core.playbook import REFUSED, ManualClock
from tests.router.core.test_budget_rules import KINDS, compare
from tests.router.core.test_mutants import mutate

Suite = Callable[[], None]


def rule(kind: str) -> Suite:
    """Compare one kind of budget with its statement."""

    def suite() -> None:
        compare(KINDS[kind], steps=3000)

    suite.__name__ = f"rule of {kind}"
    return suite


def same_dice() -> None:
    """Adaptive throttling beside its statement, which throws the same dice."""
    assert test_budget_rules.SaysAdaptive().dice.random() == random.Random(5).random()
    assert Adaptive(AdaptiveKnobs(), random.Random(5)).balance(0.0) == 1.0
    rule("adaptive")()


def half() -> None:
    """Half of gRPC's tokens."""
    test_budget_expectations.test_grpc_throttling_shuts_at_exactly_half_of_the_tokens()


def counts() -> None:
    """What the layers above report."""
    test_chain.test_every_resend_that_is_reported_counts_one({"x_envoy_attempt_count": "2"}, 1, 1)
    test_chain.test_every_resend_that_is_reported_counts_one({"x_pooldrill_retries_left": "9"}, 0, 2)
    test_chain.test_every_resend_that_is_reported_counts_one(
        {"x_stainless_retry_count": "1", "x_envoy_attempt_count": "2"}, 2, 0
    )
    test_chain.test_every_resend_that_is_reported_counts_one({"x_stainless_retry_count": "7"}, 7, 0)


def garbage() -> None:
    """Headers that cannot be read."""
    for value in test_chain.GARBAGE:
        test_chain.test_garbage_changes_nothing_and_is_named("x-stainless-retry-count", value)


def spending() -> None:
    """Failovers that spend, and those that do not."""
    test_chain.test_a_failover_is_free_by_default()
    test_chain.test_where_a_failover_spends_it_needs_something_left()


def told_above() -> None:
    """What the layers above are told."""
    test_chain.test_no_retry_where_a_pool_may_be_running_it()
    test_chain.test_it_can_be_left_to_the_client_while_the_chain_has_retries()
    for delivery in Delivery:
        test_chain.test_no_retry_where_the_chain_is_spent(delivery)
    test_chain.test_a_retry_is_left_to_the_client_where_nothing_runs(Delivery.UNSENT)


def failovers() -> None:
    """The router's failovers under a budget."""
    test_failover_budget.test_a_failover_that_the_budget_forbids_is_an_answer_of_its_own()
    test_failover_budget.test_a_failover_that_the_budget_allows()
    test_failover_budget.test_a_failover_that_is_impossible_anyway_costs_nothing(REFUSED)
    test_failover_budget.test_an_answer_is_told_when_its_stream_ends(200, End.BROKEN, "failure")
    test_failover_budget.test_a_client_that_leaves_is_told_too()


def thresholds() -> None:
    """Rise and fall."""
    test_health.test_three_good_probes_make_healthy()
    test_health.test_one_bad_probe_is_not_unhealthy_and_three_are(503)
    test_health.test_a_start_that_swings_is_ended_by_the_cap()


def readiness() -> None:
    """Per model, and only where it is required."""
    test_health.test_readiness_is_per_model(ManualClock())
    test_health.test_a_frontend_that_serves_anything_is_ready_for_anything(ManualClock())
    test_health.test_health_is_kept_but_not_asked_where_it_is_not_required(ManualClock())


def probing() -> None:
    """The loop that probes."""
    test_health.test_each_frontend_is_probed_every_interval(ManualClock())
    test_health.test_no_more_probes_than_the_bound_are_under_way(ManualClock())
    test_health.test_a_loop_that_is_closed_while_idle_is_woken_no_more(ManualClock())
    test_health.test_what_is_gone_is_forgotten_also_while_its_probe_is_under_way(ManualClock())
    test_health.test_a_new_pool_is_probed_at_once_and_what_is_known_of_others_stays(ManualClock())


def good_switches() -> None:
    """Switches that go well."""
    test_switchover.test_three_good_probes_in_a_row_move_the_traffic()
    test_switchover.test_a_bad_probe_between_makes_it_begin_again()
    test_switchover.test_three_good_sends_verify_it()
    test_switchover.test_without_traffic_it_stands_unverified()
    test_switchover.test_verification_begins_when_the_old_pool_is_drained()


def bad_switches() -> None:
    """Switches that are rolled back."""
    test_switchover.test_five_bad_probes_in_a_row_end_it(503, "status 503")
    test_switchover.test_a_fast_503_does_not_end_it_at_once()
    test_switchover.test_no_probe_reaches_beyond_the_cap()
    test_switchover.test_a_target_that_swings_is_ended_by_the_cap(2)
    test_switchover.test_five_failed_sends_in_a_row_end_it_whatever_probes_say()
    test_switchover.test_sends_that_swing_are_ended_by_the_cap()
    test_switchover.test_only_the_targets_sends_count_and_only_after_the_move()
    test_switchover.test_whoever_moves_the_traffic_meanwhile_has_the_last_word("operator")
    test_switchover.test_a_switch_that_is_stopped_leaves_the_old_pool_active(moved=True, active="a")
    test_switchover.test_a_second_switch_is_refused_while_one_is_under_way()


def lists() -> None:
    """Lists that are believed, kept and added to."""
    test_discovery.test_only_a_change_is_published()
    test_discovery.test_an_outage_keeps_the_list_and_shows_its_age(test_discovery.listing())
    test_discovery.test_an_outage_keeps_the_list_and_shows_its_age(Failed("x"))
    test_discovery.test_an_incomplete_list_adds_but_never_removes()
    test_discovery.test_in_strict_mode_one_bad_entry_fails_the_call()
    test_discovery.test_one_bad_registration_does_not_freeze_the_list()
    test_discovery.test_a_frontend_keeps_its_name_as_long_as_its_url_is_listed()
    test_discovery.test_a_list_that_grows_old_raises_an_alarm_once()
    test_discovery.test_one_machine_belongs_to_one_pool_and_one_id_is_listed_once()
    test_discovery.test_draining_is_a_change()


def clocks() -> None:
    """Clocks that agree, disagree and drift."""
    for offsets_s, own_s in (([0.0, 1.1], None), ([0.0, 0.2, 40.0], 0.2), ([0.0, 0.0, 9.0, 9.0], None), ([0.0], None)):
        test_drift.test_it_is_the_median_of_the_sources_if_two_agree(offsets_s, own_s)
    test_drift.test_where_our_own_cannot_be_told_a_source_is_held_against_our_clock()
    test_drift.test_our_own_drift_is_raised_and_cleared_once()
    test_drift.test_a_clock_that_is_behind_drifts_too()
    test_drift.test_a_wrong_clock_of_our_own_is_no_pools_drift()
    test_drift.test_what_cannot_be_told_neither_raises_nor_clears()
    test_drift.test_a_date_header_is_half_a_second_more_and_as_uncertain()


def events() -> None:
    """Alarms once and once."""
    heard: list[alarms.Alarm] = []
    made = Alarms()
    made.on_event = heard.append
    test_alarms.test_an_alarm_is_raised_once_and_cleared_once(made, heard, AlarmKind.DRIFT)


Mutant = tuple[ModuleType, str, str, str, Suite]
MUTANTS: dict[str, Mutant] = {
    # budgets
    "one retry more": (fixed, "Fixed.try_withdraw", "<", "<=", rule("fixed")),
    "a retry is free": (token_bucket, "TokenBucket.try_withdraw", "-= MILLI", "-= 0", rule("token bucket per call")),
    "a bucket without a brim": (
        token_bucket, "TokenBucket._put", "min(self._tokens + tokens, self._tokens_max)", "self._tokens + tokens",
        rule("token bucket per call"),
    ),
    "a failure fills the bucket": (
        token_bucket, "TokenBucket.ended", "ending is Ending.SUCCESS", "True", rule("token bucket per success"),
    ),
    "nothing drops out of the window": (sliding, "SlidingSum._expire", "<= number - SLICES", "< 0", rule("window")),
    "the window is a slice too long": (
        sliding, "SlidingSum._expire", "number - SLICES", "number - SLICES - 1", rule("window"),
    ),
    "the floor is used once only": (
        window, "Window.try_withdraw", "self._tokens.add(-MILLI, now)", "self._reserve -= MILLI", rule("window"),
    ),
    "a retry that ended stays in flight": (envoy, "Envoy.ended", "self.retries -= call.retries > 0", "pass",
                                           rule("envoy")),
    "envoy's floor is forgotten": (envoy, "Envoy._retries_max", ", self._floor)", ", 0)", rule("envoy")),
    "one retry more in flight": (envoy, "Envoy.try_withdraw", ">=", ">", rule("envoy")),
    "grpc at exactly half": (grpc, "Grpc.try_withdraw", "_tokens > self", "_tokens >= self", half),
    "a departure takes a token": (grpc, "Grpc.ended", "ending is not Ending.LEFT", "True", rule("grpc")),
    "aws refunds one": (aws, "Aws.ended", "call.paid if call.retries", "1 if call.retries", rule("aws")),
    "aws forgets what failed": (aws, "Aws.ended", "call.ending = ending", "pass", rule("aws")),
    "aws makes an attempt more": (aws, "Aws.try_withdraw", "call.retries + 1 >=", "call.retries >=", rule("aws")),
    "a refusal is no request": (
        adaptive, "Adaptive.try_withdraw", "self._requests.add(1, now)", "self._requests.add(int(allowed), now)",
        same_dice,
    ),
    "retries are no requests": (
        gateway_api, "GatewayApi.try_withdraw", "(self._requests, self._retries,", "(self._retries,",
        rule("gateway api"),
    ),
    # the chain
    "attempts count as re-sends": (chain, "_read", "_attempt(value) - 1", "_attempt(value)", counts),
    "a layer above may raise what is left": (
        chain, "ChainBudget.__init__", "min(retries_max - self.spent, allowed)",
        "retries_max - self.spent if allowed == float('inf') else allowed", counts,
    ),
    "only the highest report counts": (
        chain, "ChainBudget.__init__", "self.spent += spent", "self.spent = max(self.spent, spent)", counts,
    ),
    "what is left may be negative": (chain, "ChainBudget.__init__", "max(0, min(", "max(-9, min(", counts),
    "any digits are a number": (chain, "_count", "value.isascii() and", "", garbage),
    "a failover always spends": (
        chain, "ChainBudget.left_after", "if self._failover_spends else self.left", "", spending,
    ),
    "a failover never asks the chain": (
        chain, "ChainBudget.failovers_left", "self.left if self._failover_spends else 1", "1", spending,
    ),
    "a client may retry what is running": (
        chain, "ChainBudget.headers_out", "(forbidden or not left)", "not left", told_above,
    ),
    "a spent chain is not told": (chain, "ChainBudget.headers_out", "(forbidden or not left)", "forbidden", told_above),
    "leave_to_client is not heard": (
        chain, "ChainBudget.headers_out", "and self._when_unknown is WhenUnknown.FORBID", "", told_above,
    ),
    # failovers under a budget
    "the budget is not asked": (policy, "Policy._again", "is not None and not", "is None and not", failovers),
    "the budget pays for what is impossible": (
        policy, "Policy._again", "if not others:",
        "if not others and (self.budget is None or self.budget.allows(send.request, now) is not None):", failovers,
    ),
    "a broken stream is a success": (
        failover_budget, "FailoverBudget.ended", "send.end is not End.COMPLETE", "False", failovers,
    ),
    "the end of a send is not told": (policy, "Policy.release", "self.budget.ended(", "_ = (", failovers),
    # health
    "one good probe is enough": (health, "Health.probed", "self._in_a_row >= config.rise", "True", thresholds),
    "one bad probe is enough": (health, "Health.probed", "self._in_a_row >= config.fall", "True", thresholds),
    "rows are not broken": (health, "Health.probed", "if good == self._was_good else 1", "", thresholds),
    "a start has no cap": (health, "Health.overdue", "and now >=", "and now < 0 and now >=", thresholds),
    "readiness is always asked": (health, "HealthTable.ready", "not self.config.required", "False", readiness),
    "what is not probed is ready": (
        health, "HealthTable.ready", "check is not None and", "check is None or", readiness,
    ),
    "probes have no interval": (
        health, "HealthTable.next", "now + self.config.probe_interval_s", "now", probing,
    ),
    "a permit is lost when the loop stops": (health, "_probe", "table.give_back(check)", "pass", probing),
    "an idle loop is never forgotten": (health, "probing", "table.no_longer_idle(idle)", "pass", probing),
    "a probe of what is gone counts": (
        health, "HealthTable.answered", "self._checks.get((check.frontend, check.model)) is check and", "", probing,
    ),
    # switchover
    "two good probes move the traffic": (
        switchover, "Switch.probed", ">= self.config.good_probes", ">= self.config.good_probes - 1", good_switches,
    ),
    "rows of probes are not broken": (switchover, "_Row.count", "else (0,", "else (self.good,", good_switches),
    "verified without a send": (
        switchover, "Switch._verify", "self._sends.good >= self.config.good_sends", "True", good_switches,
    ),
    "the drain is not waited for": (switchover, "Switch.at", "and not origin_in_flight", "", good_switches),
    "a failure more": (switchover, "Switch._count", "row.bad >=", "row.bad >", bad_switches),
    "no cap": (switchover, "Switch.at", "now >= self.until_s", "False", bad_switches),
    "a probe may outlast the cap": (
        switchover, "_round", "min(clock.monotonic() + config.probe_timeout_s, switch.until_s)",
        "clock.monotonic() + config.probe_timeout_s", bad_switches,
    ),
    "a good probe excuses failed sends": (
        switchover, "Switch.sent", "self._count(self._sends,", "self._count(self._probes,", bad_switches,
    ),
    "sends of other pools count": (switchover, "Switch.sent", "pool != self.target.name or", "", bad_switches),
    "sends before the move count": (
        switchover, "Switch.sent", "or self.phase is Phase.PROBING", "", bad_switches,
    ),
    "an operator is overruled": (
        switchover, "Switch._overruled", "self.over or primary.active == self.target.name", "True", bad_switches,
    ),
    "a stopped switch stays half done": (switchover, "switching", "switch.stop(clock.monotonic())", "pass",
                                         bad_switches),
    "two switches at a time": (switchover, "Switchboard.begin", "and not self.last.over", "and False", bad_switches),
    # discovery
    "every list is published": (discovery, "Discovery._take", "if pools == self._pools:", "if False:", lists),
    "an empty list is believed": (
        discovery, "Discovery._believed", "not listing.entries and self._pools", "False", lists,
    ),
    "an outage makes the list young": (
        discovery, "Discovery.told", "self.calls_failed += 1", "self.calls_failed += 1; self._confirmed_s = now", lists,
    ),
    "an incomplete list removes": (
        discovery, "Discovery._take", "dict(self._pools) if adds_only else {}", "{}", lists,
    ),
    "strict is not heard": (
        discovery, "Discovery._believed", "listing.skipped and self.config.discovery_strict", "False", lists,
    ),
    "one bad entry freezes the list": (
        discovery, "Discovery._believed", "and self.config.discovery_strict", "", lists,
    ),
    "frontends are numbered anew": (discovery, "_pool", "if known else []", "if False else []", lists),
    "an id may be listed twice": (discovery, "_must_be_new", "entry.name in good", "False", lists),
    "a machine in two pools": (discovery, "_must_be_new", "if shared:", "if False:", lists),
    "nobody hears of an old list": (discovery, "Discovery.told", "on=stale", "on=False", lists),
    # drift
    "sources need not agree": (drift, "own_offset_s", "<= agree_s", "<= 1e9", clocks),
    "one source is enough": (drift, "own_offset_s", "if len(ordered) < 2:\n        return None",
                             "if len(ordered) < 2:\n        return ordered[0]", clocks),
    "only clocks ahead drift": (drift, "Drift._set", "abs(offset_s)", "offset_s", clocks),
    "our own drift is every pool's": (drift, "Drift.of", "- (self.own_s or 0.0)", "", clocks),
    "cannot tell clears": (
        drift, "Drift.measured", "if self.own_s is not None:\n        self._set(OWN, self.own_s, now)",
        "self._set(OWN, self.own_s or 0.0, now)", clocks,
    ),
    "a date is exact": (drift, "Reading.offset_s", "+ self.resolution_s / 2", "", clocks),
    # alarms
    "an alarm is raised again and again": (alarms, "Alarms.raise_", "if key in self._raised:", "if False:", events),
    "an alarm is cleared again and again": (
        alarms, "Alarms.clear", "self._raised.pop((kind, about), None)", "self._raised.get((kind, about))", events,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "suite", dict.fromkeys(suite for *_, suite in MUTANTS.values()), ids=lambda suite: suite.__name__
)
def test_what_catches_mutants_is_green_without_them(suite: Suite) -> None:
    suite()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, function, old, new, suite = MUTANTS[mutant]
    mutate(monkeypatch, where, function, old, new)
    with pytest.raises((AssertionError, LookupError, RuntimeError, ValueError, pytest.fail.Exception)):
        suite()
