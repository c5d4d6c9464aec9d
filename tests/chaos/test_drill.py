"""Whole runs with everything real: what stands in the record, and what happens when a part misbehaves."""

import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from chaos import drill, performance
from chaos.claim import ClaimError, claim
from chaos.processes import ProcessError
from scenarios import fitness
from scenarios.checks import judge
from scenarios.load import parse
from scenarios.record import Record, read
from scenarios.spec import Scenario

ROOT = Path(__file__).resolve().parents[2]
SHORT = """
name = "short"
title = "Two pools and five requests"
seed = 1
exact = true
duration_s = 0.8
pools = [{ id = "a" }, { id = "b", frontends = 2 }]
load = [{ rate_rps = 10, start_s = 0.0, end_s = 0.5 }]
expect = { answers = { "200" = 5 } }
"""
LONG = """
name = "long"
title = "Two pools and a second and a half of requests"
seed = 1
exact = true
duration_s = 2
pools = [{ id = "a" }, { id = "b" }]
load = [{ rate_rps = 5, start_s = 0.0, end_s = 1.5 }]
expect = { answers = { "200" = 8 } }
"""
HOLE = """
name = "hole"
title = "A black hole, and a request that is far away"
seed = 1
duration_s = 120
router = { connect_timeout_s = 0.5 }
pools = [{ id = "east" }, { id = "west" }]
load = [{ rate_rps = 10, start_s = 1.3, end_s = 1.9 }, { rate_rps = 10, start_s = 110, end_s = 110.1 }]
faults = [{ kind = "black_hole", pool = "west", inject_s = 1.0, clear_s = 100 }]
expect = { answers = { "200" = 7 } }
"""
LIMPING = "import sys; from router.cli import serve; serve(sys.argv[1:]); sys.exit(7)"
DYING = """
import os, sys
from router.core import policy
from router.cli import serve

policy.Policy.observe = lambda *_: os._exit(9)
sys.exit(serve(sys.argv[1:]))
"""
LEAKING = """
import sys
from router.core.in_flight import Lease
from router.cli import serve

Lease.release = lambda self: None
sys.exit(serve(sys.argv[1:]))
"""
STILLBORN = "import sys; sys.exit('no luck')"
HARNESS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests in the background ignores it
from pathlib import Path
from chaos.drill import run
from scenarios.load import parse

run(parse(Path(sys.argv[1]).read_text(), Path(sys.argv[1])), Path(sys.argv[2]))
"""


def short(**changes: object) -> Scenario:
    return msgspec.structs.replace(parse(SHORT, Path("short.toml")), **changes)


def python(code: str) -> list[str]:
    return [sys.executable, "-P", "-c", code]


def processes_with(text: str) -> list[str]:
    """Command lines of running processes that contain a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if text in words and int(path.parent.name) != os.getpid():
            found.append(words)
    return found


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return drill.run(short(), tmp_path_factory.mktemp("out"))


class TestGoodRun:
    def test_every_check_passes(self, record: Record) -> None:
        assert {name: verdict.detail for name, verdict in judge(record).items() if not verdict.passed} == {}

    def test_requests_alternate_from_the_first_pool_on(self, record: Record) -> None:
        assert [send.frontend for send in record.sends] == ["a-0", "b-0", "a-0", "b-1", "a-0"]

    def test_times_count_from_the_start(self, record: Record) -> None:
        for turn, operation in enumerate(record.operations):
            assert operation.t_intended == pytest.approx(turn * 0.1)
            assert operation.t_intended < operation.t_end < operation.t_intended + 2
        requests = {request.request_id: request for request in record.requests}
        for send in record.sends:
            request = requests[send.request_id]
            assert request.t_start <= send.t_start < send.t_end <= request.t_end + 0.1
        for event in record.pool_events:
            request = requests[event.request_id or ""]
            assert request.t_start <= event.t <= request.t_end + 0.1

    def test_pools_saw_the_measured_requests_alone(self, record: Record) -> None:
        assert {event.request_id for event in record.pool_events} == {f"op-0-{turn}-r0" for turn in range(5)}

    def test_everybodys_loop_was_watched(self, record: Record) -> None:
        watched = {sample.source for sample in record.samples if sample.kind == "loop_lag_s"}
        assert watched == {"harness", "a-0", "b-0", "b-1"}

    def test_meta_tells_where_it_comes_from(self, record: Record) -> None:
        meta = record.meta
        assert (meta.mode, meta.router, meta.seed, meta.invalid) == ("real", "reference", 1, "")
        assert {"python", "aiohttp", "openai", "toxiproxy", "pooldrill"} == set(meta.versions)
        assert meta.versions["toxiproxy"] == "2.12.0"
        assert meta.started[-6] in "+-", "a stamp has its zone"


