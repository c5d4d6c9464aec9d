"""The queue-level model: layers, pools, semantics, each in a scenario that is small enough to be counted by hand."""

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from scenarios.layers import Backoff, Layer
from scenarios.presets import preset
from scenarios.record import read
from scenarios.spec import Fault, Load, Pool, Scenario, Semantics, Service
from scenarios.static.figures import figures_of
from scenarios.static.of_preset import of_presets
from simulator import chain as model
from simulator.chain.results import KINDS, OK_END, STATUS_END, TIMEOUT_END
from simulator.run import run
from tests.simulator.chains import chain, pool, textbook

FAILING = (pool(slots=None, fail_share=1.0),)
ONE_SLOT = (Pool(id="east", slots=1, service=Service(kind="deterministic", mean_s=1.0)),)


def ends(outcome: model.Outcome) -> dict[str, int]:
    """Count how operations ended, by word."""
    found = np.bincount(outcome.operations["end"], minlength=len(KINDS))
    return {word: int(count) for word, count in zip(KINDS, found, strict=True) if count}


def attempts(outcome: model.Outcome) -> dict[str, float]:
    """Return the mean attempts of each layer for one operation."""
    return {name: float(column.mean()) for name, column in outcome.turns.items()}


def even(*layers: Layer, operations: int = 2, every_s: float = 10.0, **knobs: Any) -> Scenario:
    """Return a chain with an operation every so many seconds, at one slot of 1 s."""
    given: dict[str, Any] = {"pools": ONE_SLOT, **knobs}
    return chain(*layers, rate_rps=1 / every_s, operations=operations, arrivals="even", **given)


HOLE = (Fault(kind="black_hole", pool="east", inject_s=0.0, clear_s=90.0),)


@pytest.mark.parametrize(
    ("words", "sends", "end"),
    [(("connect",), 3, "connect"), (("timeout",), 3, "timeout"), (("5xx",), 1, "timeout")],
    ids=str,
)
def test_a_connect_that_hangs_is_left_at_its_own_time_out(words: tuple[str, ...], sends: int, end: str) -> None:
    knobs: dict[str, Any] = {"retries": 2, "retry_on": words, "in_process": True}
    sdk = Layer(name="sdk", attempt_timeout_s=60.0, connect_timeout_s=5.0, backoff=Backoff(initial_s=0.5), **knobs)
    outcome = model.run(even(sdk, operations=1, faults=HOLE))
    assert ends(outcome) == {end: 1}
    sleeps_s = {3: 0.5 + 1.0, 1: 0.0}[sends]
    assert (outcome.operations["t_end_s"] - outcome.operations["t_start_s"]).tolist() == [sends * 5 + sleeps_s]
    assert [KINDS[end] for end in outcome.sends["end"].tolist()] == ["timeout"] * sends


def test_a_time_out_for_connects_strikes_neither_work_nor_a_layer_between() -> None:
    slow = (Pool(id="east", slots=1, service=Service(kind="deterministic", mean_s=9.0)),)
    sdk = Layer(name="sdk", retries=2, connect_timeout_s=5.0)
    assert ends(model.run(even(sdk, operations=1, pools=slow))) == {"ok": 1}
    gateway = Layer(name="gateway", attempt_timeout_s=20.0)
    outcome = model.run(even(msgspec.structs.replace(sdk, retries=0), gateway, operations=1, faults=HOLE))
    assert (outcome.operations["t_end_s"] - outcome.operations["t_start_s"]).tolist() == [20.0]


def test_a_stock_sdk_on_a_black_hole_waits_no_longer_than_its_check_says() -> None:
    sdk = preset("openai-3.x").layers[0]
    outcome = model.run(even(sdk, operations=1, faults=HOLE))
    waited_s = float((outcome.operations["t_end_s"] - outcome.operations["t_start_s"])[0])
    assert 3 * 5 + 0.75 * 1.5 <= waited_s <= figures_of(of_presets(["openai-3.x"])).wait_hang_s == 16.5


