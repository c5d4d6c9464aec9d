"""Sockets of the network in memory: what Linux's do, for as much as asyncio asks of them."""

import errno
import os
import socket
import struct
from asyncio import BaseTransport
from collections import deque
from typing import Any

from tests.virtual.network import FIN, RESET, Address, Connection, Fin, Network, Reset, Stream, reset_error

CHUNK_BYTES = 256 * 1024


class VirtualSocket:
    """A TCP socket that does not block."""

    def __init__(
        self,
        network: Network,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002 - the name by which asyncio calls it
        proto: int = 0,
    ) -> None:
        self.family = family
        self.type = type
        self.proto = proto
        self.closed = False
        self._network = network
        self._number = network.add(self)
        self._address: Address = ("0.0.0.0", 0)
        self._backlog: deque[VirtualSocket] | None = None
        self._backlog_max = 0
        self._connect_error = 0
        self._is_connecting = False
        self._is_reset = False
        self._reset_told = False
        self._has_eof = False
        self._is_shut = False
        self._lingers = True
        self._inbox: deque[bytes] = deque()
        self._outgoing: Stream | None = None
        self._incoming: Stream | None = None
        self._mirrored: _Mirror | None = None

    # ---- what the network does

    @property
    def backlog_full(self) -> bool:
        """Tell whether a listening socket holds as many connections as it may."""
        return self._backlog is None or len(self._backlog) > self._backlog_max

    @property
    def readable(self) -> bool:
        """Tell whether a read, or an accept, would not block."""
        return bool(self._inbox or self._has_eof or self._is_reset or self._backlog)

    @property
    def writable(self) -> bool:
        """Tell whether a write, or the question how a connect went, has an answer."""
        if self._is_connecting:
            return False
        if self._outgoing is None or self._is_reset:
            return True
        return self._outgoing.room_bytes * 2 >= self._network.buffer_bytes

    @property
    def is_ended(self) -> bool:
        """Tell whether the other side has ended the connection, as far as this side's kernel knows."""
        return self._has_eof or self._is_reset

    @property
    def unread(self) -> bool:
        """Tell whether bytes have come that nobody has read."""
        return bool(self._inbox)

    def new_connection(self) -> "VirtualSocket":
        """Return the server's end of a new connection."""
        accepted = VirtualSocket(self._network, self.family, self.type, self.proto)
        accepted._address = self._address
        return accepted

    def join(self, outgoing: Stream, incoming: Stream) -> None:
        """Become one end of a connection."""
        self._outgoing, self._incoming = outgoing, incoming

    def connected(self) -> None:
        """Take in that a connect has come through."""
        self._is_connecting = False
        self._touch()

    def connect_failed(self, number: int) -> None:
        """Take in that a connect has failed."""
        if not self.closed:
            self._connect_error = number
            self._is_connecting = False
            self._touch()

    def offer(self, connection: "VirtualSocket") -> None:
        """Take in a connection that waits to be accepted."""
        if self._backlog is None or self.closed:
            connection.reset()
        else:
            self._backlog.append(connection)
            self._touch()

    def arrived(self, data: bytes) -> None:
        """Take in bytes."""
        self._inbox.append(data)
        self._touch()
        self._mirror()

    def ended(self, how: Fin | Reset) -> None:
        """Take in that the other side has ended the connection."""
        if how is RESET:
            self._is_reset = True
        else:
            self._has_eof = True
        self._touch()
        self._mirror()

    def room_made(self) -> None:
        """Take in that the other side has read."""
        self._touch()

    def reset(self) -> None:
        """End a connection by a reset."""
        self._lingers = False
        self.close()

    def pollable(self) -> int:
        """Return a real descriptor that is always in the state of this socket, for those who poll it."""
        if self._mirrored is None:
            self._mirrored = _Mirror()
            self._mirror()
        return self._mirrored.fileno()

    def _mirror(self) -> None:
        if self._mirrored is not None:
            self._mirrored.show(unread=self.unread, ended=self.is_ended, closed=self.closed)

    def _touch(self) -> None:
        if not self.closed:
            self._network.touched[self._number] = None

    # ---- what a program asks for

    def fileno(self) -> int:
        return -1 if self.closed else self._number

    def setblocking(self, flag: bool) -> None:
        assert not flag, "nothing blocks here"

    def gettimeout(self) -> float:
        return 0.0

    def getsockname(self) -> Address:
        return self._address

    def getpeername(self) -> Address:
        if self._outgoing is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._outgoing.target.getsockname()

    def setsockopt(self, level: int, name: int, value: Any, *_: object) -> None:
        if (level, name) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self._lingers = struct.unpack("ii", value) != (1, 0)

    def getsockopt(self, level: int, name: int, *_: object) -> int:
        if (level, name) == (socket.SOL_SOCKET, socket.SO_ERROR):
            error, self._connect_error = self._connect_error, 0
            return error
        return 0

    def bind(self, address: Any) -> None:
        host, port = address[0], address[1] or self._network.free_port()
        if (host, port) in self._network.listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._address = (host, port)

    def listen(self, backlog: int = 128) -> None:
        self._backlog, self._backlog_max = deque(), backlog
        self._network.listening[self._address] = self

    def accept(self) -> tuple["VirtualSocket", Address]:
        if not self._backlog:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        connection = self._backlog.popleft()
        return connection, connection.getpeername()

    def connect(self, address: Any) -> None:
        if self._address[1] == 0:
            self._address = ("127.0.0.1", self._network.free_port())
        self._is_connecting = True
        self._network.connect(self, (address[0], address[1]))
        raise BlockingIOError(errno.EINPROGRESS, os.strerror(errno.EINPROGRESS))

    def recv(self, size: int) -> bytes:
        if not self._inbox:
            if self._is_reset and not self._reset_told:
                self._reset_told = True
                raise reset_error()
            if self._has_eof or self._is_reset:
                return b""
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = self._inbox.popleft()
        if self._inbox and len(data) < size:
            data = b"".join((data, *self._inbox))
            self._inbox.clear()
        if len(data) > size:
            self._inbox.appendleft(data[size:])
            data = data[:size]
        assert self._incoming is not None, "what has bytes is connected"
        self._incoming.held_bytes -= len(data)
        self._incoming.read_bytes += len(data)
        self._mirror()
        self._incoming.source.room_made()
        return data

    def recv_into(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.recv(len(view))
        view[: len(data)] = data
        return len(data)

    def send(self, data: Any) -> int:
        if self._is_reset or self._is_shut:
            # Linux calls a reset that follows a FIN a broken pipe.
            if self._is_reset and not self._reset_told and not self._has_eof:
                self._reset_told = True
                raise reset_error()
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        assert self._outgoing is not None, "what sends is connected"
        room = self._outgoing.room_bytes
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        piece = bytes(memoryview(data).cast("B")[:room])
        self._outgoing.push(piece)
        return len(piece)

    def sendmsg(self, buffers: Any) -> int:
        return self.send(b"".join(buffers))

    def shutdown(self, how: int) -> None:
        if self._outgoing is None or self._is_reset:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if how in {socket.SHUT_WR, socket.SHUT_RDWR} and not self._is_shut:
            self._is_shut = True
            self._outgoing.push(FIN)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        del self._network.sockets[self._number]
        if self._backlog is not None:
            del self._network.listening[self._address]
            for waiting in self._backlog:
                waiting.reset()
        if self._outgoing is None:
            return
        if not self._lingers or (self._inbox and not self._is_reset):
            self._outgoing.push(RESET)
        elif not self._is_shut:
            self._outgoing.push(FIN)
        self._inbox.clear()
        self._mirror()
        self._outgoing.connection.socket_closed()

    def __repr__(self) -> str:
        return f"<VirtualSocket {self._number} {self._address[0]}:{self._address[1]}>"


class _Mirror:
    """A pair of real sockets, the first of which is in the state of a virtual one as far as a poll can see it."""

    def __init__(self) -> None:
        self._shown, self._other = socket.socketpair()
        self._unread = False

    def fileno(self) -> int:
        return self._shown.fileno()

    def show(self, *, unread: bool, ended: bool, closed: bool) -> None:
        if closed:
            self._shown.close()
            self._other.close()
            return
        if unread != self._unread and not ended:
            if unread:
                self._other.send(b"x")
            else:
                self._shown.recv(1)
            self._unread = unread
        if ended:
            self._other.close()


class SocketView:
    """What a transport shows of its socket."""

    def __init__(self, own: VirtualSocket) -> None:
        self.own = own
        self.family = own.family
        self.type = own.type
        self.proto = own.proto
        self.setsockopt = own.setsockopt
        self.getsockopt = own.getsockopt
        self.getsockname = own.getsockname
        self.getpeername = own.getpeername

    def fileno(self) -> int:
        return -1 if self.own.closed else self.own.pollable()

    def dup(self) -> socket.socket:
        """Refuse: what stands behind the number is no connection. No write fails here before all is read."""
        raise OSError(errno.EBADF, "not a socket of the kernel's")


def connection_of(transport: BaseTransport) -> Connection:
    """Return the connection that a transport is one end of."""
    view = transport.get_extra_info("socket")
    assert isinstance(view, SocketView)
    assert view.own._outgoing is not None
    return view.own._outgoing.connection
