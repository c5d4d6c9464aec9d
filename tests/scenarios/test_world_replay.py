"""Traces: what is read, and what is refused with its line and what to do."""

from pathlib import Path

import pytest

from scenarios.load import LoadError, load
from scenarios.plan import plan
from scenarios.record import Meta, Record, read, write
from scenarios.world.arrivals import Ask
from scenarios.world.replay import Arrival, ReplayError, parse, stretched

TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
# the first seconds of a trace
0.0,374,44

1.5, 396, 109
1.5,879,55
"""

SCENARIO = """name = "replayed"
title = "A trace"
seed = 1
duration_s = 12.0
pools = [{ id = "east", service = { kind = "by_tokens" } }]
expect = { answers = { "200" = 3 } }
[[load]]
rate_rps = 0.5
start_s = 1.0
end_s = 10.0
arrivals = "replay"
"""


def test_a_trace_is_read() -> None:
    assert parse(TRACE) == [Arrival(0.0, 374, 44), Arrival(1.5, 396, 109), Arrival(1.5, 879, 55)]
    assert parse("0.25\n3\n") == [Arrival(0.25), Arrival(3.0)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no operation in it; remedy: write seconds, or seconds,prompt_tokens,output_tokens"),
        ("# only words\n", "no operation in it"),
        ("0.0\nsoon\n", "line 2: 'soon' is not numbers"),
        ("seconds\nseconds\n", "line 2: 'seconds' is not numbers"),
        ("0.0,1\n", "line 1: 2 values"),
        ("0.0,1,2,3\n", "line 1: 4 values"),
        ("0.0,1.5,2\n", "line 1: '0.0,1.5,2' is not numbers"),
        ("-1\n", "line 1: -1 s is no time after the start"),
        ("nan\n", "line 1: nan s is no time after the start"),
        ("#\ninf\n", "line 2: inf s is no time after the start"),
        ("0,0,1\n", "line 1: a prompt or answer of less than one token"),
        ("2\n\n1\n", "line 3: 1 s is before 2 s on the line above; remedy: sort by time"),
        ("1\n2,1,1\n", "line 2: some lines tell tokens and others do not"),
    ],
)
def test_a_bad_line_is_told_with_its_number(text: str, told: str) -> None:
    with pytest.raises(ReplayError) as refusal:
        parse(text)
    assert str(refusal.value).startswith(told)


def test_a_trace_is_stretched_to_its_rate_and_cut_at_the_end() -> None:
    arrivals = [Arrival(t_s) for t_s in (0.0, 1.0, 3.0, 8.0)]
    moved = stretched(arrivals, rate_rps=0.75, start_s=10.0, end_s=14.0)
    assert [arrival.t_s for arrival in moved] == [10.0, 10.5, 11.5]  # three gaps in 4 s
    assert stretched([Arrival(2.0)], rate_rps=9.0, start_s=1.0, end_s=9.0) == [Arrival(3.0)]


def scenario(folder: Path, trace: str | None, *, file: str = "trace.csv", more: str = "") -> Path:
    if trace is not None:
        (folder / "trace.csv").write_text(trace)
    path = folder / "replayed.toml"
    path.write_text(SCENARIO + (f'file = "{file}"\n' if file else "") + more)
    return path


def test_a_scenario_replays_the_file_beside_it_and_its_record_can_be_planned_again(tmp_path: Path) -> None:
    replayed = load(scenario(tmp_path, TRACE))
    planned = plan(replayed)
    assert [(operation.t_s, operation.ask) for operation in planned] == [
        (1.0, Ask(None, 374, 44)),
        (5.0, Ask(None, 396, 109)),
        (5.0, Ask(None, 879, 55)),
    ]
    meta = Meta(scenario=replayed, seed=1, mode="simulated", router="reference", started="", versions={})
    write(Record(meta, []), tmp_path / "record.jsonl")
    (tmp_path / "trace.csv").unlink()
    assert plan(read(tmp_path / "record.jsonl").scenario) == planned


@pytest.mark.parametrize(
    ("trace", "more", "file", "told"),
    [
        (None, "", "trace.csv", "trace.csv: no such file or directory; remedy: name a trace that can be read"),
        (None, "", "", "replayed.toml: load[0].file: is missing; remedy: name the CSV beside the scenario"),
        ("0\nx\n", "", "trace.csv", "trace.csv:2: 'x' is not numbers; remedy: write seconds"),
        ("", "", "trace.csv", "trace.csv: no operation in it; remedy: write seconds"),
        ("99\n", "", "trace.csv", "replayed.toml: load[0].rate_rps: no operation arrives between 1 and 10 s"),
        (
            "0\n",
            "replayed = [[0.0, 1, 1]]\n",
            "trace.csv",
            'replayed.toml: load[0].replayed: is read from a file; remedy: arrivals = "replay", and file',
        ),
    ],
)
def test_a_bad_replay_is_one_line(tmp_path: Path, trace: str | None, more: str, file: str, told: str) -> None:
    with pytest.raises(LoadError) as refusal:
        load(scenario(tmp_path, trace, file=file, more=more))
    assert str(refusal.value).startswith(f"{tmp_path}/{told}")