def test_nested_retries_multiply() -> None:
    outcome = model.run(chain(Layer(name="sdk", retries=3), Layer(name="gateway", retries=2), pools=FAILING))
    assert attempts(outcome) == {"sdk": 4, "gateway": 12}
    assert ends(outcome) == {"status": 1000}


def test_attempts_of_two_layers_by_chance() -> None:
    layers = (Layer(name="sdk", retries=3), Layer(name="gateway", retries=2))
    outcome = model.run(chain(*layers, pools=(pool(slots=None, fail_share=0.5),), operations=50_000))
    assert outcome.sends_per_operation() == pytest.approx(1.99951, rel=0.01)


def test_five_layers_of_three_tries() -> None:
    layers = [Layer(name=f"layer_{n}", retries=2) for n in range(5)]
    assert model.run(chain(*layers, pools=FAILING, operations=3)).sends_per_operation() == 243


def test_a_cap_over_the_chain_bounds_all_layers_together() -> None:
    layers = [Layer(name=name, retries=3, counts_chain=True) for name in ("sdk", "gateway")]
    outcome = model.run(chain(*layers, pools=FAILING, chain_cap=2))
    assert set(outcome.turns["gateway"].tolist()) == {3}


def test_a_spent_cap_is_told_to_the_layers_above() -> None:
    outer = Layer(name="app", retries=3, honours_veto=True)
    inner = Layer(name="sdk", retries=3, counts_chain=True)
    assert attempts(model.run(chain(outer, inner, pools=FAILING, chain_cap=1))) == {"app": 1, "sdk": 2}
    deaf = msgspec.structs.replace(outer, honours_veto=False)
    assert attempts(model.run(chain(deaf, inner, pools=FAILING, chain_cap=1))) == {"app": 4, "sdk": 5}


@pytest.mark.parametrize(
    ("words", "status", "tries"),
    [(("5xx",), 503, 3), (("429",), 503, 1), (("503",), 503, 3), (("4xx",), 429, 3), (("connect", "timeout"), 500, 1)],
)
def test_a_layer_retries_on_its_words(words: tuple[str, ...], status: int, tries: int) -> None:
    pools = (pool(slots=None, fail_share=1.0, fail_status=status),)
    outcome = model.run(chain(Layer(name="sdk", retries=2, retry_on=words), pools=pools, operations=10))
    assert outcome.sends_per_operation() == tries


def test_a_gateway_of_its_own_answers_with_a_status_where_a_library_raises() -> None:
    fault = Fault(kind="refused", pool="east", inject_s=5.0, clear_s=50.0)
    for in_process, word in ((True, "connect"), (False, "status")):
        outcome = model.run(even(Layer(name="gateway", in_process=in_process), faults=(fault,), operations=3))
        assert ends(outcome) == {"ok": 1, word: 2}


def test_a_deadline_is_carried_through_layers_that_have_none() -> None:
    app = Layer(name="app", deadline_s=5.0, counts_chain=True)
    gateway = Layer(name="gateway", retries=3, counts_chain=True, backoff=Backoff(initial_s=3.0))
    for between in ((), (Layer(name="sdk", counts_chain=True),)):
        scenario = chain(app, *between, gateway, pools=FAILING, operations=2, chain_cap=9)
        outcome = model.run(scenario)
        assert (outcome.operations["t_end_s"] - outcome.operations["t_start_s"]).tolist() == pytest.approx([3.0, 3.0])


def test_an_attempt_that_times_out_is_left_and_its_work_goes_on_or_not() -> None:
    layer = Layer(name="sdk", attempt_timeout_s=0.5)
    for cancel, state in (("never", 3), ("queue", 3), ("service", 4)):
        pools = (msgspec.structs.replace(ONE_SLOT[0], cancel=cancel),)
        outcome = model.run(even(layer, pools=pools))
        assert set(outcome.sends["end"].tolist()) == {TIMEOUT_END}
        assert set(outcome.sends["job"].tolist()) == {state}
        assert outcome.frontends[0].orphaned_s == (0.0 if cancel == "service" else 1.0)


