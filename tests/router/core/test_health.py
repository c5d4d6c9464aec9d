"""Health of frontends: outcomes apart, thresholds, caps, readiness per model, and the loop that probes."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core import health
from router.core.config import ConfigError, RouterConfig
from router.core.effects import Probe, Wait
from router.core.health import (
    NEVER,
    Check,
    Health,
    HealthConfig,
    HealthState,
    HealthTable,
    ProbeAnswer,
    ProbeOutcome,
    in_words,
    outcome_of,
)
from router.core.policy import build_policy
from router.core.topology import Catalog, Frontend
from tests.router.core.playbook import START_S, ManualClock, Playbook, after, asked, pools, probe, replied, send, wait

OK, TIMEOUT, REFUSED = ProbeOutcome.OK, ProbeOutcome.TIMEOUT, ProbeOutcome.REFUSED
BAD: tuple[ProbeAnswer, ...] = (503, 404, *(outcome for outcome in ProbeOutcome if outcome is not OK))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def table_of(clock: ManualClock, *shape: str, **knobs: Any) -> HealthTable:
    table = HealthTable(HealthConfig(**{"required": True, **knobs}))
    table.publish(Catalog(pools(*shape)), clock.now_s)
    return table


def probed(state: Health, *answers: ProbeAnswer, now: float = START_S) -> list[HealthState]:
    states = []
    for answer in answers:
        state.probed(answer, now)
        states.append(state.state)
    return states


def frontend(table: HealthTable, name: str) -> Frontend:
    return next(check.frontend for check in table.checks() if check.frontend.name == name)


STARTING, HEALTHY, UNHEALTHY = HealthState

# ---- outcomes and thresholds


def test_every_outcome_is_one_of_its_own() -> None:
    assert {outcome_of(answer) for answer in BAD} == set(ProbeOutcome) - {OK}
    assert outcome_of(503) is ProbeOutcome.STATUS
    assert [in_words(answer) for answer in (503, TIMEOUT, ProbeOutcome.EMPTY_LIST)] == [
        "status 503",
        "timeout",
        "empty_list",
    ]


def test_three_good_probes_make_healthy() -> None:
    state = Health(HealthConfig(), START_S)
    assert probed(state, OK, OK, TIMEOUT, OK, OK, OK) == [STARTING] * 5 + [HEALTHY]
    assert state.reason == "3 good probes in a row"


@pytest.mark.parametrize("bad", BAD)
def test_one_bad_probe_is_not_unhealthy_and_three_are(bad: ProbeAnswer) -> None:
    state = Health(HealthConfig(), START_S)
    probed(state, OK, OK, OK)
    assert probed(state, bad, bad, OK, bad, bad, bad) == [HEALTHY] * 5 + [UNHEALTHY]
    assert state.reason == f"3 bad probes in a row, the last: {in_words(bad)}"
    assert state.last == bad


def test_a_503_on_the_list_of_models_is_a_verdict_and_no_wait_a_bit_longer() -> None:
    state = Health(HealthConfig(), START_S)
    assert probed(state, 503, 503, 503) == [STARTING, STARTING, UNHEALTHY]
    assert repr(state) == "<unhealthy (3 bad probes in a row, the last: status 503)>"


def test_unhealthy_returns_by_the_same_threshold() -> None:
    state = Health(HealthConfig(rise=2, fall=1), START_S)
    assert probed(state, TIMEOUT, OK, OK, TIMEOUT) == [UNHEALTHY, UNHEALTHY, HEALTHY, UNHEALTHY]


def test_bad_probes_of_different_kinds_add_up() -> None:
    state = Health(HealthConfig(), START_S)
    assert probed(state, 503, TIMEOUT, ProbeOutcome.EMPTY_LIST)[-1] is UNHEALTHY


def test_a_change_is_told_once_and_dated() -> None:
    state = Health(HealthConfig(rise=2), START_S)
    assert [state.probed(OK, START_S + second) for second in (1, 2, 3, 4)] == [False, True, False, False]
    assert state.since_s == START_S + 2


@given(st.lists(st.sampled_from([OK, TIMEOUT]), max_size=60), st.integers(1, 4), st.integers(1, 4))
def test_the_state_is_what_the_last_long_enough_row_says(answers: list[ProbeAnswer], rise: int, fall: int) -> None:
    state = Health(HealthConfig(rise=rise, fall=fall), START_S)
    states = probed(state, *answers)
    for end in range(1, len(answers) + 1):
        expected = STARTING
        for stop in range(1, end + 1):
            if answers[max(0, stop - rise) : stop] == [OK] * rise:
                expected = HEALTHY
            if answers[max(0, stop - fall) : stop] == [TIMEOUT] * fall:
                expected = UNHEALTHY
        assert states[end - 1] is expected


# ---- caps


def test_a_start_that_swings_is_ended_by_the_cap() -> None:
    state = Health(HealthConfig(starting_s_max=60.0), START_S)
    for second in range(0, 60, 5):
        state.probed(OK if second % 10 else REFUSED, START_S + second)
        assert state.state is STARTING
    assert state.probed(OK, START_S + 60)
    assert (state.state, state.reason) == (UNHEALTHY, "not healthy within 60 s, the last probe: ok")


def test_the_cap_holds_for_the_start_only() -> None:
    state = Health(HealthConfig(starting_s_max=60.0), START_S)
    probed(state, OK, OK, OK)
    assert not state.overdue(START_S + 61)
    assert state.state is HEALTHY


def test_the_cap_needs_no_probe_to_come_back(clock: ManualClock) -> None:
    table = table_of(clock, "a", starting_s_max=3.0, probe_timeout_s=5.0)
    changes: list[str] = []
    table.on_change = lambda check: changes.append(repr(check.health))
    first, second = Playbook(health.probing(table, clock)), Playbook(health.probing(table, clock))
    assert first << probe("a-0", 5)
    assert second << wait(NEVER)
    clock.now_s += 3
    assert second >> None << wait(NEVER)
    assert changes == ["<unhealthy (not healthy within 3 s, no probe came back)>"]


# ---- readiness


def test_readiness_is_per_model(clock: ManualClock) -> None:
    table = table_of(clock, "a=m", "b=n", rise=1, fall=1)
    a, b = frontend(table, "a-0"), frontend(table, "b-0")
    table.of(a, "m").probed(OK, clock.now_s)
    assert [table.ready(a, "m"), table.ready(a, "n"), table.ready(b, "n")] == [True, False, False]
    table.of(a, "m").probed(ProbeOutcome.MODEL_MISSING, clock.now_s)
    assert not table.ready(a, "m")


def test_a_frontend_that_serves_anything_is_ready_for_anything(clock: ManualClock) -> None:
    table = table_of(clock, "a", rise=1)
    a = frontend(table, "a-0")
    assert not table.ready(a, "m")
    table.of(a).probed(OK, clock.now_s)
    assert table.ready(a, "m")
    assert table.ready(a, "")


def test_health_is_kept_but_not_asked_where_it_is_not_required(clock: ManualClock) -> None:
    table = table_of(clock, "a", required=False)
    assert table.ready(frontend(table, "a-0"), "m")
    assert table.ready(pools("z")[0].frontends[0], "m")


@pytest.mark.parametrize("required", [False, True])
def test_routing_asks_for_health_only_where_that_is_policy(clock: ManualClock, required: bool) -> None:
    table = table_of(clock, "a", "b", required=required, rise=1)
    catalog = Catalog(pools("a", "b"))
    table.of(frontend(table, "b-0")).probed(OK, clock.now_s)
    config = RouterConfig(patience_s=1.0)
    policy = build_policy(config, clock, _Dice(), catalog, ready=table.ready)
    table.on_change = lambda _: policy.ready_changed()
    firsts = {asked(policy).sent_to.name for _ in range(4)}
    assert firsts == ({"b-0"} if required else {"a-0", "b-0"})


class _Dice:
    def random(self) -> float:
        return 0.5

    def randrange(self, _stop: int, /) -> int:
        return 0


def test_a_request_waits_until_something_is_healthy(clock: ManualClock) -> None:
    table = table_of(clock, "a", rise=1)
    policy = build_policy(RouterConfig(), clock, _Dice(), Catalog(pools("a")), ready=table.ready)
    table.on_change = lambda _: policy.ready_changed()
    request = asked(policy) << wait(2)
    assert Playbook(health.probing(table, clock)) << probe("a-0", 5) >> OK << wait(5)
    assert request.woken == 1
    assert request >> None << send("a-0")


def test_nothing_healthy_is_no_pool(clock: ManualClock) -> None:
    table = table_of(clock, "a")
    policy = build_policy(RouterConfig(), clock, _Dice(), Catalog(pools("a")), ready=table.ready)
    assert asked(policy) << wait(2) >> after(clock, 2) << replied("no_pool", code="no_pool", sends=0)


def test_probes_that_call_everything_bad_are_not_obeyed_in_panic(clock: ManualClock) -> None:
    table = table_of(clock, "a", "b", panic=True, rise=1, fall=1)
    a, b = frontend(table, "a-0"), frontend(table, "b-0")

    def ready() -> tuple[bool, bool]:
        return table.ready(a, ""), table.ready(b, "")

    assert ready() == (True, True), "nothing is known yet"
    for check in table.checks():
        table.answered(check, OK if check.frontend is a else REFUSED, clock.now_s)
    assert ready() == (True, False)
    table.answered(next(table.checks()), REFUSED, clock.now_s)
    assert ready() == (True, True)


def test_panic_is_a_models_own(clock: ManualClock) -> None:
    a, b = pools("a", "b")
    table = HealthTable(HealthConfig(required=True, panic=True, rise=1, fall=1))
    table.publish(Catalog([replace(a, models=("m", "n")), replace(b, models=("m",))]), clock.now_s)
    for check in table.checks():
        table.answered(check, REFUSED if check.frontend.pool == "a" else OK, clock.now_s)
    first = a.frontends[0]
    assert (table.ready(first, "m"), table.ready(first, "n")) == (False, True)


# ---- the loop


def test_each_frontend_is_probed_every_interval(clock: ManualClock) -> None:
    table = table_of(clock, "a", "b", probe_interval_s=5.0, probe_timeout_s=2.0)
    assert (
        Playbook(health.probing(table, clock))
        << probe("a-0", 2)
        >> after(clock, 0.5, OK)
        << probe("b-0", 2.5)
        >> after(clock, 0.5, OK)
        << wait(5)
        >> after(clock, 4)
        << probe("a-0", 7)
        >> OK
        << wait(5.5)
    )


def test_a_frontend_that_hangs_holds_up_no_other(clock: ManualClock) -> None:
    table = table_of(clock, "a", "b", probes_max=2)
    hanging = Playbook(health.probing(table, clock)) << probe("a-0", 5)
    other = Playbook(health.probing(table, clock)) << probe("b-0", 5) >> OK << wait(5)
    assert other >> after(clock, 5) << probe("b-0", 10) >> OK << wait(10)
    assert hanging >> TIMEOUT << probe("a-0", 10)


def test_no_more_probes_than_the_bound_are_under_way(clock: ManualClock) -> None:
    table = table_of(clock, "a", "b", probes_max=1)
    first = Playbook(health.probing(table, clock)) << probe("a-0", 5)
    second = Playbook(health.probing(table, clock)) << wait(NEVER)
    first.close()
    assert second.woken == 1
    assert second >> None << probe("b-0", 5)


def test_a_probe_says_which_model_and_whether_to_generate(clock: ManualClock) -> None:
    table = table_of(clock, "a=m", probe_generates=True)
    loop = Playbook(health.probing(table, clock))
    assert isinstance(loop.step, Probe)
    assert (loop.step.model, loop.step.generate) == ("m", True)


def test_a_new_pool_is_probed_at_once_and_what_is_known_of_others_stays(clock: ManualClock) -> None:
    table = table_of(clock, "a", rise=1)
    loop = Playbook(health.probing(table, clock)) << probe("a-0", 5) >> OK << wait(5)
    table.publish(Catalog(pools("a", "b")), clock.now_s)
    assert loop.woken == 1
    assert loop >> None << probe("b-0", 5)
    assert table.ready(frontend(table, "a-0"), "")


def test_what_is_gone_is_forgotten_also_while_its_probe_is_under_way(clock: ManualClock) -> None:
    table = table_of(clock, "a", rise=1)
    told: list[Check] = []
    table.on_change = told.append
    loop = Playbook(health.probing(table, clock)) << probe("a-0", 5)
    table.publish(Catalog(()), clock.now_s)
    assert loop >> OK << wait(NEVER)
    assert told == []
    table.publish(Catalog(pools("a")), clock.now_s)
    assert not table.ready(frontend(table, "a-0"), "")


def test_a_loop_that_is_closed_while_idle_is_woken_no_more(clock: ManualClock) -> None:
    table = table_of(clock, "a")
    loop = Playbook(health.probing(table, clock)) << probe("a-0", 5) >> OK << wait(5)
    loop.close()
    table.publish(Catalog(()), clock.now_s)
    assert loop.woken == 0


def test_every_change_is_told(clock: ManualClock) -> None:
    table = table_of(clock, "a", rise=2, fall=1)
    told: list[tuple[str, HealthState]] = []
    table.on_change = lambda check: told.append((check.frontend.name, check.health.state))
    loop = Playbook(health.probing(table, clock))
    for answer in (OK, OK, OK, REFUSED):
        assert isinstance(loop.step, Probe)
        loop >>= answer
        while isinstance(loop.step, Wait):
            clock.now_s = loop.step.until_s
            loop >>= None
    assert told == [("a-0", HEALTHY), ("a-0", UNHEALTHY)]


# ---- knobs


@pytest.mark.parametrize("knob", [field.name for field in fields(HealthConfig) if field.type is float])
@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_a_time_must_be_positive_and_finite(knob: str, value: float) -> None:
    knobs: dict[str, Any] = {knob: value}
    with pytest.raises(ConfigError, match=f"{knob} must be a positive number of seconds"):
        HealthConfig(**knobs)


@pytest.mark.parametrize("knob", ["rise", "fall", "probes_max"])
def test_a_count_must_be_positive(knob: str) -> None:
    knobs: dict[str, Any] = {knob: 0}
    with pytest.raises(ConfigError, match=f"{knob} must be at least 1, got 0"):
        HealthConfig(**knobs)
