"""A layer that is this project's router: the rule, its bounds and its memory, in the queue-level model."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from router.core.cooldown import Standing
from scenarios.checks import judge
from scenarios.layers import Backoff, Layer
from scenarios.spec import Fault, Pool, Router, Scenario, Service
from simulator import chain as model
from simulator.chain.gateway import Gateway
from simulator.chain.model import Model
from simulator.chain.results import KINDS
from simulator.run import run
from tests.simulator.chains import chain, pool

ROUTER = Layer(name="router", kind="pooldrill")
TOKENS = Service(first_token_s=0.2, token_gap_s=0.02, tokens=11)


def streamed(name: str, **knobs: Any) -> Pool:
    """Return a pool whose answers take 0.2 s to the first token and 0.4 s in all."""
    return Pool(id=name, service=TOKENS, **knobs)


def drill(kind: Any, *layers: Layer, pools: Any = None, rate_rps: float = 20.0, **scenario: Any) -> Scenario:
    """Return a run of 10 s of streams at two pools, one of which has a fault from 2 s to 5 s."""
    fault = Fault(kind=kind, pool="east", inject_s=2.0, clear_s=5.0, after_events=4 if kind == "cut" else None)
    return chain(
        *layers,
        ROUTER,
        rate_rps=rate_rps,
        operations=int(10 * rate_rps),
        pools=pools or (streamed("east"), streamed("west")),
        faults=(fault,),
        router=scenario.pop("router", Router(cooldown_s=1.0)),
        **{"stream": True} | scenario,
    )


def ways(outcome: model.Outcome) -> Counter[str]:
    """Count how sends ended."""
    return Counter(KINDS[end] for end in outcome.sends["end"])


def test_what_was_not_sent_goes_to_the_other_pool() -> None:
    outcome = model.run(drill("refused", router=Router(cooldown=False)))
    found = ways(outcome)
    # What is in flight at the edge is lost, and not sent again; what is refused is.
    assert found["connect"] == pytest.approx(30, abs=3)
    assert found["lost"] > 0
    assert Counter(KINDS[end] for end in outcome.operations["end"])["ok"] == 200 - found["lost"]
    assert outcome.turns["router"].max() == 2


def test_a_benched_frontend_is_tried_in_the_background_and_comes_back() -> None:
    made = Model(drill("refused", router=Router(cooldown_s=1.0, slow_start_s=0.0)))
    made.run()
    gateway = made.layers[-1]
    assert isinstance(gateway, Gateway)
    states = gateway.policies[0].roster.states.values()
    assert [state.cooldown.standing for state in states] == [Standing.IN_USE, Standing.IN_USE]
    assert gateway.policies[0].in_flight() == {"east": 0, "west": 0}
    late = made.sends.columns()
    after = (late["t_start_s"] > 7.0) & (late["frontend"] == 0)
    assert after.sum() == pytest.approx(30, abs=2)


def test_one_connect_into_a_black_hole_is_paid_in_full() -> None:
    pools = tuple(pool(name, kind="deterministic", slots=None) for name in ("east", "west"))  # idle when it comes
    outcome = model.run(drill("black_hole", rate_rps=50.0, pools=pools, router=Router(connect_timeout_s=1.0)))
    hung = outcome.sends["connected"] == 0
    waits = (outcome.sends["t_end_s"] - outcome.sends["t_start_s"])[hung]
    assert waits.max() == pytest.approx(1.0)
    assert waits.sum() < 1.5


def test_a_request_that_may_be_running_is_never_sent_again() -> None:
    outcome = model.run(drill("read_drop", Layer(name="sdk", retries=2, honours_veto=True)))
    assert ways(outcome)["lost"] > 0
    assert outcome.turns["router"].max() == 1


def test_a_client_that_ignores_the_veto_sends_again() -> None:
    outcome = model.run(drill("read_drop", Layer(name="sdk", retries=2)))
    assert outcome.turns["router"].max() > 1


def test_a_stream_that_breaks_off_is_a_visible_break() -> None:
    outcome = model.run(drill("cut"))
    lost = outcome.sends["end"] == KINDS.index("lost")
    # The first of four events after 0.2 s, three more 0.02 s apart.
    assert (outcome.sends["t_end_s"] - outcome.sends["t_start_s"])[lost] == pytest.approx(0.26)
    assert set(outcome.operations["end"].tolist()) == {KINDS.index("ok"), KINDS.index("lost")}


def test_the_deadline_covers_the_wait_for_a_slot_and_the_stream() -> None:
    pools = (streamed("east", slots=1),)
    scenario = chain(ROUTER, pools=pools, operations=20, rate_rps=10.0, router=Router(deadline_s=0.65), stream=True)
    outcome = model.run(scenario)
    late = outcome.sends["end"] == KINDS.index("timeout")
    assert (outcome.sends["t_end_s"] - outcome.sends["t_start_s"])[late] == pytest.approx(0.65)
    # Some are late while they wait, some while their tokens come: a status to the former, a break to the latter.
    assert set(outcome.operations["status"].tolist()) == {0, 200, 504}


def test_requests_wait_while_nothing_is_usable_and_are_told_when_to_return() -> None:
    pools = (streamed("east"),)
    outcome = model.run(drill("refused", pools=pools, router=Router(cooldown_s=0.5, patience_s=1.0)))
    assert Counter(outcome.operations["status"].tolist())[503] > 10
    waited = outcome.operations["t_end_s"] - outcome.operations["t_start_s"]
    assert waited.max() < 2.0
    assert outcome.operations["end"][-20:].tolist() == [0] * 20


def test_an_sdk_comes_back_when_it_is_told() -> None:
    sdk = Layer(name="sdk", retries=2, honours_retry_after=True, backoff=Backoff(initial_s=0.01))
    outcome = model.run(drill("refused", sdk, pools=(streamed("east"),), router=Router(patience_s=0.1)))
    again = outcome.layers["sdk"]["turn"] > 1
    assert again.sum() > 10
    assert np.diff(np.sort(outcome.layers["sdk"]["t_start_s"][again])).max() > 0.0


def test_each_instance_has_a_state_of_its_own() -> None:
    one = model.run(drill("refused"))
    two = model.run(_instances(2))
    assert ways(two)["connect"] > ways(one)["connect"]


def _instances(count: int) -> Scenario:
    scenario = drill("refused")
    return msgspec.structs.replace(scenario, layers=(msgspec.structs.replace(ROUTER, instances=count),))


def test_sessions_stay_at_their_pool() -> None:
    scenario = chain(ROUTER, pools=(streamed("east"), streamed("west")), operations=200, rate_rps=20.0)
    load = msgspec.structs.replace(scenario.load[0], sessions=6)
    outcome = model.run(msgspec.structs.replace(scenario, load=(load,)))
    places: dict[int, set[int]] = {}
    for operation, frontend in zip(outcome.sends["operation"], outcome.sends["frontend"], strict=True):
        places.setdefault(int(outcome.operations["session"][operation]), set()).add(int(frontend))
    assert len(places) == 6
    assert {len(found) for found in places.values()} == {1}


def test_a_patience_that_is_carried_along_shortens_the_deadline() -> None:
    sdk = Layer(name="sdk", attempt_timeout_s=0.3, timeout_covers="first_byte", counts_chain=True)
    slow = Service(first_token_s=0.5, token_gap_s=0.01, tokens=4)
    scenario = chain(sdk, ROUTER, pools=(Pool(id="east", service=slow),), operations=3, rate_rps=1.0, chain_cap=2)
    outcome = model.run(scenario)
    assert (outcome.operations["t_end_s"] - outcome.operations["t_start_s"]).tolist() == pytest.approx([0.3] * 3)


def test_trials_wait_in_the_queue_where_the_pool_says_so() -> None:
    pools = tuple(streamed(name, slots=2, probes_queue=True) for name in ("east", "west"))
    outcome = model.run(drill("refused", pools=pools, rate_rps=6.0))
    assert outcome.drained
    after = (outcome.sends["t_start_s"] > 8.0) & (outcome.sends["frontend"] == 0)
    assert after.any()


@pytest.mark.parametrize("kind", ["refused", "black_hole", "read_drop", "cut"])
def test_the_laws_of_the_router_hold(kind: Any, tmp_path: Path) -> None:
    router = Router(cooldown=False)  # else who is cut benches the pool, and nobody meets the fault
    record = run(drill(kind, Layer(name="sdk", retries=2, honours_veto=True), router=router), tmp_path)
    verdicts = judge(record)
    assert {"never_twice", "metrics_add_up"} <= verdicts.keys()
    assert {name: str(verdict) for name, verdict in verdicts.items() if not verdict.passed} == {}


def test_a_crowd_of_pools_without_trouble() -> None:
    pools = tuple(pool(name, mean_s=0.05, slots=4) for name in ("a", "b", "c"))
    outcome = model.run(chain(ROUTER, pools=pools, operations=3000, rate_rps=180.0, arrivals="poisson"))
    assert set(outcome.operations["end"].tolist()) == {0}
    finished = [total.finished for total in outcome.frontends]
    assert max(finished) - min(finished) <= 1
