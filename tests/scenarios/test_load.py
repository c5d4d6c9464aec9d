"""What cannot be understood, run or judged is refused in one line that says where, what and what to do."""

import datetime as dt
import json
import math
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios import load as load_module
from scenarios.load import SCENARIO_BYTES_MAX, LoadError, catalog, load, parse
from scenarios.spec import Scenario
from tests.scenarios.doctored import DRILLS, planned

Data = dict[str, Any]
FILE = Path("drill.toml")


def toml(value: Any) -> str:
    """Write a value as TOML, tables inline."""
    match value:
        case bool():
            return str(value).lower()
        case float() if math.isnan(value) or math.isinf(value):
            return repr(value)
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case dt.date():
            return value.isoformat()
        case _:
            return json.dumps(value)


def document(data: Data) -> str:
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in data.items())


def valid(name: str = "refused") -> Data:
    return tomllib.loads((DRILLS / f"{name}.toml").read_text())


def refusal(data: Data) -> str:
    with pytest.raises(LoadError) as caught:
        parse(document(data), FILE)
    text = str(caught.value)
    assert text.startswith("drill.toml: ")
    assert "; remedy: " in text
    assert text.isprintable(), "an error is one line"
    return text


def set_(*path: Any, to: Any) -> Callable[[Data], None]:
    def edit(data: Data) -> None:
        inner: Any = data
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to

    return edit


def drop(*path: Any) -> Callable[[Data], None]:
    def edit(data: Data) -> None:
        inner: Any = data
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return edit


def test_the_catalog_loads() -> None:
    names = [load(path).name for path in catalog()]
    assert {"refused", "black_hole", "body_read_then_dropped", "mid_stream_drop"} <= set(names)
    assert all(load(name).name == name for name in names)