@pytest.mark.parametrize(
    ("covers", "end"), [("connect", "ok"), ("queue", "ok"), ("first_byte", "ok"), ("whole", "lost")]
)
def test_what_a_time_out_covers(covers: Any, end: str) -> None:
    service = Service(first_token_s=0.2, token_gap_s=0.2, tokens=5)
    layer = Layer(name="sdk", attempt_timeout_s=0.5, timeout_covers=covers)
    outcome = model.run(even(layer, pools=(Pool(id="east", slots=1, service=service),), stream=True))
    assert ends(outcome) == {end: 2}


@pytest.mark.parametrize("bound", ["attempt_timeout_s", "deadline_s"])
@pytest.mark.parametrize("where", ["inner", "outer"])
@pytest.mark.parametrize(("stream", "sends"), [(True, 1), (False, None)], ids=["stream", "plain"])
def test_a_stream_that_is_cut_short_is_not_sent_again(
    bound: str, where: str, sends: int | None, *, stream: bool
) -> None:
    """The first token is there after .2 s; nobody can take it back when the patience of one layer is over at .5 s."""
    service = Service(first_token_s=0.2, token_gap_s=0.2, tokens=5)
    outer: dict[str, Any] = {"retries": 1, bound: 0.5} if where == "outer" else {"retries": 1}
    inner: dict[str, Any] = {"retries": 1, bound: 0.5} if where == "inner" else {"retries": 1}
    layers = (Layer(name="app", in_process=True, **outer), Layer(name="gateway", **inner))
    pools = (Pool(id="east", slots=9, service=service),)
    outcome = model.run(even(*layers, pools=pools, operations=1, stream=stream))
    # Cut short before its first token it is sent again: by the layer above a deadline, by both else.
    again = {("attempt_timeout_s", "inner"): 4, ("attempt_timeout_s", "outer"): 2, ("deadline_s", "inner"): 2}
    assert len(outcome.sends["end"]) == (sends or again.get((bound, where), 1))
    seen = "lost" if where == "inner" else "timeout"
    assert ends(outcome) == {seen if stream else "status" if where == "inner" else "timeout": 1}


def test_a_plain_answer_has_its_first_byte_when_all_of_it_is_there() -> None:
    service = Service(first_token_s=0.2, token_gap_s=0.2, tokens=5)
    layer = Layer(name="sdk", attempt_timeout_s=0.5, timeout_covers="first_byte")
    outcome = model.run(even(layer, pools=(Pool(id="east", slots=1, service=service),)))
    assert ends(outcome) == {"status": 2}


def test_a_time_out_over_the_queue_strikes_only_who_waits() -> None:
    layer = Layer(name="sdk", attempt_timeout_s=0.5, timeout_covers="queue")
    outcome = model.run(even(layer, operations=4, every_s=0.4))
    assert outcome.operations["end"].tolist() == [OK_END, STATUS_END, OK_END, STATUS_END]
    assert outcome.operations["t_end_s"].tolist() == pytest.approx([1.0, 0.9, 2.0, 1.7])


def test_a_deadline_ends_a_call_whatever_is_left_of_its_retries() -> None:
    layer = Layer(name="sdk", retries=9, attempt_timeout_s=0.4, deadline_s=1.0)
    outcome = model.run(even(layer))
    assert outcome.turns["sdk"].tolist() == [3, 3]
    assert (outcome.operations["t_end_s"] - outcome.operations["t_start_s"]).tolist() == pytest.approx([1.0, 1.0])


