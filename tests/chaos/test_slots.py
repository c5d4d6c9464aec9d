"""As many casts as cores, across processes, and no slot is lost with its holder."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.slots import SlotError, slot

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys
from pathlib import Path
from chaos.slots import slot

with slot(directory=Path(sys.argv[1]), count=1):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_slots_differ_until_there_are_no_more(tmp_path: Path) -> None:
    with slot(directory=tmp_path, count=2) as first, slot(directory=tmp_path, count=2) as second:
        assert {first, second} == {0, 1}
        said = r"2 other drills are still running after 0\.2 s; remedy: "
        with pytest.raises(SlotError, match=said) as caught, slot(directory=tmp_path, count=2, wait_s=0.2):
            pass
        assert caught.value.exit_code == 3
    with slot(directory=tmp_path, count=2, wait_s=0) as again:
        assert again == 0


def test_an_error_inside_gives_the_slot_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), slot(directory=tmp_path, count=1):
        raise ZeroDivisionError
    with slot(directory=tmp_path, count=1, wait_s=0):
        pass


def test_a_killed_process_gives_its_slot_back(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SlotError), slot(directory=tmp_path, count=1, wait_s=0):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(5)
    with slot(directory=tmp_path, count=1, wait_s=0):
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = r"file: .*; remedy: make it writable, or set TMPDIR"
    with pytest.raises(SlotError, match=said), slot(directory=tmp_path / "file", count=1):
        pass