def test_written_as_inline_tables_a_scenario_is_the_same() -> None:
    assert parse(document(valid()), FILE) == planned("refused")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        # keys and types
        (set_("durations_s", to=3), "durations_s: unknown key; remedy: did you mean duration_s?"),
        (set_("load", 1, "rate", to=3), "load[1].rate: unknown key; remedy: did you mean rate_rps?"),
        (
            set_("pools", 0, "service", to={"tokns": 3}),
            "pools[0].service.tokns: unknown key; remedy: did you mean tokens",
        ),
        (set_("router", to={"zzz": 3}), "router.zzz: unknown key; remedy: one of connect_timeout_s, deadline_s"),
        (set_("new\nline", to=1), "new\\nline: unknown key"),
        (drop("seed"), "seed: is missing; remedy: give an integer >= 0"),
        (drop("load", 0, "rate_rps"), "load[0].rate_rps: is missing; remedy: give a number > 0 and <= 1000"),
        (
            drop("expect"),
            "expect: is missing; remedy: say what clients must see, and how often: expect.answers = {",
        ),
        (
            drop("expect", "answers"),
            'expect.answers: is empty; remedy: say what must come out, such as "200" = 10',
        ),
        (set_("load", 0, "rate_rps", to="ten"), "load[0].rate_rps: expected float, got str; remedy: give a number > 0"),
        (set_("load", 0, "stream", to=1), "load[0].stream: expected bool, got int; remedy: give true or false"),
        (set_("load", 0, "client", to="opnai"), "load[0].client: invalid value 'opnai'; remedy: give one of openai"),
        (set_("load", 0, "start_s", to=math.nan), "load[0].start_s: expected float >= 0"),
        (set_("load", 0, "start_s", to=math.inf), "load[0].start_s: expected float <= 3600"),
        (set_("load", 0, "rate_rps", to=0), "load[0].rate_rps: expected float > 0"),
        (set_("seed", to=2**63), "seed: expected int <= 9223372036854775807"),
        (set_("pools", to=[]), "pools: expected array of length >= 1; remedy: give a list of tables, 1 to 16 of them"),
        (set_("pools", 0, "id", to="East"), "pools[0].id: expected str matching regex"),
        (set_("pools", 0, "id", to="east\n"), "pools[0].id: is 'east\\n', which is more than one line"),
        (set_("pools", 0, "model", to="a;b"), "pools[0].model: expected str matching regex"),
        (set_("title", to="two\nlines"), "title: is 'two\\nlines', which is more than one line"),
        (set_("expect", "answers", "200", to=[1]), "expect.answers.200: expected array of length 2, got 1"),
        (
            set_("expect", "answers", "200", to="all"),
            "expect.answers.200: expected int | array, got str; remedy: give an integer or",
        ),
        (set_("pools", to={"id": "east"}), "pools: expected array, got table"),
        # pools and load
        (set_("pools", 1, "id", to="east"), "pools[0].id: 'east' is used 2 times"),
        (set_("load", 0, "end_s", to=0.1), "load[0].end_s: 0.1 is not after start_s 0.2"),
        (set_("load", 2, "end_s", to=99), "load[2].end_s: 99 is after the run's end at 3.6"),
        (set_("load", 0, "rate_rps", to=0.5), "load[0].rate_rps: no operation arrives between 0.2 and 0.6 s"),
        (set_("load", 0, "model", to="other"), "load[0].model: no pool serves 'other'; remedy: one of drill-model"),
        (
            set_("duration_s", to=2.95),
            "duration_s: 2.95 ends the run before its last operation, which takes until 2.99",
        ),
        # faults
        (set_("faults", 0, "pool", to="eats"), "faults[0].pool: no pool is called 'eats'; remedy: did you mean east?"),
        (set_("faults", 0, "kind", to="gone"), "faults[0].kind: invalid value 'gone'; remedy: give one of black"),
        (set_("faults", 0, "clear_s", to=0.9), "faults[0].clear_s: 0.9 is not after inject_s 1"),
        (set_("faults", 0, "clear_s", to=4), "faults[0].clear_s: 4 is after the run's end at 3.6"),
        (set_("faults", 0, "after_events", to=3), "faults[0].after_events: means nothing for refused"),
        (set_("faults", 0, "kind", to="cut"), "faults[0].after_events: is missing; remedy: after how many events to"),
        (set_("faults", 0, "inject_s", to=1.95), "faults[0]: no operation for east arrives while the fault is on"),
        (
            lambda data: data["faults"].append({"kind": "read_drop", "pool": "east", "inject_s": 2.0, "clear_s": 2.4}),
            "faults[1]: overlaps faults[0] on east (1 to 2.2)",
        ),
        # expectations
        (set_("expect", "answers", to={}), "expect.answers: is empty"),
        (set_("expect", "answers", to={"200": 13}), "expect.answers: adds up to 13 answers, but the load makes 14"),
        (set_("expect", "answers", to={"200": [3, 1]}), "expect.answers.200: [3, 1] is no count"),
        (set_("expect", "answers", to={"200": -1}), "expect.answers.200: -1 is no count"),
        (set_("expect", "failovers", to=[-1, 2]), "expect.failovers: [-1, 2] is no count"),
        (set_("expect", "answers", "2000", to=1), "expect.answers.2000: no answer looks like this"),
        (
            set_("expect", "answers", "brake", to=1),
            "expect.answers.brake: no answer looks like this; remedy: did you mean",
        ),
        (
            set_("expect", "answers", "500 maybe_running", to=1),
            "expect.answers.500 maybe_running: maybe_running never has status 500; remedy: 503 maybe_running",
        ),
        # exact
        (set_("faults", 0, "inject_s", to=1.2), "faults[0].inject_s: 1.2 is within 0.2 s of the arrival of op-1-0"),
        (set_("faults", 0, "clear_s", to=1.9), "faults[0].clear_s: 1.9 is within 0.2 s of the arrival of op-1-5"),
        (set_("faults", 0, "inject_s", to=0.75), "faults[0].inject_s: 0.75 is not 0.2 s after the last answer of east"),
        (set_("load", 1, "rate_rps", to=50), "expect.answers: adds up"),
        (set_("load", 1, "timeout_s", to=0.3), "load[1].timeout_s: 0.3 could end op-1-0, which takes 0.39 s"),
        (set_("router", to={"deadline_s": 0.3}), "router.deadline_s: 0.3 could end op-0-0, which takes 0.39 s"),
        (set_("router", to={"idle_timeout_s": 0.1}), "router.idle_timeout_s: 0.1 is too near to the gap between"),
    ],
)
def test_refused_in_one_line(edit: Callable[[Data], None], says: str) -> None:
    data = valid()
    edit(data)
    assert refusal(data).startswith(f"drill.toml: {says}")


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        (set_("duration_s", to=2.95), ("duration_s",)),
        (set_("load", 1, "timeout_s", to=0.3), ("load", 1, "timeout_s")),
        (set_("router", to={"deadline_s": 0.3}), ("router", "deadline_s")),
    ],
)
def test_the_remedy_is_enough(edit: Callable[[Data], None], path: tuple[Any, ...]) -> None:
    data = valid()
    data["pools"][0]["service"] = {"first_token_s": 0.0512}  # so that nothing ends at a round number
    edit(data)
    bound = re.search(r"remedy: at least ([\d.]+)", refusal(data))
    assert bound
    set_(*path, to=float(bound[1]))(data)
    parse(document(data), FILE)


def test_another_routers_code_may_be_called_anything() -> None:
    data = valid()
    data["expect"]["answers"] = {"200": 13, "502 bad_gateway": 1}
    parse(document(data), FILE)


