"""A network in memory, with a clock of its own: what lies between two sockets, and what can go wrong there.

Laws
1. Time passes only here. What happens at one time happens in the order in which it was asked for.
2. Bytes of one direction of a connection arrive in the order in which they were sent, each after the latency.
3. Nothing arrives behind the end of a direction: neither a FIN nor a reset is overtaken.

Times are seconds on the network's clock.
"""

import errno
import heapq
import itertools
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.virtual.sockets import VirtualSocket

Address = tuple[str, int]
START_S = 10_000.0
"""What the clock shows at first; monotonic clocks start anywhere."""
FIRST_PORT = 20_000
SYN_PAUSES_S = (1, 2, 4, 8, 16, 32, 64)
"""After which pauses a connect that nobody answers is tried again, as Linux does, until it gives up."""


class Fin:
    """Stands in a stream for its end."""


FIN = Fin()


class Reset:
    """Stands in a stream for a reset of the connection."""


RESET = Reset()


def reset_error() -> OSError:
    """Return what a socket says of a connection that the other side has reset."""
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


@dataclass(frozen=True, slots=True)
class Cut:
    """Ends a connection after so many bytes of one direction; who receives them sees a FIN, or a reset."""

    after_bytes: int
    downstream: bool = True
    by_reset: bool = False


class Link:
    """The way to one address, for all its connections."""

    __slots__ = ("_held", "_network", "connections", "cuts", "hole", "latency_s", "refuses", "stalled")

    def __init__(self, network: "Network", latency_s: float) -> None:
        self._network = network
        self.latency_s = latency_s
        self.hole = False
        """Connects get no answer."""
        self.refuses = False
        """Connects are refused, even where somebody listens."""
        self.stalled = False
        self.cuts: deque[Cut] = deque()
        """What befalls the next connections, one each."""
        self.connections: dict[int, Connection] = {}
        """Those that are open, by their number."""
        self._held: list[Callable[[], None]] = []

    def stall(self) -> None:
        """Let nothing arrive from now on, in neither direction; nothing is lost."""
        self.stalled = True

    def resume(self) -> None:
        """Let everything arrive that was held."""
        self.stalled = False
        held, self._held = self._held, []
        for arrive in held:
            self._network.at(self._network.now_s, arrive)

    def hold(self, arrive: Callable[[], None]) -> None:
        """Keep an arrival until the link resumes."""
        self._held.append(arrive)

    def cut_all(self, *, by_reset: bool) -> None:
        """End every open connection now."""
        for connection in list(self.connections.values()):
            connection.down.cut_now(by_reset=by_reset)


class Connection:
    """One connection: `up` from the client to the server, `down` back."""

    __slots__ = ("address", "client", "down", "link", "number", "opened_s", "server", "up")

    def __init__(
        self, network: "Network", number: int, address: Address, client: "VirtualSocket", server: "VirtualSocket"
    ) -> None:
        self.number = number
        self.address = address
        self.client = client
        self.server = server
        self.opened_s = network.now_s
        self.link = network.link(address)
        self.up = Stream(network, self, client, server)
        self.down = Stream(network, self, server, client)
        self.link.connections[number] = self
        if self.link.cuts:
            cut = self.link.cuts.popleft()
            (self.down if cut.downstream else self.up).cut = cut

    def socket_closed(self) -> None:
        """Take in that one of the two sockets was closed."""
        if self.client.closed and self.server.closed:
            self.link.connections.pop(self.number, None)

    def __repr__(self) -> str:
        return f"<Connection {self.number} to {self.address[0]}:{self.address[1]}>"


class Stream:
    """One direction of a connection; at most the network's `buffer_bytes` are under way or unread at one time."""

    __slots__ = ("_due_s", "_network", "_under_way", "arrived_bytes", "connection", "cut", "dead", "held_bytes",
                 "read_bytes", "source", "target")  # fmt: skip

    def __init__(
        self, network: "Network", connection: Connection, source: "VirtualSocket", target: "VirtualSocket"
    ) -> None:
        self._network = network
        self._under_way: deque[bytes | Fin | Reset] = deque()
        self._due_s = 0.0
        self.connection = connection
        self.source = source
        self.target = target
        self.cut: Cut | None = None
        self.dead = False
        self.held_bytes = 0
        """Bytes under way or unread."""
        self.arrived_bytes = 0
        """Bytes that have come to the target while it was open."""
        self.read_bytes = 0
        """Bytes that the target has read."""

    @property
    def room_bytes(self) -> int:
        """Bytes that can be sent now."""
        return self._network.buffer_bytes - self.held_bytes

    def push(self, item: bytes | Fin | Reset) -> None:
        """Send something on its way; after a cut it gets nowhere, and nobody knows yet."""
        if self.dead:
            return
        if isinstance(item, bytes):
            self.held_bytes += len(item)
        self._under_way.append(item)
        self._due_s = max(self._network.now_s + self.connection.link.latency_s, self._due_s)
        self._network.at(self._due_s, self._arrive)

    def cut_now(self, *, by_reset: bool) -> None:
        """End the connection: the target sees a FIN or a reset at once, the source a reset a latency later."""
        if self.dead:
            return
        connection = self.connection
        connection.up.die()
        connection.down.die()
        self.target.ended(RESET if by_reset else FIN)
        self._network.at(self._network.now_s + connection.link.latency_s, lambda: self.source.ended(RESET))

    def die(self) -> None:
        """Lose everything that is under way, and all that follows."""
        self.dead = True
        self._under_way.clear()

    def _arrive(self) -> None:
        if self.connection.link.stalled:
            self.connection.link.hold(self._arrive)
            return
        if not self._under_way:  # lost by a cut
            return
        item = self._under_way.popleft()
        if isinstance(item, bytes):
            self._take(item)
        else:
            self._note(type(item).__name__)
            self.target.ended(item)

    def _take(self, data: bytes) -> None:
        cut = self.cut
        is_cut = cut is not None and self.arrived_bytes + len(data) >= cut.after_bytes
        if cut is not None and is_cut:
            data = data[: cut.after_bytes - self.arrived_bytes]
        if self.target.closed:  # the kernel answers in the name of a socket that is gone
            self._network.at(self._network.now_s + self.connection.link.latency_s, lambda: self.source.ended(RESET))
        elif data:
            self.arrived_bytes += len(data)
            self._note(len(data))
            self.target.arrived(data)
        if cut is not None and is_cut:
            self.cut_now(by_reset=cut.by_reset)

    def _note(self, what: int | str) -> None:
        direction = "up" if self is self.connection.up else "down"
        self._network.trace.append((self._network.now_s, self.connection.number, direction, what))