def test_no_retry_begins_that_the_deadline_would_meet_asleep() -> None:
    layer = Layer(name="sdk", retries=9, deadline_s=1.0, backoff=Backoff(initial_s=0.6, factor=1.0))
    outcome = model.run(even(layer, pools=FAILING))
    assert outcome.turns["sdk"].tolist() == [2, 2]
    assert (outcome.operations["t_end_s"] - outcome.operations["t_start_s"]).tolist() == pytest.approx([0.6, 0.6])


def test_a_deadline_that_is_carried_along_binds_the_layers_below() -> None:
    outer = Layer(name="sdk", deadline_s=1.0, counts_chain=True)
    inner = Layer(name="gateway", retries=9, counts_chain=True, backoff=Backoff(initial_s=0.4, factor=1.0))
    outcome = model.run(even(outer, inner, pools=FAILING, chain_cap=99))
    assert outcome.turns["gateway"].tolist() == [3, 3]
    assert set(outcome.operations["status"].tolist()) == {500}


def test_whoever_leaves_takes_all_layers_below_along() -> None:
    layers = (Layer(name="app", deadline_s=0.5), Layer(name="sdk", retries=5), Layer(name="gateway", retries=5))
    outcome = model.run(even(*layers))
    assert outcome.drained
    assert [KINDS[end] for end in outcome.layers["sdk"]["end"]] == ["left", "left"]
    assert [KINDS[end] for end in outcome.sends["end"]] == ["left", "left"]


def test_backoff_grows_to_its_bound() -> None:
    layer = Layer(name="sdk", retries=4, backoff=Backoff(initial_s=1.0, max_s=3.0))
    outcome = model.run(even(layer, pools=FAILING, operations=1))
    assert np.diff(outcome.sends["t_start_s"]).tolist() == pytest.approx([1.0, 2.0, 3.0, 3.0])


def test_a_quarter_of_jitter_is_what_openai_sleeps() -> None:
    layer = Layer(name="sdk", retries=3, backoff=Backoff(initial_s=0.5, max_s=8.0, jitter=0.25))
    outcome = model.run(chain(layer, pools=FAILING, operations=20_000, rate_rps=1000))
    slept = outcome.operations["t_end_s"] - outcome.operations["t_start_s"]
    assert slept.mean() == pytest.approx(3.0625, rel=0.005)
    assert slept.max() <= 3.5


@pytest.mark.parametrize(
    ("asked_s", "beyond", "starts"),
    [(2.0, "give_up", [0.0, 2.0]), (7.0, "give_up", [0.0]), (7.0, "own", [0.0, 0.5])],
)
def test_a_retry_after_takes_the_place_of_the_backoff(asked_s: float, beyond: Any, starts: list[float]) -> None:
    layer = Layer(
        name="sdk", retries=1, backoff=Backoff(initial_s=0.5), honours_retry_after=True, retry_after_s_max=5.0,
        retry_after_beyond=beyond,
    )  # fmt: skip
    full = Pool(id="east", slots=1, queue_max=0, reject_retry_after_s=asked_s, service=Service(mean_s=60.0))
    busy = msgspec.structs.replace(full, service=Service(kind="deterministic", mean_s=60.0))
    outcome = model.run(even(layer, operations=2, every_s=1.0, pools=(busy,)))
    second = outcome.sends["operation"] == 1
    assert (outcome.sends["t_start_s"][second] - 1.0).tolist() == pytest.approx(starts)


def test_a_cheap_reject_is_retried_at_once_or_after_the_backoff() -> None:
    layer = Layer(name="sdk", retries=2, backoff=Backoff(initial_s=2.0, factor=1.0))
    full = (msgspec.structs.replace(ONE_SLOT[0], queue_max=0),)
    slept = {}
    for rule in ("backoff", "at_once"):
        scenario = even(layer, operations=2, every_s=0.5, pools=full, semantics=Semantics(cheap_rejects=rule))
        outcome = model.run(scenario)
        slept[rule] = (outcome.operations["t_end_s"][1], ends(outcome))
    assert slept["at_once"] == (0.5, {"ok": 1, "status": 1})
    assert slept["backoff"] == (3.5, {"ok": 2})