def test_arrivals_drawn_at_random_are_not_exact() -> None:
    data = valid()
    data["load"][1]["arrivals"] = "poisson"
    data["expect"]["answers"] = {"200": [1, 99]}
    assert "load[1].arrivals: poisson arrivals cannot be exact" in refusal(data)


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        ({"service": {"kind": "exponential", "mean_s": 0.2}}, "pools[0].service.kind: exponential cannot be exact"),
        ({"slots": 4}, "pools[0].slots: cannot be exact: who waits, and who is rejected, turns on who came first"),
    ],
)
def test_pools_with_a_queue_or_random_service_are_not_exact(knobs: Data, told: str) -> None:
    data = valid()
    data["pools"][0] |= knobs
    assert told in refusal(data)


def test_probes_wait_in_queues_of_the_queue_level_model_alone() -> None:
    data = valid() | {"exact": False}
    data["pools"][0] |= {"slots": 4, "probes_queue": True}
    assert "pools[0].probes_queue: is modelled only with layers" in refusal(data)


@pytest.mark.parametrize("kind", ["capacity_loss", "slow_down"])
def test_a_pool_without_slots_cannot_lose_any_nor_slow_down(kind: str) -> None:
    data = valid() | {"exact": False}
    knob = {"capacity_loss": {"share": 0.5}, "slow_down": {"factor": 2.0}}[kind]
    data["faults"] = [{"kind": kind, "pool": "east", "inject_s": 1.4, "clear_s": 3.0, **knob}]
    data["expect"] = {"answers": {"200": [1, 99]}}
    assert f"faults[0].kind: {kind} means nothing without slots; remedy: give east slots" in refusal(data)
    data["pools"][0]["slots"] = 4
    assert parse(document(data), FILE).faults[0].kind == kind


def test_what_makes_exactness_impossible_is_said_before_what_could_be_mended_elsewhere() -> None:
    """The load runs through both edges of a fault, and its SDK may send again: the load has to change anyway."""
    data = valid()
    data["load"] = [{"rate_rps": 10, "start_s": 0.2, "end_s": 3.0, "client": "openai"}]
    data["faults"].append({"kind": "refused", "pool": "west", "inject_s": 1.55, "clear_s": 2.0})
    data["expect"] = {"answers": {"200": [1, 99]}}
    problems = [problem.key for problem in load_module.problems(parse_loose(data))]
    edges = [f"faults[{index}].{edge}" for index in (0, 1) for edge in ("inject_s", "clear_s")]
    assert problems[:5] == [*edges, "expect.sdk_resends"]
    assert refusal(data).endswith("remedy: end one [[load]] before it and begin another after it, or exact = false")


def parse_loose(data: Data) -> Scenario:
    """Read a scenario that is not exact, and call it exact."""
    return msgspec.structs.replace(parse(document({**data, "exact": False}), FILE), exact=True)


def test_the_example_for_a_missing_expectation_can_be_written_so() -> None:
    data = valid()
    del data["expect"]
    example = re.search(r"often: (.*), above", refusal(data))
    assert example
    assert tomllib.loads(example[1]) == {"expect": {"answers": {"200": 10}}}


def test_arrivals_that_could_change_places_are_not_exact() -> None:
    data = valid()
    data["load"].append({"rate_rps": 10, "start_s": 0.22, "end_s": 0.32})
    data["expect"]["answers"] = {"200": 15}
    assert "op-0-0 and op-3-0 choose a pool within 0.05 s" in refusal(data)
    data["exact"] = False
    parse(document(data), FILE)


def test_second_choices_that_could_change_places_are_not_exact() -> None:
    """One pool hangs while another refuses: what hung and what was refused choose again at the same moment."""
    data = valid("black_hole")
    data["pools"].append({"id": "north"})
    data["faults"].append({"kind": "refused", "pool": "east", "inject_s": 1.0, "clear_s": 2.1})
    assert "op-1-0 and op-1-5 choose a pool within 0.05 s" in refusal(data)


def test_a_connect_pending_at_the_end_of_a_black_hole_is_not_exact() -> None:
    data = valid("black_hole")
    data["faults"][0]["clear_s"] = 2.4
    assert "faults[0].clear_s: 2.4 comes while a connect may be pending, until 2.50" in refusal(data)


def test_a_stream_running_at_the_end_of_a_cut_is_not_exact() -> None:
    data = valid("mid_stream_drop")
    data["faults"][0]["clear_s"] = 2.2
    assert "faults[0].clear_s: 2.2 is not 0.2 s after the last answer of east, at 2.13" in refusal(data)