class TestRunWithTheSdk:
    def test_it_is_the_real_one_and_its_streams_are_whole(self, tmp_path: Path) -> None:
        load = msgspec.structs.replace(short().load[0], client="openai", stream=True)
        scenario = short(load=(load,))
        made = drill.run(scenario, tmp_path)
        assert {name: verdict.detail for name, verdict in judge(made).items() if not verdict.passed} == {}
        assert read(tmp_path / "short.real.jsonl").rows == made.rows
        assert processes_with(str(tmp_path)) == []


class TestBadRouters:
    @pytest.mark.parametrize(
        ("code", "said"),
        [
            (STILLBORN, "router ended with exit code 1 before it was ready; "),
            ("", "router ended with exit code 0 before it was ready; "),
            (LIMPING, "router (ended with exit code 7): must exit with 0 on SIGTERM"),
        ],
    )
    def test_one_that_cannot_start_or_end_is_an_error_with_its_log(self, tmp_path: Path, code: str, said: str) -> None:
        with pytest.raises(ProcessError) as caught:
            drill.run(short(), tmp_path, router_command=python(code))
        assert said in str(caught.value)
        assert "its log" in str(caught.value)
        assert caught.value.exit_code == 3
        assert processes_with(str(tmp_path)) == []
        assert not (tmp_path / "short.real.jsonl").exists()

    def test_one_that_dies_during_the_run_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessError, match=r"^router ended with exit code 9 during the run; its log"):
            drill.run(short(), tmp_path, router_command=python(DYING))
        assert processes_with(str(tmp_path)) == []

    def test_one_that_is_no_program_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ProcessError, match="router: cannot start /no/such/router"):
            drill.run(short(), tmp_path, router_command=["/no/such/router"])

    def test_one_that_never_lets_go_is_told_by_the_record(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(performance, "IDLE_WAIT_S", 0.2)
        made = drill.run(short(), tmp_path, router_command=python(LEAKING))
        verdict = judge(made)["in_flight_zero"]
        assert verdict.state == "fail"
        assert "3 at a" in verdict.detail

    def test_another_router_is_named_in_the_record(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "router"]
        assert drill.run(short(), tmp_path, router_command=command).meta.router.endswith("python -m router")


class TestOnePlaceOneRun:
    def test_a_second_run_is_refused_before_it_touches_the_first_ones_logs(self, tmp_path: Path) -> None:
        logs = tmp_path / "short.real.logs"
        logs.mkdir()
        (logs / "router.log").write_text("the first run's\n")
        with claim(tmp_path / "short.real"), pytest.raises(ClaimError, match="remedy: --out ELSEWHERE"):
            drill.run(short(), tmp_path)
        assert [path.read_text() for path in logs.iterdir()] == ["the first run's\n"]
        assert not (tmp_path / "short.real.jsonl").exists()

    def test_logs_of_an_earlier_run_that_cannot_be_cleared_are_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "short.real.logs").write_text("a file where a directory should be")
        with pytest.raises(NotADirectoryError):
            drill.run(short(), tmp_path)


class TestBusyMachine:
    def test_it_is_tried_again_and_then_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(fitness, "LAG_MAX_S", -1.0)
        monkeypatch.setattr(drill, "BUSY_RETRIES_MAX", 1)
        with pytest.raises(
            drill.BusyError, match=r"short: machine too busy: .*; the same at each of 2 tries"
        ) as caught:
            drill.run(short(), tmp_path)
        assert caught.value.exit_code == 3
        left = read(tmp_path / "short.real.jsonl")
        assert left.meta.invalid.startswith("machine too busy: ")
        assert left.meta.tries == 2
        said = r"short: machine too busy: .* s late at .* s, at most -1 s; try 2 of 2\n"
        assert re.fullmatch(said, capsys.readouterr().err)
        assert {verdict.state for verdict in judge(left).values()} == {"undecided"}


