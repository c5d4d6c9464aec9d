"""The static check: the worst cases of what the field ships, and each finding with its number and its knob."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import pooldrill
from scenarios.load import CATALOG, catalog, load, parse
from scenarios.presets import preset_names
from scenarios.static.figures import figures_of
from scenarios.static.finding import Finding
from scenarios.static.findings import findings_of
from scenarios.static.of_preset import of_presets
from scenarios.static.of_scenario import of_scenario, usual_rate_rps
from scenarios.static.stack import Stack, Stage, Station
from scenarios.static.text import as_text
from scenarios.theory.latency import Patience

WIDTH_MAX = 80
SDK = "openai-3.x"


def found(stack: Stack) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings_of(stack, figures_of(stack))}


@pytest.mark.parametrize(
    ("name", "sends", "behind_sdk"),
    [
        ("litellm", 18, 54),
        ("sglang", 5, 15),
        ("vllm-router", 5, 15),
        ("envoy-ai-gateway", 6, 18),
        ("envoy-connect-failure", 2, 6),
        ("haproxy", 4, 12),
        ("aws-legacy", 3, 9),
        ("aws-2026", 3, 9),
        ("grpc", 5, 15),
        ("finagle", 26, 78),
        ("sre", 3, 9),
    ],
)
def test_worst_case_sends_of_a_preset_alone_and_behind_the_sdk(name: str, sends: int, behind_sdk: int) -> None:
    assert figures_of(of_presets([name])).sends_max == sends
    assert figures_of(of_presets([SDK, name])).sends_max == behind_sdk


def test_the_sdks_and_the_two_stacks_of_the_drill() -> None:
    assert [figures_of(of_presets([name])).sends_max for name in ("openai-2.x", SDK)] == [3, 3]
    before, after = (figures_of(of_presets([f"drill-article-{which}"])) for which in ("before", "after"))
    assert (before.sends_max, after.sends_max) == (12, 3)
    assert before.wait_hang_s == pytest.approx(21.5)
    assert after.wait_hang_s == pytest.approx(5.0)
    assert before.safe_utilisation == pytest.approx(1 / 12)
    assert after.safe_utilisation == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["openai-2.x", SDK])
def test_the_sdk_straight_on_the_pools_has_a_time_out_for_connects(name: str) -> None:
    """openai, _constants.py: Timeout(timeout=600, connect=5.0)."""
    alone = of_presets([name])
    figures = figures_of(alone)
    assert figures.wait_hang_s == pytest.approx(3 * 5 + 0.5 + 1.0)
    assert figures.wait_silent_s == pytest.approx(3 * 600 + 0.5 + 1.0)
    assert "  sdk: a connect has 5 s" in as_text(alone, figures, []).splitlines()
    turns = {finding.turn for finding in findings_of(alone, figures)}
    assert any("a shorter connect_timeout_s" in turn for turn in turns)


def test_a_layer_between_takes_the_sdks_connects_at_once() -> None:
    """vLLM's router waits for 1,800 s in its one time-out; the SDK gives up after 600 s of silence, not after 5."""
    figures = figures_of(of_presets([SDK, "vllm-router"]))
    assert figures.wait_hang_s == pytest.approx(3 * 600 + 0.5 + 1.0)


def test_connects_that_never_stand_queue_nothing() -> None:
    envoy = figures_of(of_presets([SDK, "envoy-connect-failure"]))
    assert (envoy.sends_max, envoy.entries_max) == (6, 3)
    haproxy = figures_of(of_presets(["haproxy"]))
    assert (haproxy.sends_max, haproxy.entries_max, haproxy.safe_utilisation) == (4, 1, 1.0)
    assert haproxy.wait_hang_s == pytest.approx(4 * 5 + 3 * 1)