def test_a_cut_asks_for_streams() -> None:
    data = valid("mid_stream_drop")
    data["load"][1]["stream"] = False
    assert "faults[0]: cuts after events, but a load that meets it is not streamed" in refusal(data)


def test_a_cut_after_the_last_token_cuts_nothing() -> None:
    data = valid("mid_stream_drop")
    data["faults"][0]["after_events"] = 8
    assert "faults[0].after_events: 8 would cut nothing: an answer of east has 8 tokens" in refusal(data)


def test_an_sdk_that_may_send_again_is_not_exact() -> None:
    data = valid("body_read_then_dropped")
    del data["expect"]["sdk_resends"]
    assert "expect.sdk_resends: is not 0, but the SDK draws its waits at random" in refusal(data)


def test_too_many_operations() -> None:
    data = valid() | {"duration_s": 3600, "exact": False}
    data["load"] = [{"rate_rps": 1000, "start_s": 0, "end_s": 3600}]
    assert "load: makes about 3600000 operations, more than 20000" in refusal(data)


def test_the_name_is_the_files(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(document(valid()))
    with pytest.raises(LoadError, match=r"name: is 'refused', but the file is other\.toml; remedy: name = \"other\""):
        load(path)


def test_a_scenario_of_ones_own_is_given_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(document(valid() | {"name": "mine"}))
    assert load(path) == load(str(path))


def test_a_name_that_is_not_in_the_catalog() -> None:
    with pytest.raises(LoadError, match=r"^refusd: no scenario of this name; remedy: did you mean refused\?"):
        load("refusd")
    with pytest.raises(LoadError, match=r"remedy: see pooldrill list, or name a \.toml file"):
        load("zzzzzz")
    with pytest.raises(LoadError, match=r"^'': no scenario of this name"):
        load("")


def test_files_that_are_no_scenarios(tmp_path: Path) -> None:
    def says(path: Path) -> str:
        with pytest.raises(LoadError) as caught:
            load(path)
        assert str(caught.value).isprintable()
        return str(caught.value).removeprefix(f"{path}: ").partition(";")[0]

    assert says(tmp_path / "none.toml") == "no such file or directory"
    assert says(tmp_path) == "is not a file"
    os.mkfifo(tmp_path / "pipe.toml")
    assert says(tmp_path / "pipe.toml") == "is not a file"
    (tmp_path / "large.toml").write_text("#" * (SCENARIO_BYTES_MAX + 1))
    assert says(tmp_path / "large.toml") == "is larger than 64 KiB"
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    assert says(tmp_path / "latin.toml") == "is not UTF-8 at byte 9"
    (tmp_path / "bad.toml").write_text("a = 1\nb = \n")
    assert says(tmp_path / "bad.toml") == "is not TOML: Invalid value (at line 2, column 5)"
    (tmp_path / "deep.toml").write_text("a = " + "[" * 30_000)
    assert says(tmp_path / "deep.toml").startswith("is not TOML: ")
    assert says(Path("a\0b.toml")) == "a\\x00b.toml: embedded null byte"


ANY_VALUE = st.recursive(
    st.none().map(lambda _: dt.date(2024, 2, 29))
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["east", "west", "cut", "black_hole", "poisson", "openai", 0.2, 1, 3600, 1e-9]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """Return a scenario with a few values changed, removed or added anywhere."""
    data = valid(draw(st.sampled_from([path.stem for path in sorted(DRILLS.glob("*.toml"))])))
    for _ in range(draw(st.integers(1, 3))):
        inner: Any = data
        while True:
            key = draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
            if isinstance(inner[key], dict | list) and inner[key] and draw(st.booleans()):
                inner = inner[key]
                continue
            break
        change = draw(st.sampled_from(["set", "drop", "add"]))
        if change == "set":
            inner[key] = draw(ANY_VALUE)
        elif change == "drop":
            del inner[key]
        elif isinstance(inner, dict):
            inner[draw(st.text(max_size=8))] = draw(ANY_VALUE)
        if not data:
            break
    return document(data)


def refused(text: str) -> str:
    """Return why a text is no scenario; empty if it is one. Any other exception goes through."""
    try:
        parse(text, FILE)
    except LoadError as error:
        return str(error)
    return ""


@given(spoilt())
@settings(max_examples=300, deadline=None)
def test_whatever_is_written_there_is_a_scenario_or_one_line(text: str) -> None:
    said = refused(text)
    assert not said or said.startswith("drill.toml: ")
    assert not said or "; remedy: " in said
    assert said.isprintable()


@given(st.sampled_from(catalog()), st.data())
@settings(max_examples=100, deadline=None)
def test_a_torn_file_is_a_scenario_or_one_line(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 40))
    assert refused(text[:at] + data.draw(st.text(max_size=10)) + text[at + length :]).isprintable()