class Network:
    """All addresses and connections of one world.

    `buffer_bytes` is what one direction of a connection holds, as the kernels of both sides would; `tick_s` is how long
    one round of the event loop takes; `order` mixes up what is ready at one time, as a kernel may.
    """

    def __init__(
        self,
        *,
        latency_s: float = 0.0002,
        buffer_bytes: int = 256 * 1024,
        tick_s: float = 0.0,
        order: Callable[[list[int]], None] | None = None,
    ) -> None:
        self.now_s = START_S
        self.latency_s = latency_s
        self.buffer_bytes = buffer_bytes
        self.tick_s = tick_s
        self.order = order
        self.listening: dict[Address, VirtualSocket] = {}
        self.sockets: dict[int, VirtualSocket] = {}
        """Those that are open, by descriptor."""
        self.touched: dict[int, None] = {}
        """Descriptors of which something may have changed since it was last looked at."""
        self.connections: list[Connection] = []
        self.names: dict[str, list[str]] = {}
        """Name -> its addresses, for name lookup."""
        self.trace: list[tuple[float, int, str, int | str]] = []
        """Everything that has arrived: when, on which connection, in which direction, bytes or a mark."""
        self._links: dict[Address, Link] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self._descriptors = itertools.count(1_000_000)
        self._ports = itertools.count(FIRST_PORT)

    def clock(self) -> float:
        """Return the time, as a function that can be handed on."""
        return self.now_s

    def link(self, address: Address) -> Link:
        """Return the way to an address."""
        if address not in self._links:
            self._links[address] = Link(self, self.latency_s)
        return self._links[address]

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Do something at a time that is not past."""
        heapq.heappush(self._events, (when_s, next(self._counter), action))

    def advance(self, until_s: float) -> bool:
        """Go to the next time at which something happens and let it happen; False: nothing does until then."""
        if not self._events or self._events[0][0] > until_s:
            if until_s != float("inf"):
                self.now_s = max(self.now_s, until_s)
            return False
        self.now_s = max(self.now_s, self._events[0][0])
        while self._events and self._events[0][0] <= self.now_s:
            heapq.heappop(self._events)[2]()
        return True

    def add(self, socket: "VirtualSocket") -> int:
        """Give a new socket its descriptor, which no other socket ever gets."""
        descriptor = next(self._descriptors)
        self.sockets[descriptor] = socket
        return descriptor

    def free_port(self) -> int:
        """Return a port that nobody has."""
        return next(self._ports)

    def connect(self, client: "VirtualSocket", address: Address) -> None:
        """Begin a connect; the socket is told how it ends."""
        self._syn(client, address, 0)

    def _syn(self, client: "VirtualSocket", address: Address, attempt: int) -> None:
        """Send what opens a connection, and again while nobody answers."""
        self.at(self.now_s + self.link(address).latency_s, lambda: self._syn_arrives(client, address, attempt))

    def _syn_arrives(self, client: "VirtualSocket", address: Address, attempt: int) -> None:
        link = self.link(address)
        server = self.listening.get(address)
        if client.closed:
            return
        if link.hole or link.stalled or (server is not None and server.backlog_full):
            again_s = self.now_s + SYN_PAUSES_S[attempt] - link.latency_s
            if attempt + 1 < len(SYN_PAUSES_S):
                self.at(again_s, lambda: self._syn(client, address, attempt + 1))
            else:
                self.at(again_s, lambda: client.connect_failed(errno.ETIMEDOUT))
        elif server is None or link.refuses:
            self.at(self.now_s + link.latency_s, lambda: client.connect_failed(errno.ECONNREFUSED))
        else:
            accepted = server.new_connection()
            connection = Connection(self, len(self.connections), address, client, accepted)
            self.connections.append(connection)
            accepted.join(connection.down, connection.up)
            self.at(self.now_s + link.latency_s, lambda: self._established(client, server, connection))

    def _established(self, client: "VirtualSocket", server: "VirtualSocket", connection: Connection) -> None:
        if client.closed:  # it has given up meanwhile: nobody will accept it
            connection.server.close()
            connection.socket_closed()
            return
        client.join(connection.up, connection.down)
        client.connected()
        latency_s = connection.link.latency_s
        self.at(self.now_s + latency_s, lambda: server.offer(connection.server))
