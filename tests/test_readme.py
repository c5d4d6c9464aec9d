"""What the README promises is there: its scenario loads, its verbs and files exist."""

import re
import textwrap
from pathlib import Path

from pooldrill import VERBS
from scenarios.load import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_scenario_of_the_readme_is_a_scenario(tmp_path: Path) -> None:
    block = re.search(r'^    name = "(\w+)".*?(?=^\S)', README, re.MULTILINE | re.DOTALL)
    assert block is not None
    file = tmp_path / f"{block[1]}.toml"
    file.write_text(textwrap.dedent(block[0]).split("\n.venv/")[0], encoding="utf-8")
    assert load(str(file)).name == block[1]


def test_the_verbs_of_the_readme_are_the_verbs_there_are() -> None:
    assert set(re.findall(r"^\| `(\w+)", README, re.MULTILINE)) == set(VERBS)


def test_the_files_of_the_readme_are_there() -> None:
    links = re.findall(r"\]\(([^):]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
