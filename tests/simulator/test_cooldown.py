"""Cooldown, trials, patience and the full-price connect in the model."""

from pathlib import Path

import pytest

from router.core.config import Selection
from scenarios.record import Record
from scenarios.spec import Load, Pool, Router, Service
from simulator.run import run
from tests.simulator.drills import SERVICE, drill, fault, load


def sends_to(record: Record, pool: str, *, start_s: float = 0.0, end_s: float = float("inf")) -> list[str]:
    """Return what became of the sends to a pool that began between two times."""
    return [s.cause or str(s.status) for s in record.sends if s.pool == pool and start_s <= s.t_start < end_s]


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("connect_timeout_s", [5.0, 1.0])
def test_a_minute_of_a_black_hole_costs_two_connect_timeouts_at_the_most(
    tmp_path: Path, selection: Selection, connect_timeout_s: float
) -> None:
    service = Service(first_token_s=0.02, token_gap_s=0.0, tokens=1)
    minute = drill(
        fault("black_hole", at=(1.0, 61.0)),
        load=Load(rate_rps=50.0, start_s=1.5, end_s=59.0, arrivals="poisson"),
        pools=(Pool(id="a", service=service), Pool(id="b", service=service)),
        router=Router(connect_timeout_s=connect_timeout_s, deadline_s=60.0, selection=selection),
        duration_s=70.0,
    )
    record = run(minute, tmp_path)
    assert {request.answer for request in record.requests} == {"200"}
    paid_s = sum(send.t_end - send.t_start for send in record.sends if send.cause == "connect_timeout")
    assert 0 < paid_s <= 2 * connect_timeout_s


def test_a_refusing_pool_is_benched_and_comes_back(tmp_path: Path) -> None:
    away = drill(
        fault("refused", at=(1.0, 3.0)),
        load=load(start_s=1.1, count=50, rate_rps=10.0),
        router=Router(cooldown_s=1.0, slow_start_s=0.0),
        duration_s=8.0,
    )
    record = run(away, tmp_path)
    assert {request.answer for request in record.requests} == {"200"}
    # Failures at 1.1, 1.3 and 1.5; trials at 2.5, which is refused, and 2 s later.
    assert sends_to(record, "a", end_s=4.5) == ["refused"] * 3
    assert sends_to(record, "a", start_s=4.5) == ["200"] * 7, "every second one of the 15 that are left"


def test_the_share_of_a_pool_that_has_returned_rises(tmp_path: Path) -> None:
    away = drill(
        fault("refused", at=(1.0, 1.9)),
        load=load(start_s=1.1, count=600, rate_rps=50.0),
        router=Router(cooldown_s=1.0, slow_start_s=8.0),
        duration_s=14.0,
    )
    record = run(away, tmp_path)
    shares = [len(sends_to(record, "a", start_s=t, end_s=t + 2.0)) / 100 for t in (2.3, 4.3, 6.3, 8.3, 10.4)]
    assert shares == pytest.approx([0.06, 0.19, 0.31, 0.44, 0.5], abs=0.1)
    assert shares == sorted(shares)


def test_the_only_pool_is_tried_while_requests_wait_for_it(tmp_path: Path) -> None:
    alone = drill(
        fault("refused", "only", at=(1.0, 2.0)),
        load=load(start_s=1.1, count=8, rate_rps=10.0),
        pools=(Pool(id="only", service=SERVICE),),
        router=Router(cooldown_s=30.0, patience_s=2.0),
    )
    record = run(alone, tmp_path)
    answers = [request.answer for request in sorted(record.requests, key=lambda request: request.t_start)]
    assert answers == ["503 pool_unreachable"] * 3 + ["200"] * 5
    back_s = min(send.t_start for send in record.sends if send.status == 200)
    assert 2.0 < back_s < 2.3, "tried every quarter of a second, not after the rest of 30 s"


def test_who_waits_longer_than_the_patience_hears_when_to_come_back(tmp_path: Path) -> None:
    alone = drill(
        fault("refused", "only", at=(1.0, 5.0)),
        load=load(start_s=1.1, count=4, rate_rps=10.0),
        pools=(Pool(id="only", service=SERVICE),),
        router=Router(cooldown_s=30.0, patience_s=0.5),
    )
    record = run(alone, tmp_path)
    last = max(record.requests, key=lambda request: request.t_start)
    assert (last.answer, last.sends) == ("503 no_pool", 0)
    assert last.t_end - last.t_start == pytest.approx(0.5, abs=0.01)
