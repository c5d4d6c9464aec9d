"""What the README promises is there: its scenario runs, its verbs and files exist."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pooldrill import VERBS, main
from scenarios.agreement import agreement_for
from scenarios.checks import checks_for, judge
from scenarios.load import load
from scenarios.plan import plan
from simulator.run import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The scenario that the README shows, as a file."""
    block = re.search(r'^    name = "(\w+)".*?(?=^\S)', README, re.MULTILINE | re.DOTALL)
    assert block is not None
    file = tmp_path / f"{block[1]}.toml"
    file.write_text(textwrap.dedent(block[0]).split("\n.venv/")[0], encoding="utf-8")
    return file


def test_the_scenario_of_the_readme_passes_in_the_model(scenario: Path, tmp_path: Path) -> None:
    verdicts = judge(run(load(scenario), tmp_path))
    assert {name: verdict.detail for name, verdict in verdicts.items() if not verdict.passed} == {}


def test_no_arrival_of_the_readme_is_at_a_fault_edge(scenario: Path) -> None:
    """There, whether a request meets the fault would be chance."""
    shown = load(scenario)
    edges = [at_s for fault in shown.faults for at_s in (fault.inject_s, fault.clear_s)]
    assert min(abs(operation.t_s - at_s) for operation in plan(shown) for at_s in edges) > 0.04


def test_the_scenario_of_the_readme_from_end_to_end(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pooldrill", "compare", str(scenario), "--out", str(out)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    checks = 2 * len(checks_for(load(scenario))) + len(agreement_for(load(scenario)))
    assert f"PASS: all {checks} checks passed" in ran.stdout
    names = {path.name for path in out.iterdir()}
    assert {f"{scenario.stem}.{end}" for end in ("real.jsonl", "simulated.jsonl", "html")} <= names


def test_the_demo_of_the_readme_shows_the_checks_that_there_are() -> None:
    demo = load("refused")
    shown = re.findall(r"^    (\w+) +pass  ", README, re.MULTILINE)
    assert shown == [*checks_for(demo), *agreement_for(demo)]
    count = 2 * len(checks_for(demo)) + len(agreement_for(demo))
    assert set(re.findall(r"all (\d+)\s+checks", README, re.IGNORECASE)) == {str(count)}


def test_the_list_of_the_readme_is_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert textwrap.indent(capsys.readouterr().out, " " * 4) in README


def test_the_paths_of_the_readme_are_served() -> None:
    sentence = re.search(r"^It serves (.*?), and\s", README, re.MULTILINE | re.DOTALL)
    assert sentence
    shown = set(re.findall(r"`(/\S+)`", sentence[1]))
    source = (ROOT / "router" / "app.py").read_text(encoding="utf-8")  # the router is a process: nobody imports it
    assert shown == {path for path in re.findall(r'"(/[a-z][\w/]+)"', source) if path != "/metrics"}


def test_the_verbs_of_the_readme_are_the_verbs_there_are() -> None:
    assert set(re.findall(r"^\| `(\w+)", README, re.MULTILINE)) == set(VERBS)


def test_the_files_of_the_readme_are_there() -> None:
    links = re.findall(r"\]\(([^):]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