def test_a_budget_counts_in_the_mean_and_not_for_one_operation() -> None:
    figures = figures_of(of_presets(["finagle"], rate_rps=20))
    assert figures.sends_max == 26
    assert figures.entries_mean_max == pytest.approx(1.7)
    assert figures_of(of_presets(["sre"])).entries_mean_max == pytest.approx(1.1)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_told_within_80_columns(name: str) -> None:
    for names in ([name], [SDK, name]):
        for rate in (None, 5.0, 20_000.0):
            stack = of_presets(names, rate_rps=rate, pools=2, capacity_rps=30.0)
            figures = figures_of(stack)
            text = as_text(stack, figures, findings_of(stack, figures))
            assert max(map(len, text.splitlines())) <= WIDTH_MAX, text


@pytest.mark.parametrize("path", catalog(), ids=lambda path: path.stem)
def test_every_scenario_of_the_catalog_can_be_checked(path: Path) -> None:
    stack = of_scenario(load(path))
    figures = figures_of(stack)
    text = as_text(stack, figures, findings_of(stack, figures))
    assert max(map(len, text.splitlines())) <= WIDTH_MAX, text


def sound() -> Stack:
    """A stack of which nothing is to be said: each test below spoils one thing."""
    sdk = Stage(name="sdk", patience=Patience(retries=1, attempt_timeout_s=2, deadline_s=5, sleeps_s=(0.5,)))
    gateway = Stage(
        name="gateway", repeats=False, patience=Patience(retries=1, attempt_timeout_s=0.5), bounds_silence=False
    )
    pools = tuple(Station(id=name, capacity_rps=100, queue_max=50) for name in ("east", "west"))
    return Stack(name="sound", title="Sound", stages=(sdk, gateway), stations=pools, rate_rps=60)


def with_sdk(**changes: object) -> Stack:
    stack = sound()
    return replace(stack, stages=(replace(stack.stages[0], **changes), stack.stages[1]))  # type: ignore[arg-type]


def with_pools(stack: Stack | None = None, **changes: object) -> Stack:
    stack = stack or sound()
    return replace(stack, stations=tuple(replace(s, **changes) for s in stack.stations))  # type: ignore[arg-type]


def test_a_sound_stack_has_no_findings() -> None:
    assert found(sound()) == {}


def test_layers_that_multiply() -> None:
    stack = sound()
    stack = replace(stack, stages=(stack.stages[0], replace(stack.stages[1], repeats=True)))
    finding = found(stack)["layers_multiply"]
    assert (finding.severity, finding.number) == ("error", 4)
    assert "2 x 2" in finding.what
    assert "retries = 0 in gateway" in finding.turn
    assert "layers_multiply" not in found(replace(stack, stages=(stack.stages[0],))), "one layer multiplies nothing"


def test_one_layer_that_tries_too_often_and_the_budget_that_helps() -> None:
    often = Patience(retries=4, attempt_timeout_s=0.5, deadline_s=5)
    assert found(with_sdk(patience=often))["too_many_attempts"].number == 5
    assert "too_many_attempts" not in found(with_sdk(patience=often, budget="token_bucket:ratio=0.1"))


def test_a_load_that_may_not_recover_and_what_covers_it() -> None:
    busy = replace(sound(), rate_rps=110)
    assert "safe_utilisation" in found(with_pools(busy, queue_max=None))
    for covered in ({"queue_max": 50}, {"newest_first": True}, {"finishes_orphans": False}):
        finding = found(with_pools(busy, **covered))["safe_utilisation"]
        assert finding.severity == "note", covered
    finding = found(with_pools(busy, queue_max=None))["safe_utilisation"]
    assert finding.severity == "error"
    assert finding.number == pytest.approx(0.55)
    assert "recovery is certain below 50 %" in finding.what


def test_more_load_than_the_pools_can_serve() -> None:
    finding = found(replace(sound(), rate_rps=250))["overloaded_anyway"]
    assert (finding.severity, finding.number) == ("error", 1.25)


