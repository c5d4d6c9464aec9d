"""A record says what it comes from, and nothing where nobody can tell."""

import subprocess
from pathlib import Path

import pytest

from chaos.provenance import commit, versions


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    return subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    assert commit(checkout) == git(checkout, "rev-parse", "--short=12", "HEAD")
    (checkout / "untracked").write_text("")
    assert not commit(checkout).endswith("-dirty")


def test_a_changed_file_is_told(checkout: Path) -> None:
    (checkout / "file").write_text("two")
    assert commit(checkout).endswith("-dirty")


def test_no_checkout_gives_nothing(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert commit(tmp_path) == ""


def test_no_git_gives_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit(checkout) == ""


def test_versions_are_those_that_run() -> None:
    found = versions()
    assert found["toxiproxy"] == "2.12.0"
    assert all(text and text[0].isdigit() for name, text in found.items() if name != "pooldrill")
