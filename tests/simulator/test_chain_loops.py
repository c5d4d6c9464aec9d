"""What a router does beside its requests, in the queue-level model: small cases that can be counted by hand."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from router.core.health import HealthState
from scenarios.checks import judge
from scenarios.layers import Layer
from scenarios.load import load, problems
from scenarios.loops import Discovery, Drift, Health, ListTrouble, SwitchOrder
from scenarios.record import Alarm, Sample, State
from scenarios.spec import Fault, Load, Pool, Router, Scenario
from simulator import chain as model
from simulator.chain.columns import JOB_REJECTED
from simulator.chain.gateway import Gateway
from simulator.chain.model import Model
from simulator.chain.outcome import Outcome
from simulator.chain.results import KINDS
from simulator.chain_text import known_lines
from simulator.run import run
from tests.simulator.chains import chain, pool

TWO = tuple(pool(name, kind="deterministic", mean_s=0.01, slots=None) for name in ("east", "west"))


def drill(*, pools: tuple[Pool, ...] = TWO, instances: int = 1, **scenario: Any) -> Scenario:
    """Return a run of 40 s with 5 requests a second at two pools; the scenario keeps every rule of the loader."""
    router = Layer(name="router", kind="pooldrill", instances=instances)
    found = chain(router, **{"rate_rps": 5.0, "operations": 200, "pools": pools, **scenario})
    assert not list(problems(found))
    return found


def fault(kind: Any, *at: float, pool: str = "east", **knobs: Any) -> Fault:
    inject_s, clear_s = at
    return Fault(kind=kind, pool=pool, inject_s=inject_s, clear_s=clear_s, **knobs)


def states(outcome: Outcome, kind: str) -> list[tuple[float, str, str]]:
    """Return the changes of a kind: when, of what, to what."""
    return [(row.t, row.target, row.value) for row in outcome.known if isinstance(row, State) and row.kind == kind]


def alarms(outcome: Outcome, kind: str) -> list[Alarm]:
    return [row for row in outcome.known if isinstance(row, Alarm) and row.kind == kind]


def readings(outcome: Outcome) -> list[Sample]:
    """Return how far clocks were found to be off."""
    return [row for row in outcome.known if isinstance(row, Sample) and row.kind == "clock_offset_s"]


def pools_of(outcome: Outcome, from_s: float = 0.0, until_s: float = float("inf")) -> list[str]:
    """Return the pools of the sends that began within a span, in order."""
    sends = outcome.sends
    here = (sends["t_start_s"] >= from_s) & (sends["t_start_s"] < until_s)
    return [outcome.frontends[place].pool for place in sends["frontend"][here]]


def ends(outcome: Outcome) -> Counter[str]:
    """Count how operations ended."""
    return Counter(KINDS[end] for end in outcome.operations["end"])


# ---- health

PROBES = Health(rise=2, fall=3, probe_interval_s=2.0, probe_timeout_s=1.0)
PROBED = Router(health=PROBES)


@pytest.mark.parametrize("status", [None, 503])
def test_a_pool_that_lists_no_models_is_out_after_so_many_probes_and_back_after_so_many(status: int | None) -> None:
    outcome = model.run(drill(router=PROBED, faults=(fault("not_ready", 9.0, 21.0, status=status),)))
    # Probes are made at 0, 2, 4 ...: good ones at 0 and 2, bad ones at 10, 12 and 14, good ones again at 22 and 24.
    assert states(outcome, "health") == [
        (2.0, "east-0", "healthy"),
        (2.0, "west-0", "healthy"),
        (14.0, "east-0", "unhealthy"),
        (24.0, "east-0", "healthy"),
    ]
    assert Counter(pools_of(outcome, 2.5, 13.9)) == {"east": 28, "west": 29}
    assert set(pools_of(outcome, 14.01, 24.0)) == {"west"}
    assert Counter(pools_of(outcome, 24.1, 30.1)) == {"east": 15, "west": 15}
    assert ends(outcome) == {"ok": 200}


def test_states_are_kept_and_not_obeyed_where_health_is_not_required() -> None:
    watched = msgspec.structs.replace(PROBED, health=Health(rise=2, fall=3, probe_interval_s=2.0, required=False))
    outcome = model.run(drill(router=watched, faults=(fault("not_ready", 9.0, 21.0),)))
    assert (14.0, "east-0", "unhealthy") in states(outcome, "health")
    assert Counter(pools_of(outcome)) == {"east": 100, "west": 100}


def test_a_frontend_that_hangs_is_unhealthy_by_time_outs_and_holds_up_no_other_probe() -> None:
    router = msgspec.structs.replace(PROBED, cooldown=False)
    outcome = model.run(drill(router=router, faults=(fault("black_hole", 9.0, 21.0),)))
    assert (15.0, "east-0", "unhealthy") in states(outcome, "health")  # the third probe began at 14 s, and had 1 s
    assert [row for row in states(outcome, "health") if row[1] == "west-0"] == [(2.0, "west-0", "healthy")]


def test_a_listed_model_that_does_not_answer_is_seen_by_probes_that_generate_only() -> None:
    errors = fault("errors", 9.0, 21.0, share=1.0, status=503)
    plain = model.run(drill(router=PROBED, faults=(errors,)))
    generating = msgspec.structs.replace(PROBED, health=msgspec.structs.replace(PROBES, probe_generates=True))
    asked = model.run(drill(router=generating, faults=(errors,)))
    assert not [row for row in states(plain, "health") if row[2] == "unhealthy"]
    assert [row[0] for row in states(asked, "health") if row[2] == "unhealthy"] == [14.0]
    assert ends(asked)["ok"] > ends(plain)["ok"]


def busy(*, panic: bool, probes_queue: bool = True) -> Outcome:
    """Run one pool whose probes wait among its requests, at twice its load for a while, and back at its own."""
    knobs: dict[str, Any] = {"kind": "deterministic", "mean_s": 0.5, "slots": 1, "probes_queue": probes_queue}
    router = Router(patience_s=0.1, deadline_s=600.0, health=Health(rise=1, fall=2, probe_interval_s=2.0, panic=panic))
    scenario = drill(pools=(pool("east", **knobs),), rate_rps=4.0, operations=160, router=router)
    return model.run(scenario)


def test_probes_that_share_the_queue_fail_under_load_and_do_not_take_the_last_pool_away() -> None:
    kept = busy(panic=True)
    # After 5 s ten requests wait, 5 s of work: longer than a probe is waited for.
    assert [row[2] for row in states(kept, "health")][:2] == ["healthy", "unhealthy"]
    assert ends(kept) == {"ok": 160}
    assert [row[2] for row in states(busy(panic=True, probes_queue=False), "health")] == ["healthy"]


def test_without_panic_probes_that_share_the_queue_close_the_last_pool() -> None:
    closed = busy(panic=False)
    assert ends(closed)["status"] > 0
    assert states(closed, "health")[1][2] == "unhealthy"


def test_probes_in_a_queue_are_no_requests_even_if_they_are_still_there_at_the_end() -> None:
    knobs: dict[str, Any] = {
        "kind": "deterministic",
        "mean_s": 0.5,
        "slots": 1,
        "probes_queue": True,
        "cancel": "never",
    }
    router = Router(deadline_s=600.0, health=Health(probe_interval_s=1.0, probe_timeout_s=0.7))
    scenario = drill(pools=(pool("east", **knobs),), rate_rps=10.0, operations=400, router=router, horizon_s=40.0)
    made = Model(scenario)
    made.run()
    assert made.frontends[0].open_probes().total() > 0
    model.run(scenario)  # where invariants are checked


# ---- discovery

LIST = Discovery(discovery_interval_s=1.0, discovery_timeout_s=0.5, discovery_stale_s=5.0)
FOUND = Router(discovery=LIST)


def test_a_pool_joins_without_a_restart_and_gets_its_share() -> None:
    third = pool("zulu", kind="deterministic", mean_s=0.01, slots=None, join_s=0.75)
    scenario = drill(pools=(*TWO, third), router=FOUND, rate_rps=4.0, operations=160)
    outcome = model.run(scenario)
    assert states(outcome, "catalog") == [(1.0, "router-0", "east west zulu")]
    # Four requests at 0, .25, .5 and .75 s; from 1 s on, when the list was read again, three pools take turns.
    assert Counter(pools_of(outcome, 0.0, 0.99)) == {"east": 2, "west": 2}
    assert Counter(pools_of(outcome, 1.01, 1.76)) == {"east": 1, "west": 1, "zulu": 1}


def test_a_pool_that_leaves_finishes_its_work_and_gets_no_more() -> None:
    slow = pool("zulu", kind="deterministic", mean_s=3.0, slots=None, leave_s=9.5)
    outcome = model.run(drill(pools=(*TWO, slow), router=FOUND))
    assert states(outcome, "catalog") == [(10.0, "router-0", "east west")]
    assert "zulu" in pools_of(outcome, 9.0, 10.0)
    assert "zulu" not in pools_of(outcome, 10.01)
    assert ends(outcome) == {"ok": 200}


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("error", "status 500"),
        ("garbage", "not an object but str"),
        ("empty", "an empty list, which is not believed"),
        ("silent", "timeout"),
    ],
)
def test_an_outage_of_the_list_keeps_the_pools_and_raises_an_alarm(kind: Any, problem: str) -> None:
    trouble = ListTrouble(kind=kind, inject_s=9.5, clear_s=20.5)
    discovery = msgspec.structs.replace(LIST, troubles=(trouble,))
    outcome = model.run(drill(router=Router(discovery=discovery)))
    late_s = 0.5 if kind == "silent" else 0.0
    assert states(outcome, "catalog") == []
    assert states(outcome, "discovery") == [(10.0 + late_s, "router-0", problem), (21.0, "router-0", "ok")]
    # The last good list is of 9 s, so at 14 s it is stale.
    found = alarms(outcome, "stale_discovery")
    assert [(row.since, row.cleared) for row in found] == [(14.0 + (0.5 if late_s else 0.0), 21.0)]
    assert Counter(pools_of(outcome)) == {"east": 100, "west": 100}


def test_a_list_that_is_not_complete_adds_and_never_removes() -> None:
    third = pool("zulu", kind="deterministic", mean_s=0.01, slots=None, join_s=12.0)
    trouble = ListTrouble(kind="incomplete", pool="east", inject_s=9.5, clear_s=20.5)
    discovery = msgspec.structs.replace(LIST, troubles=(trouble,))
    outcome = model.run(drill(pools=(*TWO, third), router=Router(discovery=discovery)))
    assert states(outcome, "catalog") == [(12.0, "router-0", "east west zulu")]
    assert "east" in pools_of(outcome, 13.0, 20.0)


def test_a_complete_list_without_a_pool_removes_it_until_it_is_listed_again() -> None:
    trouble = ListTrouble(kind="lacks", pool="east", inject_s=9.5, clear_s=20.5)
    discovery = msgspec.structs.replace(LIST, troubles=(trouble,))
    scenario = drill(router=Router(discovery=discovery))
    outcome = model.run(scenario)
    assert states(outcome, "catalog") == [(10.0, "router-0", "west"), (21.0, "router-0", "east west")]
    assert set(pools_of(outcome, 10.01, 20.99)) == {"west"}
    assert states(model.run(scenario, faults=False), "catalog") == []


def test_a_pool_that_joins_is_probed_before_it_gets_requests() -> None:
    third = pool("zulu", kind="deterministic", mean_s=0.01, slots=None, join_s=9.5)
    router = msgspec.structs.replace(FOUND, health=Health(rise=3, probe_interval_s=2.0))
    outcome = model.run(drill(pools=(*TWO, third), router=router))
    assert (14.0, "zulu-0", "healthy") in states(outcome, "health")
    assert "zulu" not in pools_of(outcome, 0.0, 13.99)
    assert "zulu" in pools_of(outcome, 14.0, 15.0)


# ---- switch


def switched(to: str = "west", **knobs: Any) -> Router:
    order = SwitchOrder(at_s=5.0, to=to, **{"probe_interval_s": 2.0, "verify_s": 10.0, **knobs})
    return Router(selection=_PRIMARY_BACKUP, switch=order)


_PRIMARY_BACKUP = next(word for word in type(Router().selection) if word == "primary_backup")


def test_a_switch_to_a_healthy_pool_moves_the_traffic_and_is_verified() -> None:
    outcome = model.run(drill(router=switched()))
    # Rounds at 5, 7 and 9 s are good; three sends verify it.
    assert states(outcome, "primary") == [(9.0, "router-0", "west (operator)")]
    ordered, ended = states(outcome, "switch")
    assert ordered == (5.0, "router-0", "to west: ordered")
    assert ended[1:] == ("router-0", "to west: switched, 3 good sends in a row")
    assert 9.0 < ended[0] < 10.0
    assert set(pools_of(outcome, 0.0, 8.99)) == {"east"}
    assert set(pools_of(outcome, 9.01)) == {"west"}
    assert ends(outcome) == {"ok": 200}


def test_a_switch_rolls_back_after_five_bad_probes_in_a_row() -> None:
    outcome = model.run(drill(router=switched(), faults=(fault("not_ready", 4.0, 40.0, pool="west", share=1.0),)))
    assert states(outcome, "switch")[-1] == (
        13.0,
        "router-0",
        "to west: rolled back, 5 failures in a row, the last: west-0: empty_list",
    )
    assert states(outcome, "primary") == []
    assert ends(outcome) == {"ok": 200}


def test_a_switch_rolls_back_after_its_time_in_all_however_its_target_swings() -> None:
    # Two good rounds and four bad ones, again and again: neither three good ones in a row nor five bad ones.
    swings = tuple(fault("not_ready", 8.0 + 12 * turn, 16.0 + 12 * turn, pool="west") for turn in range(30))[:16]
    scenario = drill(router=switched(total_s_max=180.0), faults=swings, rate_rps=1.0, operations=200)
    outcome = model.run(scenario)
    at_s, _, how = states(outcome, "switch")[-1]
    assert at_s == pytest.approx(185.0)
    assert how.startswith("to west: rolled back, probing was not over within 180 s in all")
    assert states(outcome, "primary") == []


def test_sends_that_fail_after_the_traffic_moved_give_it_back() -> None:
    # Its models are listed all the time, so the probes find nothing.
    faults = (fault("errors", 8.0, 40.0, pool="west", share=1.0, status=500),)
    router = msgspec.structs.replace(switched(), cooldown=False)
    outcome = model.run(drill(router=router, faults=faults))
    moves = [value for _, _, value in states(outcome, "primary")]
    assert moves == ["west (operator)", "east (configured)"]
    assert "rolled back, 5 failures in a row" in states(outcome, "switch")[-1][2]
    assert ends(outcome) == {"ok": 195, "status": 5}


def test_a_switch_without_traffic_stands_unverified_and_raises_an_alarm() -> None:
    quiet = Load(rate_rps=5.0, start_s=0.0, end_s=8.0)
    scenario = msgspec.structs.replace(drill(router=switched()), load=(quiet,))
    outcome = model.run(scenario)
    assert states(outcome, "switch")[-1] == (
        19.0,
        "router-0",
        "to west: switched, unverified, no traffic came within 10 s",
    )
    assert [(row.since, row.cleared) for row in alarms(outcome, "unverified_switch")] == [(19.0, None)]


def test_an_order_that_cannot_be_followed_is_refused_with_its_reason() -> None:
    outcome = model.run(drill(router=switched("east")))
    assert states(outcome, "switch") == [(5.0, "router-0", "refused: east is active already")]


# ---- clocks


@pytest.mark.parametrize("offset_s", [40.0, -40.0, 5.4])
def test_a_clock_that_is_off_is_measured_within_half_a_second_and_alarmed(offset_s: float) -> None:
    drifted = fault("clock_offset", 5.0, 30.0, offset_s=offset_s)
    outcome = model.run(drill(router=Router(drift=Drift(check_interval_s=7.3)), faults=(drifted,)))
    offsets = {(row.t, row.source): row.value for row in readings(outcome)}
    for (at_s, source), value in offsets.items():
        true_s = offset_s if source == "east" and 5.0 <= at_s < 30.0 else 0.0
        assert value == pytest.approx(true_s, abs=0.5 + 1e-6), (at_s, source)  # a Date header has whole seconds
    assert {at_s for at_s, _ in offsets} == {0.0, 7.3, 14.6, 21.9, 29.2, 36.5}
    (alarm,) = alarms(outcome, "drift")
    assert (alarm.since, alarm.cleared) == (7.3, 36.5)
    assert alarm.detail.startswith(f"source east: {'-' if offset_s < 0 else '+'}")


def test_a_pool_that_cannot_be_asked_is_no_clock() -> None:
    refused = fault("refused", 5.0, 10.0)
    outcome = model.run(drill(router=Router(drift=Drift(check_interval_s=7.0)), faults=(refused,)))
    sources = Counter(row.t for row in readings(outcome))
    assert sources[7.0] == 1  # west alone, and of our own clock nothing can be told
    assert sources[14.0] == 3


# ---- sessions, instances, the record


def test_a_session_stays_where_its_request_landed() -> None:
    scenario = drill(router=Router(cooldown_s=1.0, slow_start_s=0.0), faults=(fault("refused", 10.05, 15.0),))
    (load,) = scenario.load
    outcome = model.run(msgspec.structs.replace(scenario, load=(msgspec.structs.replace(load, sessions=1),)))
    assert set(pools_of(outcome, 0.0, 10.0)) == {"east"}
    # The next request is refused at east and lands at west; there the session stays, also when east is back.
    assert pools_of(outcome, 10.1, 10.4)[:2] == ["east", "west"]
    assert set(pools_of(outcome, 10.41)) == {"west"}


def test_each_instance_learns_for_itself() -> None:
    refused = fault("refused", 10.05, 30.0)
    one = model.run(drill(router=Router(cooldown_s=60.0 - 6.0), faults=(refused,)))
    two = model.run(drill(router=Router(cooldown_s=60.0 - 6.0), faults=(refused,), instances=2))

    def refusals(outcome: Outcome) -> int:
        return int(np.sum(outcome.sends["connected"] == 0))

    # Three failures in a row bench a frontend, with each instance anew.
    assert (refusals(one), refusals(two)) == (3, 6)
    benched = [(target, value) for _, target, value in states(two, "cooldown") if value == "benched"]
    assert sorted(benched) == [("router-0/east-0", "benched"), ("router-1/east-0", "benched")]
    assert next(row[1:] for row in states(one, "cooldown")) == ("east-0", "benched")


def test_instances_probe_on_their_own_and_name_themselves() -> None:
    made = Model(drill(router=PROBED, instances=2, faults=(fault("not_ready", 9.0, 35.0),)))
    made.run()
    gateway = made.layers[-1]
    assert isinstance(gateway, Gateway)
    for instance in gateway.instances:
        assert instance.health is not None
        found = {check.frontend.name: check.health.state for check in instance.health.checks()}
        assert found == {"east-0": HealthState.HEALTHY, "west-0": HealthState.HEALTHY}
    assert made.background is not None
    targets = {row.target for row in made.background.rows() if isinstance(row, State) and row.kind == "health"}
    assert targets == {f"router-{number}/{name}-0" for number in (0, 1) for name in ("east", "west")}


def test_the_record_tells_what_the_loops_came_to_know_and_is_the_same_each_time(tmp_path: Path) -> None:
    router = msgspec.structs.replace(PROBED, drift=Drift(check_interval_s=10.0), discovery=LIST)
    scenario = drill(
        router=router, faults=(fault("not_ready", 9.0, 21.0), fault("clock_offset", 9.0, 21.0, offset_s=40))
    )
    found = [run(scenario, tmp_path / str(turn)) for turn in (1, 2)]
    assert {row.kind for row in found[0].states} == {"health"}
    assert [row.kind for row in found[0].alarms] == ["drift"]
    assert "clock_offset_s" in {row.kind for row in found[0].samples}
    assert found[0].rows == found[1].rows


def test_a_run_whose_loops_go_on_for_ever_ends_when_all_else_has() -> None:
    outcome = model.run(drill(router=PROBED))
    assert outcome.drained
    assert outcome.end_s == 40.0
    slow = (pool("east", kind="deterministic", mean_s=9.5, slots=None),)
    assert model.run(drill(pools=slow, router=PROBED)).end_s == 50.0


def test_loops_that_find_nothing_change_no_request() -> None:
    quiet = drill(router=Router())
    router = Router(health=Health(), discovery=Discovery(), drift=Drift())
    looped = msgspec.structs.replace(quiet, router=router)
    plain, watched = model.run(quiet), model.run(looped)
    for name in ("t_start_s", "t_end_s", "frontend"):
        assert np.array_equal(plain.sends[name], watched.sends[name])
    assert not (plain.sends["job"] == JOB_REJECTED).any()


def test_a_fault_that_no_loop_met_proves_nothing() -> None:
    unseen = model.run(drill(router=PROBED, faults=(fault("not_ready", 8.1, 9.9),)))
    seen = model.run(drill(router=PROBED, faults=(fault("not_ready", 8.1, 12.1),)))
    assert [(row.proved, row.proof) for row in (*unseen.faults, *seen.faults)] == [
        (False, "met by 0 probes"),
        (True, "met by 2 probes"),
    ]


def test_the_switch_of_the_catalog_ends_within_its_caps(tmp_path: Path) -> None:
    scenario = load("switch_waits_for_the_image")
    record = run(scenario, tmp_path)
    assert all(verdict.passed for verdict in judge(record).values())
    assert list(known_lines(record)) == [
        "at 20 s switch of router-0: to west: ordered",
        "at 40 s switch of router-0: to west: rolled back, 5 failures in a row, the last: west-0: empty_list",
    ]
    # A target that is never bad five times in a row ends after five minutes in all, not after 38.
    assert scenario.router.switch is not None
    patient = msgspec.structs.replace(scenario.router.switch, failures_max=1000)
    (whole,) = scenario.faults
    longer = msgspec.structs.replace(
        scenario,
        duration_s=400.0,
        router=msgspec.structs.replace(scenario.router, switch=patient),
        faults=(msgspec.structs.replace(whole, clear_s=400.0),),
    )
    assert states(model.run(longer), "switch")[-1][0] == 320.0