def test_a_late_answer_is_lost_or_counts() -> None:
    layer = Layer(name="sdk", retries=1, attempt_timeout_s=0.7)
    pools = (msgspec.structs.replace(ONE_SLOT[0], cancel="never"),)
    found = {
        rule: model.run(even(layer, operations=1, pools=pools, semantics=Semantics(late_answers=rule)))
        for rule in ("lost", "count")
    }
    assert ends(found["lost"]) == {"status": 1}
    assert ends(found["count"]) == {"ok": 1}
    assert found["count"].operations["t_end_s"].tolist() == [1.0]


@pytest.mark.parametrize(("scope", "sends"), [("global", 11), ("client", 12), ("request", 20)])
def test_a_budget_is_shared_by_its_scope(scope: Any, sends: int) -> None:
    budget = "token_bucket:ratio=0,tokens_start=1,tokens_max=1"
    layer = Layer(name="sdk", retries=1, budget=budget, budget_scope=scope, clients=2)
    assert len(model.run(even(layer, operations=10, pools=FAILING)).sends["end"]) == sends


def test_a_budget_may_gate_first_attempts_too() -> None:
    layer = Layer(name="sdk", budget="token_bucket:ratio=0,tokens_start=3", budget_gates="attempts")
    outcome = model.run(even(layer, operations=10))
    assert len(outcome.sends["end"]) == 3
    assert ends(outcome) == {"ok": 3, "status": 7}


@pytest.mark.parametrize(("where", "word"), [("same", "status"), ("other", "ok")])
def test_pools_same_or_other(where: Any, word: str) -> None:
    pools = (pool("east", slots=None, fail_share=1.0), pool("west", slots=None))
    layer = Layer(name="gateway", retries=1, pools=where, balance="primary")
    assert ends(model.run(chain(layer, pools=pools))) == {word: 1000}


@pytest.mark.parametrize(("balance", "least"), [("round_robin", 500), ("random", 440)])
def test_round_robin_and_chance_share_the_load(balance: Any, least: int) -> None:
    pools = (pool("east", slots=None), pool("west", slots=None))
    outcome = model.run(chain(Layer(name="gateway", balance=balance), pools=pools))
    assert min(total.finished for total in outcome.frontends) >= least


@pytest.mark.parametrize(
    ("fault", "counts"),
    [
        ({"kind": "refused"}, {"ok": 3, "status": 3}),
        ({"kind": "read_drop"}, {"ok": 4, "status": 2}),
        ({"kind": "errors", "share": 1.0, "status": 429}, {"ok": 4, "status": 2}),
        ({"kind": "capacity_loss", "share": 1.0}, {"ok": 6}),
        ({"kind": "slow_down", "factor": 4.0}, {"ok": 6}),
        ({"kind": "black_hole"}, {"ok": 5, "status": 1}),
    ],
)
def test_faults_do_what_they_say(fault: dict[str, Any], counts: dict[str, int]) -> None:
    # Work of 1 s, every 2 s; on from 4.5 s, while the third is at work, until 9 s: the fourth and fifth meet it.
    made = Fault(pool="east", inject_s=4.5, clear_s=9.0, **fault)
    outcome = model.run(even(Layer(name="gateway"), operations=6, every_s=2.0, faults=(made,)))
    assert outcome.drained
    assert ends(outcome) == counts
    assert ends(model.run(outcome.scenario, faults=False)) == {"ok": 6}


def test_a_hanging_connect_is_made_again_by_the_kernel_once_the_hole_has_gone() -> None:
    fault = Fault(kind="black_hole", pool="east", inject_s=9.0, clear_s=12.5)
    outcome = model.run(even(Layer(name="gateway"), operations=2, faults=(fault,)))
    assert outcome.sends["t_work_s"].tolist() == [0.0, 13.0]  # begun at 10, made again at 11, 12, 13


