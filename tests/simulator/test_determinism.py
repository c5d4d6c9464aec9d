"""The same seed gives the same bytes of record from line 2 on, in every process."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scenarios.load import catalog, load
from scenarios.record import read, record_path
from scenarios.spec import Pool, Scenario
from simulator.run import run
from tests.simulator import drills

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from simulator.run import run
from tests.simulator.test_determinism import busy
run(busy(int(sys.argv[2])), Path(sys.argv[1]))
"""


def busy(seed: int) -> Scenario:
    """Return a scenario with drawn arrivals, drawn sleeps of the SDK, and three faults at once."""
    pools = tuple(Pool(id=name, frontends=2, service=drills.SERVICE) for name in "abc")
    return drills.drill(
        drills.fault("refused", "a", at=(0.5, 2.5)),
        drills.fault("black_hole", "b", at=(1.0, 2.0)),
        drills.fault("cut", "c", at=(0.7, 2.2), after_events=2),
        load=(
            drills.load(start_s=0.0, count=60, rate_rps=20.0, arrivals="poisson", client="openai"),
            drills.load(start_s=0.0, count=60, rate_rps=20.0, arrivals="poisson", stream=True),
        ),
        pools=pools,
        seed=seed,
    )


def body(out: Path) -> bytes:
    """Return the record from line 2 on."""
    return record_path(out, "drill", "simulated").read_bytes().partition(b"\n")[2]


def run_elsewhere(out: Path, seed: int, hash_seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(out), str(seed)], cwd=ROOT, env=environment, check=True, timeout=60
    )
    return body(out)


def test_processes_with_different_hash_seeds_write_the_same_bytes(tmp_path: Path) -> None:
    first = run_elsewhere(tmp_path / "first", 11, "1")
    second = run_elsewhere(tmp_path / "second", 11, "2")
    run(busy(11), tmp_path)
    assert len(first.splitlines()) > 700
    assert first == second == body(tmp_path)


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    run(busy(11), tmp_path / "one")
    run(busy(12), tmp_path / "other")
    assert body(tmp_path / "one") != body(tmp_path / "other")


def test_what_is_read_back_is_what_was_returned(tmp_path: Path) -> None:
    written = run(busy(11), tmp_path)
    assert read(record_path(tmp_path, "drill", "simulated")).rows == written.rows


def test_one_more_load_shifts_no_draw_of_another(tmp_path: Path) -> None:
    fewer = busy(11)
    more = msgspec.structs.replace(fewer, load=(*fewer.load, drills.load(start_s=5.0)))
    arrivals = [[o.t_intended for o in run(scenario, tmp_path).operations if o.load < 2] for scenario in (fewer, more)]
    assert arrivals[0] == arrivals[1]


@pytest.mark.parametrize("path", catalog(), ids=lambda path: path.stem)
def test_a_record_of_the_catalog_has_every_part(path: Path, tmp_path: Path) -> None:
    record = run(load(path), tmp_path)
    assert record.meta.mode == "simulated"
    assert record.meta.started.endswith("+00:00")
    assert record.meta.versions.keys() == {"python", "simpy", "pooldrill"}
    parts = {"Operation", "Request", "Send", "PoolEvent", "Sample"}
    layers, faults = record.scenario.layers, record.scenario.faults
    if not layers or layers[-1].kind == "pooldrill":
        parts.add("Metric")  # of the router
    told = {type(row).__name__ for row in record.rows} - {"State", "Alarm"}  # what routers have no cause to tell
    assert told == parts | ({"Fault"} if faults else set())
    assert all(fault.proved and fault.cleared for fault in record.faults)
