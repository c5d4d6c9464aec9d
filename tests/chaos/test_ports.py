"""Ports are free, fixed, below the ephemeral range, and never handed to two runs at once."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.ports import LOOPBACK, PORT_MAX, PORT_MIN, PortError, PortReservations, is_free

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys
from pathlib import Path
from chaos.ports import PortReservations

ports = PortReservations(directory=Path(sys.argv[1]))
print(*(ports.take() for _ in range(20)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with PortReservations() as ports, socket.socket() as server:
        bind_to_next(ports, server, LOOPBACK)
        server.listen(1)
        yield server


def bind_to_next(ports: PortReservations, server: socket.socket, host: str) -> int:
    """Bind without SO_REUSEADDR, so not to a port on which a drill of the last minute left connections in TIME_WAIT."""
    while True:  # ends at the latest with the PortError of a range that is used up
        port = ports.take()
        try:
            server.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return port


def hold(directory: Path) -> tuple["subprocess.Popen[str]", set[int]]:
    """Start another process that holds twenty ports until its stdin closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, {int(port) for port in process.stdout.readline().split()}


def take_all(ports: PortReservations) -> set[int]:
    taken: set[int] = set()
    with contextlib.suppress(PortError):
        while True:
            taken.add(ports.take())
    return taken


def end(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


def test_ports_are_distinct_free_and_below_the_ephemeral_range() -> None:
    with PortReservations() as ports:
        taken = [ports.take() for _ in range(30)]
        assert len(set(taken)) == 30
        assert all(PORT_MIN <= port <= PORT_MAX for port in taken)
        assert all(is_free(port) for port in taken)


def test_two_reservations_in_one_process_do_not_overlap(tmp_path: Path) -> None:
    with PortReservations(directory=tmp_path) as one, PortReservations(directory=tmp_path) as other:
        assert {one.take() for _ in range(10)}.isdisjoint(other.take() for _ in range(10))


def test_processes_side_by_side_get_different_ports(tmp_path: Path) -> None:
    one, ports_of_one = hold(tmp_path)
    other, ports_of_other = hold(tmp_path)
    try:
        assert len(ports_of_one) == len(ports_of_other) == 20
        assert ports_of_one.isdisjoint(ports_of_other)
    finally:
        end(one)
        end(other)


def test_a_killed_process_gives_its_ports_back(tmp_path: Path) -> None:
    process, held = hold(tmp_path)
    with PortReservations(directory=tmp_path, port_min=min(held), port_max=max(held)) as ports:
        assert take_all(ports).isdisjoint(held)
        process.send_signal(signal.SIGKILL)
        end(process)
        assert ports.take() in held


def test_a_port_somebody_listens_on_is_passed_over(listener: socket.socket, tmp_path: Path) -> None:
    used = listener.getsockname()[1]
    assert not is_free(used)
    with PortReservations(directory=tmp_path, port_min=used, port_max=used) as ports:
        with pytest.raises(PortError, match=f"no free port on 127.0.0.1 between {used} and {used}; remedy: ") as caught:
            ports.take()
        assert caught.value.exit_code == 3
        listener.close()
        assert ports.take() == used


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a more specific address may be bound beside it")
def test_a_port_bound_on_every_address_is_passed_over() -> None:
    with PortReservations() as ports, socket.socket() as server:
        port = bind_to_next(ports, server, "")  # bound without listening, which already takes the port
        assert not is_free(port)


def test_release_gives_everything_back(tmp_path: Path) -> None:
    ports = PortReservations(directory=tmp_path)
    first = [ports.take() for _ in range(5)]
    ports.release()
    assert [ports.take() for _ in range(5)] == first
    ports.release()


def test_a_range_outside_the_bounds_is_refused() -> None:
    with pytest.raises(PortError, match="must lie within 10241-32767"):
        PortReservations(port_min=40_000, port_max=40_010)


def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"pooldrill-ports-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(PortError, match="not a directory of yours; remedy: "):
        PortReservations()


def test_a_missing_directory_is_named_with_its_remedy(tmp_path: Path) -> None:
    with (
        PortReservations(directory=tmp_path / "gone") as ports,
        pytest.raises(PortError, match=r"No such file or directory; remedy: make .* writable"),
    ):
        ports.take()
