"""A cast that cannot start leaves nothing behind, least of all on a Toxiproxy server that others use."""

from pathlib import Path

import pytest

from chaos import cast
from chaos.ports import PortReservations, is_free
from chaos.processes import Children
from chaos.provision import Server
from chaos.routers import reference
from chaos.toxiproxy import Toxiproxy, ToxiproxyError
from scenarios.load import parse

TWO_POOLS = """
name = "short"
title = "Two pools and one request"
seed = 1
duration_s = 0.8
pools = [{ id = "a" }, { id = "b" }]
load = [{ rate_rps = 10, start_s = 0.0, end_s = 0.1 }]
expect = { answers = { "200" = 1 } }
"""


async def test_a_start_that_fails_halfway_deletes_its_proxies_on_a_shared_server(
    toxiproxy: Toxiproxy, children: Children, ports: PortReservations, tmp_path: Path
) -> None:
    server = Server(url=f"http://{toxiproxy.address}")
    async with await Toxiproxy.open(server, children=children, ports=ports) as others:
        in_the_way = await others.create("b-0", listen_port=ports.take(), upstream_port=ports.take())
        scenario = parse(TWO_POOLS, Path("short.toml"))
        with pytest.raises(ToxiproxyError, match="This proxy already exists"):
            async with cast.running(scenario, server, tmp_path / "cast", reference.COMMAND):
                pytest.fail("it cannot start")
        assert not is_free(in_the_way.listen_port)
        # a proxy of the same name can be made again, so none was left
        again = await others.create("a-0", listen_port=ports.take(), upstream_port=ports.take())
        assert again.name.endswith("a-0")