def test_a_connect_time_out_ends_a_hanging_connect_as_unsent() -> None:
    fault = Fault(kind="black_hole", pool="east", inject_s=5.0, clear_s=80.0)
    layer = Layer(name="gateway", retries=1, attempt_timeout_s=1.5, timeout_covers="connect")
    outcome = model.run(even(layer, operations=2, faults=(fault,)))
    assert outcome.operations["t_end_s"].tolist() == pytest.approx([1.0, 13.0])
    assert outcome.sends["connected"].tolist() == [1, 0, 0]


def test_a_cut_lets_its_events_pass() -> None:
    service = Service(first_token_s=0.2, token_gap_s=0.1, tokens=9)
    fault = Fault(kind="cut", pool="east", inject_s=5.0, clear_s=15.0, after_events=4)
    pools = (Pool(id="east", slots=1, service=service),)
    outcome = model.run(even(Layer(name="gateway", in_process=True), operations=2, pools=pools, faults=(fault,)))
    assert ends(outcome) == {"ok": 1, "lost": 1}
    assert outcome.operations["t_end_s"].tolist() == pytest.approx([1.0, 10.5])


def test_a_queue_bound_rejects_and_lifo_serves_the_youngest() -> None:
    bound = (msgspec.structs.replace(ONE_SLOT[0], queue_max=1),)
    outcome = model.run(even(Layer(name="gateway"), operations=4, every_s=0.1, pools=bound))
    assert ends(outcome) == {"ok": 2, "status": 2}
    lifo = (msgspec.structs.replace(ONE_SLOT[0], order="lifo"),)
    outcome = model.run(even(Layer(name="gateway"), operations=4, every_s=0.1, pools=lifo))
    assert outcome.operations["t_end_s"].tolist() == pytest.approx([1.0, 4.0, 3.0, 2.0])


def test_the_first_token_of_an_operation_is_that_of_its_answer() -> None:
    service = Service(kind="by_tokens", profile="8b-h100")
    pools = (Pool(id="east", slots=8, service=service, cache_sessions=10),)
    scenario = even(Layer(name="gateway"), operations=3, pools=pools, stream=True)
    load = msgspec.structs.replace(scenario.load[0], prompt_tokens=1000, output_tokens=101, sessions=1)
    outcome = model.run(msgspec.structs.replace(scenario, load=(load,)))
    took = (outcome.operations["t_first_s"] - outcome.operations["t_start_s"]).tolist()
    assert took == pytest.approx([0.23, 0.03, 0.03])  # the second prompt of a session is cached
    assert outcome.operations["t_end_s"].tolist() == pytest.approx([1.48, 11.28, 21.28])


def test_a_horizon_stops_the_model_with_what_is_under_way(tmp_path: Path) -> None:
    layers = (Layer(name="sdk", retries=1, attempt_timeout_s=5.0), Layer(name="gateway"))
    outcome = model.run(even(*layers, operations=4, every_s=0.5, horizon_s=2.6))
    assert not outcome.drained
    assert ends(outcome) == {"ok": 2, "open": 2}
    assert [(total.running, total.waiting) for total in outcome.frontends] == [(1, 1)]
    assert [KINDS[end] for end in outcome.layers["sdk"]["end"]] == ["ok", "ok", "open", "open"]
    assert run(outcome.scenario, tmp_path).operations[-1].error == "unfinished"


def test_a_queue_of_textbooks() -> None:
    outcome = model.run(textbook(0.5, operations=40_000))
    waits = outcome.sends["t_work_s"] - outcome.sends["t_start_s"]
    assert waits.mean() == pytest.approx(1.0, rel=0.06)
    blocked = model.run(textbook(8.0, slots=10, queue_max=0)).operations["end"] == STATUS_END
    assert blocked.mean() == pytest.approx(0.121661, rel=0.05)


