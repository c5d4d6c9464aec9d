"""Black hole: a connect to the target neither succeeds nor fails, as when a firewall drops its packets.

No toxic does this, and a black-holing upstream would block Toxiproxy's accept loop. So the proxy is disabled, which
also cuts what is in flight through it, and a socket of ours listens on its port with a full queue: the kernel then
drops every SYN. No root is needed.

A hanging connect is not dead: its kernel sends SYN again, Linux since 6.5 after 1, 2, 3, 4, 5, 7, 11 s (measured),
older ones after 1, 3, 7 s. When the hole is closed, a connect that is still pending succeeds at its next SYN, or is
refused in the few milliseconds before the proxy listens again.
"""

import asyncio
import errno
import socket

from chaos.faults import probes
from chaos.faults.fault import Proof, Target
from chaos.faults.refused import enable
from chaos.ports import LOOPBACK

HANG_S = 0.25
"""How long the proving connect must hang."""
BIND_WAIT_S = 1.0
"""Longest wait for the port that the proxy has just left."""
BIND_POLL_S = 0.002
PENDING_MIN = 2
"""Connects of our own that must hang before the queue counts as full."""
FILLERS_MAX = 512
"""More than a kernel's smallest queue; Linux takes one connection when asked for a queue of 0."""
SETTLE_S = 0.02


class BlackHole:
    """Connects to the target hang. One instance for each target: it holds the sockets."""

    def __init__(self) -> None:
        self._hole: list[socket.socket] = []

    async def inject(self, target: Target) -> Proof:
        """Put the hole in the proxy's place. Proved by a connect that hangs for `HANG_S`.

        Raises OSError when the port cannot be taken over or the kernel's queue cannot be filled.
        """
        loop = asyncio.get_running_loop()
        port = target.proxy.listen_port
        begin_s = loop.time()
        await target.proxy.disable()
        await self._dig(port)
        effect_s = loop.time()
        seen = await probes.connect(port, wait_s=HANG_S)
        return Proof(seen.kind == "hung", str(seen), begin_s, effect_s)

    async def clear(self, target: Target) -> Proof:
        """Close the hole and enable the proxy. Proved by an answer through it."""
        # Newest first: a pending connect of ours must not succeed when the listener lets go of another one.
        while self._hole:
            self._hole.pop().close()
        return await enable(target)

    async def _dig(self, port: int) -> None:
        self._hole.append(await _listener(port))
        while len(self._hole) <= FILLERS_MAX:
            # No await since the listener is there, so that the first place in its queue is ours.
            self._hole += [_connecting(port) for _ in range(PENDING_MIN + 1)]
            await asyncio.sleep(SETTLE_S)
            if sum(not probes.is_connected(sock) for sock in self._hole[1:]) >= PENDING_MIN:
                return
        raise OSError(errno.ENOBUFS, f"{LOOPBACK}:{port}: its queue took {FILLERS_MAX} connections and is not full")


async def _listener(port: int) -> socket.socket:
    """Listen with a queue of length 0. The proxy has left the port, but the kernel may still be closing."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + BIND_WAIT_S
    while True:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((LOOPBACK, port))
            sock.listen(0)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE or loop.time() >= deadline_s:
                raise
        else:
            return sock
        await asyncio.sleep(BIND_POLL_S)


def _connecting(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.connect_ex((LOOPBACK, port))
    return sock