class TestKilledParts:
    @pytest.mark.parametrize(
        ("word", "said"),
        [
            ("--reuse-idle-s", "router ended by SIGKILL during the run; its log "),
            ("--control-port", "frontend a-0 ended by SIGKILL during the run; its log "),
            ("-host", "toxiproxy ended by SIGKILL during the run; its log "),
        ],
    )
    def test_one_that_is_killed_in_mid_run_is_named_at_once(self, tmp_path: Path, word: str, said: str) -> None:
        events = tmp_path / "long.real.logs" / "b-0.events.jsonl"
        minute = {"duration_s = 2": "duration_s = 60", "end_s = 1.5": "end_s = 59", '"200" = 8': '"200" = 295'}
        text = functools.reduce(lambda text, old: text.replace(old, minute[old]), minute, LONG)

        def kill() -> None:
            wait_for(lambda: b"body_complete" in read_or_nothing(events), "the run has begun")
            os.kill(child_with(word), signal.SIGKILL)

        with ThreadPoolExecutor(1) as threads:
            killing = threads.submit(kill)
            begin_s = time.monotonic()
            with pytest.raises(ProcessError) as caught:
                drill.run(parse(text, Path("long.toml")), tmp_path)
            killing.result()
        assert time.monotonic() - begin_s < 45, "not only at the run's end"
        first, *log = str(caught.value).splitlines()
        assert first.startswith(said)
        assert 1 <= len(log) <= 3
        assert max(map(len, log)) <= 204
        assert processes_with(str(tmp_path)) == []


def child_with(word: str) -> int:
    """Return the process id of this process's first child that has a word on its command line."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        if parent == os.getpid() and word.encode() in words:
            return int(path.name)
    raise AssertionError(f"no child has {word} on its command line")


class TestStoppedHarness:
    """A stop of the harness alone, as on a machine that is busy for a second."""

    def run(self, out: Path, *, exact: bool) -> tuple[Record, str]:
        """Stop a harness once for a second in mid-run; returns its record and what it said on stderr."""
        scenario = out / "long.toml"
        out.mkdir()
        scenario.write_text(LONG.replace("exact = true", "exact = true" if exact else "exact = false"))
        argv = [sys.executable, "-c", HARNESS, str(scenario), str(out)]
        with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as harness:
            events = out / "long.real.logs" / "a-0.events.jsonl"
            wait_for(lambda: b"body_complete" in read_or_nothing(events), "the run has begun")
            harness.send_signal(signal.SIGSTOP)
            time.sleep(1)
            harness.send_signal(signal.SIGCONT)
            _, told = harness.communicate(timeout=60)
        assert harness.returncode == 0, told
        return read(out / "long.real.jsonl"), told

    def test_an_exact_run_is_made_again_and_says_so(self, tmp_path: Path) -> None:
        made, told = self.run(tmp_path / "out", exact=True)
        assert (made.meta.invalid, made.meta.tries) == ("", told.count("\n") + 1)
        first, *_ = told.splitlines()
        assert re.fullmatch(r"long: machine too busy: harness was .* late at .*, at most 0.1 s; try 2 of 3", first)

    def test_any_other_run_counts_and_says_so(self, tmp_path: Path) -> None:
        made, told = self.run(tmp_path / "out", exact=False)
        late = drill.latest(made)
        assert late is not None
        assert (late.source, late.value > 0.9, made.meta.tries) == ("harness", True, 1)
        assert re.fullmatch(r"long: harness was .* s late at .* s; counted all the same, .* not exact\n", told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nobody_is_left_when_the_harness_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    out, scenario = tmp_path / "out", tmp_path / "hole.toml"
    scenario.write_text(HOLE)
    log_dir = out / "hole.real.logs"
    argv = [sys.executable, "-c", HARNESS, str(scenario), str(out)]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as harness:
        try:
            wait_for(lambda: b"send_failed" in read_or_nothing(log_dir / "router.log"), "the fault met a request")
            assert len(processes_with(str(log_dir))) == 3
            harness.send_signal(number)
            _, told = harness.communicate(timeout=20)
        finally:
            harness.kill()
    assert harness.returncode == {signal.SIGINT: -2, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], told
    wait_for(lambda: not processes_with(str(log_dir)), "nobody is left")
    assert not (out / "hole.real.jsonl").exists()


def wait_for(holds: Callable[[], bool], what: str, *, wait_s: float = 40.0) -> None:
    deadline_s = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def read_or_nothing(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
