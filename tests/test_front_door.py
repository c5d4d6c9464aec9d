"""The front door: verbs, exit codes, errors in one line, and a comparison from end to end."""

import importlib
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import pooldrill
import simulator.run
from scenarios.record import Record, read
from scenarios.spec import Scenario
from tests.scenarios.doctored import as_mode

ROOT = Path(pooldrill.__file__).parent
WIDTH_MAX = 80


class PortTaken(RuntimeError):
    exit_code = 3


def real(scenario: Scenario, out: Path) -> Record:
    return as_mode(simulator.run.run(scenario, out), "real")


def give(monkeypatch: pytest.MonkeyPatch, verb: str, error: BaseException) -> None:
    def fail(argv: list[str]) -> int:
        raise error

    monkeypatch.setattr(pooldrill, "fail", fail, raising=False)
    monkeypatch.setitem(pooldrill.VERBS, verb, pooldrill.Verb("pooldrill", "fail", "fails"))


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"]])
def test_help_fits_the_screen(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(argv) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= WIDTH_MAX
    for verb in ("serve", "drill", "simulate", "compare", "report", "list", "doctor"):
        assert f"\n  {verb} " in out


@pytest.mark.parametrize("verb", pooldrill.VERBS)
def test_every_verb_is_there_and_has_help_that_fits(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    module, name, text = pooldrill.VERBS[verb]
    function = getattr(importlib.import_module(module), name)
    assert list(inspect.signature(function).parameters) == ["argv"]
    assert text
    with pytest.raises(SystemExit) as ended:
        pooldrill.main([verb, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: ")
    assert max(map(len, out.splitlines())) <= WIDTH_MAX


def test_what_is_installed_is_the_checkout(tmp_path: Path) -> None:
    """Not a copy of it, which would be what it was at the installation."""
    command = [sys.executable, "-c", "import pooldrill, scenarios; print(pooldrill.__file__, scenarios.__file__)"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == [str(ROOT / "pooldrill.py"), str(ROOT / "scenarios" / "__init__.py")]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["--version"]) == 0
    assert capsys.readouterr().out == f"pooldrill {pooldrill.version()}\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["comapre"], "pooldrill: no verb 'comapre'; remedy: did you mean compare?\n"),
        (["zzz"], "pooldrill: no verb 'zzz'; remedy: see pooldrill --help\n"),
        ([], "pooldrill: no verb given; remedy: see pooldrill --help\n"),
        (["compare", "refusd"], "pooldrill compare: refusd: no scenario of this name; remedy: did you mean refused?\n"),
        (["drill", "zzz"], "pooldrill drill: zzz: no scenario of this name; remedy: see pooldrill list, or name a "),
        (["simulate", "refusd"], "pooldrill simulate: refusd: no scenario of this name; remedy: did you mean refused?"),
        (["report"], "pooldrill report: the following arguments are required: RECORD; remedy: "),
        (["doctor", "all"], "pooldrill doctor: unrecognized arguments: all; remedy: "),
        (["compare", "refused", "--seed", "-1"], "pooldrill compare: --seed: '-1' is not a whole number from 0 to "),
        (["compare", "refused", "--router-command", ""], "pooldrill compare: --router-command: is empty; give a "),
        (["compare", "none.toml"], "pooldrill compare: none.toml: no such file or directory; remedy: "),
        (["compare"], "pooldrill compare: the following arguments are required: SCENARIO|FILE.toml; remedy: "),
        (["list", "all"], "pooldrill list: unrecognized arguments: all; remedy: "),
    ],
)
def test_bad_usage_is_one_line_and_2(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(says)
    assert captured.err.count("\n") == 1


def test_an_error_that_a_user_can_mend_is_one_line_with_its_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "doctor", PortTaken("port 8474 is taken"))
    assert pooldrill.main(["doctor"]) == 3
    assert capsys.readouterr().err == "pooldrill doctor: port 8474 is taken\n"


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, "doctor", KeyError("some defect"))
    with pytest.raises(KeyError):
        pooldrill.main(["doctor"])


def test_an_interrupt_is_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, "doctor", KeyboardInterrupt())
    assert pooldrill.main(["doctor"]) == 130
    assert capsys.readouterr().err == "pooldrill doctor: interrupted\n"


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["list"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= WIDTH_MAX
    for path in sorted((ROOT / "scenarios" / "catalog").glob("*.toml")):
        assert f"\n{path.stem} " in out


def test_schema_is_the_one_in_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    assert pooldrill.main(["schema"]) == 0
    assert capsys.readouterr().out == (ROOT / "scenarios" / "catalog" / "scenario.schema.json").read_text()


def test_a_verb_imports_only_what_it_needs() -> None:
    code = "import sys, pooldrill; pooldrill.main(['list']); print(sorted(sys.modules))"
    heavy = {"simpy", "aiohttp", "pandas", "matplotlib", "openai", "pytest"}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert not [name for name in heavy if f"'{name}'" in ran.stdout]


def test_a_comparison_writes_both_records_and_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooldrill, "RUNNERS", {"real": real, "simulated": pooldrill.simulated})
    assert pooldrill.main(["compare", "refused", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\nPASS: all " in out
    assert f"\nreport: {tmp_path}/refused.html" in out
    assert (tmp_path / "refused.html").is_file()
    narrow = [line for line in out.splitlines() if not line.startswith("report: ")]
    assert max(map(len, narrow)) <= WIDTH_MAX


def test_a_comparison_takes_another_seed_and_another_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[object] = []

    def drilled(scenario: Scenario, out: Path, *, router_command: object = None) -> Record:
        commands.append(router_command)
        return real(scenario, out)

    monkeypatch.setattr("chaos.drill.run", drilled)
    argv = ["compare", "refused", "--out", str(tmp_path), "--seed", "77", "--router-command", "python 'my router.py'"]
    assert pooldrill.main(argv) == 0
    assert commands == [["python", "my router.py"]]
    assert read(tmp_path / "refused.simulated.jsonl").meta.seed == 77


def test_a_comparison_that_needed_a_second_try_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy_at_first(scenario: Scenario, out: Path) -> Record:
        made = real(scenario, out)
        return Record(msgspec.structs.replace(made.meta, tries=2), made.rows)

    monkeypatch.setattr(pooldrill, "RUNNERS", {"real": busy_at_first, "simulated": pooldrill.simulated})
    assert pooldrill.main(["compare", "refused", "--out", str(tmp_path)]) == 0
    assert "\nsecond try: the machine was busy\n" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["list", "schema", "--help"])
def test_nobody_reads_is_no_reason_to_complain(verb: str) -> None:
    """As with `| head -1`: the reader is gone before the first word."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pooldrill", verb]
    with os.fdopen(writer, "wb") as nobody:
        ran = subprocess.run(command, cwd=ROOT, stdout=nobody, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (pooldrill.NOBODY_READS, b"")


def test_a_check_that_fails_is_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(scenario: Scenario, out: Path) -> Record:
        return Record(real(scenario, out).meta, [])

    monkeypatch.setattr(pooldrill, "RUNNERS", {"real": silent, "simulated": pooldrill.simulated})
    assert pooldrill.main(["compare", "refused", "--out", str(tmp_path)]) == 1


def test_out_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert pooldrill.main(["compare", "refused", "--out", str(tmp_path / "file")]) == 3
    assert capsys.readouterr().err.startswith(f"pooldrill compare: {tmp_path}/file: ")


def test_ctrl_c_leaves_nobody_behind(tmp_path: Path) -> None:
    """Interrupted in the middle of the real run: 130, one line, and every process of the cast is gone."""
    # Whoever started the tests in the background ignores the signal; a terminal does not.
    heed = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    run = 'runpy.run_module("pooldrill", run_name="__main__", alter_sys=True)'
    command = [sys.executable, "-c", f"{heed}; {run}", "compare", "refused", "--out", str(tmp_path)]
    env = {**os.environ, "POOLDRILL_TEST_MARK": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as ran:
        try:
            _wait_until(lambda: ran.poll() is not None or any(map(_is_router, _marked(tmp_path))), "the router runs")
            ran.send_signal(signal.SIGINT)
            _, err = ran.communicate(timeout=30)
        finally:
            ran.kill()
    assert (ran.returncode, err) == (130, "pooldrill compare: interrupted\n")
    _wait_until(lambda: not _marked(tmp_path), "all processes are gone")


def _wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline_s, f"not within a minute: {what}"
        time.sleep(0.05)


def _marked(mark: Path) -> list[int]:
    """Return the ids of all processes that were started below the one that has the mark."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            environ = (process / "environ").read_bytes() if process.name.isdigit() else b""
        except OSError:  # it has ended, or is another user's
            continue
        if f"POOLDRILL_TEST_MARK={mark}\0".encode() in environ:
            found.append(int(process.name))
    return found


def _is_router(pid: int) -> bool:
    try:
        return "--send-log" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
