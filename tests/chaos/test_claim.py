"""A place of results belongs to one run at a time, and is not lost with its owner."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.claim import ClaimError, claim

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import sys
from pathlib import Path
from chaos.claim import claim

with claim(Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.read()
"""


def test_a_second_owner_is_refused_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "new" / "a.real"
    with claim(place):
        with pytest.raises(ClaimError) as caught, claim(place):
            pass
        assert (
            str(caught.value) == f"{place}: another drill, pid {os.getpid()}, is writing there; remedy: --out ELSEWHERE"
        )
        assert caught.value.exit_code == 3
        with claim(tmp_path / "new" / "b.real"):
            pass
    with claim(place):
        pass


def test_an_owner_that_has_not_said_who_it_is_still_owns(tmp_path: Path) -> None:
    with claim(tmp_path / "a.real"):
        (tmp_path / "a.real.lock").write_text("")
        with pytest.raises(ClaimError, match="another drill is writing there"), claim(tmp_path / "a.real"):
            pass


def test_a_killed_owner_loses_it(tmp_path: Path) -> None:
    place = tmp_path / "a.real"
    argv = [sys.executable, "-c", OWNER, str(place)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "owned\n"
        with pytest.raises(ClaimError, match=f"pid {owner.pid},"), claim(place):
            pass
        owner.send_signal(signal.SIGKILL)
        owner.wait(5)
    with claim(place):
        assert (tmp_path / "a.real.lock").read_text() == str(os.getpid())


def test_a_place_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), claim(tmp_path / "file" / "a.real"):
        pass