def test_a_queue_longer_than_clients_wait() -> None:
    """mu 100, T 2 s: 200 is the bound."""
    assert found(with_pools(queue_max=199)) == {}
    finding = found(with_pools(queue_max=200))["queue_bound"]
    assert (finding.severity, finding.at, finding.number) == ("error", "east, west", 200)
    assert "queue_max = 100" in finding.turn
    assert found(with_pools(queue_max=None))["queue_bound"].severity == "warning"
    assert "queue_bound" not in found(with_pools(queue_max=None, finishes_orphans=False))
    assert "queue_bound" not in found(with_pools(queue_max=None, newest_first=True))


def test_a_first_request_that_waits_too_long() -> None:
    slow = with_sdk(patience=Patience(retries=1, attempt_timeout_s=8, deadline_s=16))
    finding = found(slow)["first_request_wait"]
    assert (finding.severity, finding.number) == ("warning", 16)
    endless = found(with_sdk(patience=Patience(retries=1)))["first_request_wait"]
    assert (endless.severity, endless.number) == ("error", None)
    assert "first_request_wait" in found(replace(sound(), slo_s=1.5)), "the SLO says what is long"
    assert "first_request_wait" not in found(replace(slow, slo_s=20))


def test_deadlines_that_cannot_be_met() -> None:
    some = Patience(retries=4, attempt_timeout_s=0.8, deadline_s=2, sleeps_s=(0.2,) * 4)
    finding = found(with_sdk(patience=some, budget="token_bucket:ratio=0.1"))["deadline"]
    assert (finding.severity, finding.number) == ("warning", 2)
    assert "Only 3 of them begin" in finding.why
    stack = sound()
    never = replace(stack, stages=(replace(stack.stages[0], patience=Patience(retries=1, deadline_s=1)),))
    stages = (*never.stages, replace(stack.stages[1], patience=Patience(retries=1, attempt_timeout_s=2)))
    finding = found(replace(never, stages=stages))["deadline"]
    assert (finding.severity, finding.why) == ("error", "After a time-out no retry is ever made.")


def test_an_outer_layer_that_gives_up_first() -> None:
    stack = with_sdk(patience=Patience(retries=1, attempt_timeout_s=0.7, deadline_s=5))
    finding = found(stack)["gives_up_first"]
    assert (finding.severity, finding.at, finding.number) == ("warning", "sdk", 0.7)
    assert "gateway goes on for 1 s" in finding.what


@pytest.mark.parametrize(
    ("budget", "rate_rps", "check", "severity"),
    [
        ("window", 5, "budget_does_nothing", "warning"),
        ("window", 20, "budget_is_its_floor", "warning"),
        ("window", 180, None, None),
        ("window", None, "budget_does_nothing", "note"),
        ("envoy", 1.5, "budget_does_nothing", "warning"),
        ("envoy", 2, "budget_is_its_floor", "warning"),
        ("envoy", 60, None, None),
        ("gateway_api", 8, "budget_does_nothing", "warning"),
        ("token_bucket:ratio=0.1", 5, None, None),
        ("token_bucket:ratio=1", 5, "budget_does_nothing", "warning"),
        ("fixed:max_retries=1", 60, "budget_does_nothing", "warning"),
    ],
)
def test_budgets_that_do_nothing_at_this_rate(
    budget: str, rate_rps: float | None, check: str | None, severity: str | None
) -> None:
    stack = replace(with_sdk(budget=budget), rate_rps=rate_rps)
    about = {name: f.severity for name, f in found(stack).items() if name.startswith("budget")}
    assert about == ({} if check is None else {check: severity})


def test_a_budget_for_each_client_sees_a_part_of_the_load() -> None:
    assert "budget_does_nothing" not in found(with_sdk(budget="window"))
    finding = found(with_sdk(budget="window", budgets=10))["budget_does_nothing"]
    assert "(10 budgets)" in finding.what


def test_a_silent_pool_is_not_left_by_who_sends_again_only_what_was_unsent() -> None:
    gateway = Stage(name="gateway", repeats=False, patience=Patience(retries=3, attempt_timeout_s=5, sleeps_s=(1.0,)))
    figures = figures_of(Stack(name="one", title="One", stages=(gateway,)))
    assert (figures.wait_hang_s, figures.wait_silent_s) == (21, 5)


