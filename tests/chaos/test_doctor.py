"""The doctor measures for real, and finds what is wrong."""

import sys
from pathlib import Path

import pytest

from chaos import machine
from chaos.doctor import FAULTS, examine, faults
from chaos.ports import PortReservations
from chaos.provision import BINARY_VARIABLE, URL_VARIABLE, Server
from chaos.toxiproxy import Proxy


@pytest.fixture
def server_env(toxiproxy_server: Server) -> dict[str, str]:
    return {URL_VARIABLE if toxiproxy_server.url else BINARY_VARIABLE: str(toxiproxy_server)}


async def test_everything_is_examined_and_every_fault_is_proved(
    server_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server_env.items():
        monkeypatch.setenv(name, value)
    findings = {finding.name: finding for finding in await examine()}
    assert list(findings) == [
        "versions",
        "open_files",
        "ephemeral_ports",
        "free_ports",
        "loop_lag",
        "children",
        "toxiproxy",
        *FAULTS,
    ]
    # a busy machine is a finding, not a defect of the doctor
    assert [finding for finding in findings.values() if not finding.ok and finding.name != "loop_lag"] == []
    assert findings["refused"].detail.startswith("on: connect: ECONNREFUSED after ")
    assert findings["black_hole"].detail.startswith("on: connect: hung after ")
    assert "777 bytes, fin" in findings["cut"].detail
    assert all(finding.remedy and "\n" not in finding.remedy for finding in findings.values())


async def test_a_fault_that_is_not_what_it_says_is_found(
    server_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do_nothing(proxy: Proxy) -> None:
        """Report success, as a server that ignores the call would."""

    monkeypatch.setattr(Proxy, "disable", do_nothing)
    found = {finding.name: finding for finding in await faults(tmp_path, server_env)}
    assert not found["refused"].ok
    assert "on: connect: connected after " in found["refused"].detail
    assert not found["black_hole"].ok
    assert "Address already in use" in found["black_hole"].detail
    assert found["read_drop"].ok
    assert found["cut"].ok


async def test_a_missing_server_fails_every_fault(tmp_path: Path) -> None:
    found = await faults(tmp_path, {BINARY_VARIABLE: str(tmp_path / "nothing")})
    assert [finding.name for finding in found] == ["toxiproxy", *FAULTS]
    assert not any(finding.ok for finding in found)
    assert "no program there" in found[0].detail


@pytest.mark.parametrize(("first", "ok"), [(32_768, True), (1_024, False)])
def test_ephemeral_ports_where_proxies_listen_are_found(tmp_path: Path, first: int, ok: bool) -> None:
    setting = tmp_path / "range"
    setting.write_text(f"{first}\t60999\n")
    finding = machine.ephemeral_ports(setting)
    assert finding.ok is ok
    assert finding.detail.startswith(f"from {first}; ")


def test_an_unknown_ephemeral_range_is_a_finding_on_linux(tmp_path: Path) -> None:
    assert machine.ephemeral_ports(tmp_path / "gone").ok is (sys.platform != "linux")


def test_too_few_open_files_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    finding = machine.open_files()
    assert not finding.ok
    assert finding.detail == "256, needed 1024"
    assert finding.remedy == "ulimit -n 4096"


def test_an_old_aiohttp_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.11.18")
    assert not machine.versions().ok


def test_too_few_ports_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def few() -> PortReservations:
        return PortReservations(port_min=30_000, port_max=30_010)

    monkeypatch.setattr(machine, "PortReservations", few)
    finding = machine.free_ports()
    assert not finding.ok
    assert "no free port" in finding.detail


async def test_a_late_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LAG_MAX_S", -1.0)
    finding = await machine.loop_lag()
    assert not finding.ok
    assert finding.detail.startswith("at most ")
