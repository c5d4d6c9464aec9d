"""What a modelled router does beside requests: probing, discovery, switching, the check of clocks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from router.core.config import Selection
from scenarios.layers import Layer
from scenarios.loops import Discovery, Health, ListTrouble, SwitchOrder
from scenarios.record import Alarm, Record, State
from scenarios.spec import Fault, Pool, Router, Scenario, Service
from simulator.run import run
from tests.simulator.chains import chain

SERVICE = Service(first_token_s=0.05, token_gap_s=0.01, tokens=6)


def routed(router: Router, *, operations: int = 600, **scenario: Any) -> Scenario:
    """Return a run of a minute, ten operations a second, at two pools."""
    pools = scenario.pop("pools", (Pool(id="east", service=SERVICE), Pool(id="west", service=SERVICE)))
    layer = Layer(name="router", kind="pooldrill")
    return chain(layer, rate_rps=10.0, operations=operations, pools=pools, router=router, **scenario)


def told(record: Record, kind: str) -> list[tuple[float, str, str]]:
    """Return the changes of one kind."""
    rows = [row for row in record.rows if isinstance(row, State) and row.kind == kind]
    return [(round(row.t, 3), row.target, row.value) for row in rows]


def test_probing_takes_a_frontend_out_and_puts_it_back(tmp_path: Path) -> None:
    fault = Fault(kind="refused", pool="east", inject_s=20.0, clear_s=40.0)
    probes = Health(probe_interval_s=1.0, rise=2, fall=2)
    scenario = routed(Router(cooldown=False, health=probes), faults=(fault,))
    record = run(scenario, tmp_path)
    health = [entry for entry in told(record, "health") if entry[1] == "east-0"]
    assert [value for _, _, value in health] == ["healthy", "unhealthy", "healthy"]
    assert health[0][0] == pytest.approx(1.0)
    assert 20.0 < health[1][0] <= 22.0
    assert 40.0 < health[2][0] <= 42.0
    # While east is known to be unhealthy nothing is sent there.
    between = [send for send in record.sends if health[1][0] < send.t_start < health[2][0]]
    assert between
    assert {send.pool for send in between} == {"west"}
    assert all(operation.ok for operation in record.operations if operation.t_intended < 20.0)


def test_a_pool_that_discovery_lists_later_gets_its_share_from_then_on(tmp_path: Path) -> None:
    pools = (
        Pool(id="east", service=SERVICE),
        Pool(id="north", service=SERVICE, join_s=20.0, leave_s=40.0),
    )
    record = run(routed(Router(discovery=Discovery(discovery_interval_s=2.0)), pools=pools), tmp_path)
    catalogs = told(record, "catalog")
    assert [value for _, _, value in catalogs] == ["east north", "east"]
    assert [t_s for t_s, _, _ in catalogs] == pytest.approx([20.0, 40.0], abs=2.0)
    north = [send.t_start for send in record.sends if send.pool == "north"]
    assert 20.0 <= min(north) <= max(north) <= 42.0
    assert len(north) == pytest.approx(100, abs=12)


def test_a_silent_discovery_keeps_the_list_and_raises_its_alarm(tmp_path: Path) -> None:
    silent = ListTrouble(kind="silent", inject_s=5.0, clear_s=50.0)
    discovery = Discovery(discovery_interval_s=2.0, troubles=(silent,))
    record = run(routed(Router(discovery=discovery)), tmp_path)
    assert told(record, "catalog") == []
    assert {operation.ok for operation in record.operations} == {True}
    alarms = [row for row in record.rows if isinstance(row, Alarm)]
    assert [alarm.kind for alarm in alarms] == ["stale_discovery"]
    assert alarms[0].since == pytest.approx(36.0, abs=4.0)
    assert alarms[0].cleared == pytest.approx(52.0, abs=4.0)


def test_a_switch_moves_all_traffic_once_the_target_is_proved(tmp_path: Path) -> None:
    router = Router(selection=Selection.PRIMARY_BACKUP, switch=SwitchOrder(at_s=10.0, to="west"))
    record = run(routed(router), tmp_path)
    assert [value for _, _, value in told(record, "switch")] == [
        "to west: ordered",
        "to west: switched, 3 good sends in a row",
    ]
    ((moved_s, _, active),) = told(record, "primary")
    assert active == "west (operator)"
    assert moved_s == pytest.approx(20.0, abs=0.5)  # three rounds of probes, 5 s apart
    assert {send.pool for send in record.sends if send.t_start < moved_s} == {"east"}
    assert {send.pool for send in record.sends if send.t_start > moved_s} == {"west"}


def test_a_switch_to_a_pool_that_refuses_is_rolled_back(tmp_path: Path) -> None:
    fault = Fault(kind="refused", pool="west", inject_s=5.0, clear_s=59.0)
    router = Router(selection=Selection.PRIMARY_BACKUP, switch=SwitchOrder(at_s=10.0, to="west"))
    scenario = routed(router, faults=(fault,))
    record = run(scenario, tmp_path)
    assert told(record, "primary") == []
    assert told(record, "switch")[-1][2].startswith("to west: rolled back, 5 failures in a row")


def test_benching_is_told_as_a_state(tmp_path: Path) -> None:
    fault = Fault(kind="refused", pool="east", inject_s=20.0, clear_s=40.0)
    record = run(routed(Router(), faults=(fault,)), tmp_path)
    standings = [value for _, target, value in told(record, "cooldown") if target == "east-0"]
    assert set(standings[:-1]) == {"benched"}  # for longer with each trial that failed
    assert standings[-1] == "slow_start"


def test_the_end_of_a_run_with_loops_is_when_nobody_waits(tmp_path: Path) -> None:
    scenario = routed(Router(health=Health(probe_interval_s=1.0, rise=1)), operations=100)
    record = run(msgspec.structs.replace(scenario, duration_s=15.0), tmp_path)
    assert max(sample.t for sample in record.samples) == 15.0