@pytest.mark.parametrize(("cancel", "finishes"), [("never", True), ("queue", False), ("service", False)])
def test_a_queue_that_lets_go_of_who_left_is_not_full_of_them(cancel: str, finishes: bool) -> None:
    stack = of_scenario(parse(LAYERED.replace('cancel = "never"', f'cancel = "{cancel}"'), Path("layered.toml")))
    assert stack.stations[0].finishes_orphans is finishes


def test_the_budget_of_an_inner_layer_sees_what_the_outer_ones_send_again() -> None:
    """10 a second become 20 by one retry above: the floor of 10 a second is half a retry for each, not a whole one."""
    inner = Stage(name="inner", budget="window", patience=Patience(retries=9))
    outer = Stage(name="outer", patience=Patience(retries=1))
    stack = Stack(name="two", title="Two", stages=(outer, inner), rate_rps=10)
    assert figures_of(stack).entries_mean_max == pytest.approx(2 * (1 + 0.2 + 0.5))


def test_a_hundred_clients_of_a_preset_have_a_hundred_budgets() -> None:
    one, hundred = (of_presets(["finagle"], rate_rps=1000.0, clients=clients) for clients in (1, 100))
    assert figures_of(one).entries_mean_max == pytest.approx(1.21)
    assert figures_of(hundred).entries_mean_max == pytest.approx(2.2), "each sees 10 calls a second"


def test_one_pool_lost() -> None:
    assert "one_pool_lost" not in found(replace(sound(), rate_rps=89))
    assert found(replace(sound(), rate_rps=95))["one_pool_lost"].severity == "warning"
    finding = found(replace(sound(), rate_rps=120))["one_pool_lost"]
    assert finding.severity == "error"
    assert finding.number == pytest.approx(1.2)
    assert "90/s" in finding.turn
    stack = sound()
    assert found(replace(stack, stations=stack.stations[:1]))["one_pool_lost"].what == "it is the only pool"


LAYERED = """
name = "layered"
title = "Layers before a pool of language models"
seed = 1
duration_s = 60.0
model_only = "queues"
chain_cap = 2
slo = { total_s = 30.0 }
pools = [
  { id = "a", slots = 8, frontends = 2, queue_max = 20, cancel = "never", service = { kind = "by_tokens", profile = "8b-h100", load_factor = 2.0 } },
  { id = "b", slots = 4, order = "lifo", service = { kind = "exponential", mean_s = 0.5 } },
]
load = [
  { rate_rps = 5.0, start_s = 0.0, end_s = 60.0, prompt_tokens = 1000, output_tokens = 101 },
  { rate_rps = 50.0, start_s = 20.0, end_s = 25.0 },
]
layers = [
  { name = "sdk", preset = "openai-3.x", counts_chain = true, clients = 4, budget = "window", budget_scope = "client" },
  { name = "mesh", retries = 9, retry_on = ["connect", "timeout"], attempt_timeout_s = 1.0, timeout_covers = "connect" },
  { name = "edge", retries = 3, budget = "token_bucket:tokens_max=2", budget_scope = "request" },
  { name = "router", kind = "pooldrill" },
]
expect = {}
"""  # noqa: E501 - one line a part reads best


def test_what_is_seen_of_a_scenario() -> None:
    stack = of_scenario(parse(LAYERED, Path("layered.toml")))
    sdk, mesh, edge, router = stack.stages
    assert (stack.resends_max, stack.slo_s, stack.rate_rps) == (2, 30.0, 5.0)
    assert (sdk.budget, sdk.budgets, sdk.counts_chain, sdk.repeats) == ("window", 4, True, True)
    assert sdk.patience.sleeps_s == (0.5, 1.0)
    assert (mesh.repeats, mesh.bounds_silence, mesh.attempts_max) == (False, False, 10)
    assert (edge.budget, edge.attempts_max) == ("none", 3), "a call's own bucket is a number of retries"
    assert (router.attempts_max, router.repeats, router.patience.deadline_s) == (2, False, 20.0)
    models, simple = stack.stations
    assert models.capacity_rps == pytest.approx(16 / (2 * (0.03 + 1141 * 0.0002 + 200 * 0.0125)))
    assert (models.queue_max, models.finishes_orphans, models.newest_first) == (40, True, False)
    assert (simple.capacity_rps, simple.finishes_orphans, simple.newest_first) == (8.0, False, True)