class TestRandomness:
    """A fault, a layer, a pool or a load shifts nobody else's draws."""

    def test_the_control_arm_has_the_same_arrivals_and_the_same_work(self) -> None:
        fault = Fault(kind="capacity_loss", pool="east", inject_s=1.0, clear_s=3.0, share=1.0)
        scenario = chain(Layer(name="sdk", retries=2, attempt_timeout_s=0.05), pools=(pool(),), faults=(fault,))
        with_it, without = model.run(scenario), model.run(scenario, faults=False)
        assert with_it.operations["t_start_s"].tolist() == without.operations["t_start_s"].tolist()
        assert len(with_it.sends["end"]) > len(without.sends["end"])
        assert firsts(with_it) == firsts(without)

    def test_another_layer_and_another_pool_shift_nothing(self) -> None:
        one = model.run(chain(Layer(name="gateway", retries=1), pools=(pool(fail_share=0.2),)))
        layers = (Layer(name="sdk", retries=1, backoff=Backoff(initial_s=0.1, jitter=1.0)), Layer(name="gateway"))
        other = model.run(chain(*layers, pools=(pool(fail_share=0.2), pool("west"))))
        assert firsts(one) == firsts(other)

    def test_a_further_load_shifts_nothing(self) -> None:
        scenario = chain(pools=(pool(),), operations=300)
        spike = Load(rate_rps=500.0, start_s=1.0, end_s=1.5, arrivals="even")
        one, both = model.run(scenario), model.run(msgspec.structs.replace(scenario, load=(*scenario.load, spike)))
        ours = np.flatnonzero(both.operations["load"] == 0).tolist()
        work = firsts(both)
        assert [work[operation] for operation in ours] == list(firsts(one).values())

    def test_replications_differ_and_repeat(self) -> None:
        scenario = chain(pools=(pool(),))
        assert firsts(model.run(scenario, 1)) == firsts(model.run(scenario, 1))
        assert firsts(model.run(scenario, 1)) != firsts(model.run(scenario, 2))


def firsts(outcome: model.Outcome) -> dict[int, float]:
    """Return the work of the first send of each operation."""
    table = outcome.sends
    found: dict[int, float] = {}
    for operation, work_s in zip(table["operation"].tolist(), table["work_s"].tolist(), strict=True):
        found.setdefault(operation, work_s)
    return found


def test_the_record_tells_it_in_the_words_of_a_real_run(tmp_path: Path) -> None:
    layers = (Layer(name="sdk", retries=1), Layer(name="gateway", retries=1, pools="other"))
    pools = (pool("east", fail_share=1.0), pool("west"))
    scenario = chain(*layers, pools=pools, operations=200)
    record = run(scenario, tmp_path)
    assert read(tmp_path / "chain.simulated.jsonl").rows == record.rows
    assert {operation.ok for operation in record.operations} == {True}
    assert record.operations[0].attempts == {"sdk": 1, "gateway": 2}
    assert record.operations[1].attempts == {"sdk": 1, "gateway": 1}
    assert [send.outcome for send in record.sends[:2]] == [("answered", "", 500), ("answered", "", 200)]
    assert {event.kind for event in record.pool_events} >= {"body_complete", "started", "finished"}
    assert {sample.kind for sample in record.samples} == {"queue", "in_flight"}


def test_loads_of_several_entries_add_up() -> None:
    scenario = chain(pools=(pool(),), operations=300)
    spike = Load(rate_rps=500.0, start_s=1.0, end_s=1.5, arrivals="even")
    outcome = model.run(msgspec.structs.replace(scenario, load=(*scenario.load, spike)))
    assert np.bincount(outcome.operations["load"])[1] == 250
    assert np.all(np.diff(outcome.operations["t_start_s"]) >= 0)


def test_an_outcome_is_frozen() -> None:
    outcome = model.run(chain(operations=2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.end_s = 1.0  # type: ignore[misc] # what must not work
