"""Where a record comes from: the versions of what took part, and the commit of the project."""

import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from chaos.provision import SERVER_VERSION

GIT_WAIT_S = 5.0
PACKAGES = ("aiohttp", "openai", "pooldrill")


def versions() -> dict[str, str]:
    """Return the versions of Python, Toxiproxy, the clients' libraries and Pooldrill itself."""
    return {"python": platform.python_version(), "toxiproxy": SERVER_VERSION, **{p: _version(p) for p in PACKAGES}}


def commit(root: Path) -> str:
    """Return the commit checked out at `root`, with -dirty if files differ from it; empty where git cannot tell."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    try:
        head = _output(git, root, "rev-parse", "--short=12", "HEAD")
        changed = _output(git, root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{head}-dirty" if changed else head


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"  # Pooldrill itself, run from a bare checkout


def _output(git: str, root: Path, *arguments: str) -> str:
    # --no-optional-locks: only look, never write the index while somebody else works there
    argv = [git, "-C", str(root), "--no-optional-locks", *arguments]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=GIT_WAIT_S, check=True)
    return ended.stdout.strip()