def test_a_layer_that_stays_with_the_primary_leaves_the_others_idle() -> None:
    """Both pools serve 12 a second; of article_before one alone, of article_after both in turn."""
    before, after = (of_scenario(load(CATALOG / f"article_{which}.toml")) for which in ("before", "after"))
    assert [(station.id, station.used) for station in before.stations] == [("east", True), ("west", False)]
    figures = figures_of(before)
    assert figures.utilisation == pytest.approx(4 / 12)
    assert figures.utilisation_one_lost is None, "there is nobody to take the load over"
    assert found(before)["one_pool_lost"].what == "all is sent there and sent again there, nothing to west"
    assert figures_of(after).utilisation == pytest.approx(4 / 24)
    assert "one_pool_lost" not in found(after)


def test_each_model_has_its_primary() -> None:
    scenario = load(CATALOG / "article_before.toml")
    east, west = scenario.pools
    other = msgspec.structs.replace(west, id="south", model="other")
    stack = of_scenario(msgspec.structs.replace(scenario, pools=(east, west, other)))
    assert [station.id for station in stack.used] == ["east", "south"]


def test_the_usual_rate_is_not_that_of_a_spike() -> None:
    scenario = parse(LAYERED, Path("layered.toml"))
    assert usual_rate_rps(scenario.load) == 5.0
    assert usual_rate_rps(scenario.load[1:]) == 50.0


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["check", "--preset", "drill-article-before"]) == 1
    assert "4 x 3" in capsys.readouterr().out
    assert pooldrill.main(["check", "--preset", "drill-article-after"]) == 0
    assert pooldrill.main(["check", str(CATALOG / "refused.toml")]) == 0
    assert pooldrill.main(["check", "refused", "--rate", "3"]) == 0
    capsys.readouterr()
    assert pooldrill.main(["check", "--list-presets"]) == 0
    listed = capsys.readouterr().out
    assert max(map(len, listed.splitlines())) <= WIDTH_MAX
    assert set(preset_names()) <= set(listed.split())


def test_json_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["check", "--preset", SDK, "--preset", "litellm", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["figures"]["sends_max"] == 54
    assert told["findings"][0]["check"] == "layers_multiply"
    assert pooldrill.main(["check", "--preset", "litellm", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["figures"]["wait_hang_s"] is None, "JSON knows no infinity"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "give a scenario or a preset, and not both; remedy: "),
        (["refused", "--preset", "sre"], "give a scenario or a preset, and not both; remedy: "),
        (["--preset", "sglan"], "no preset is called 'sglan'; remedy: did you mean sglang?"),
        (["--preset", "zzzz"], "no preset is called 'zzzz'; remedy: see pooldrill check --list-presets"),
        (["--preset", "sre", "--rate", "0"], "--rate: '0' is not a positive number; remedy: "),
        (["--preset", "sre", "--rate", "inf"], "--rate: 'inf' is not a positive number; remedy: "),
        (["--preset", "sre", "--pools", "17"], "--pools: '17' is not a whole number from 1 to 16; remedy: "),
        (["--preset", "sre", "--clients", "0"], "--clients: '0' is not a whole number from 1 to 100000; remedy: "),
        (["refused", "--clients", "2"], "--clients is for presets; remedy: "),
        (["refused", "--pools", "2"], "--pools is for presets; remedy: "),
        (["refusd"], "refusd: no scenario of this name; remedy: did you mean refused?"),
    ],
)
def test_bad_usage_is_one_line_and_2(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["check", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"pooldrill check: {says}")
    assert captured.err.count("\n") == 1
