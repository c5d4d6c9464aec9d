"""One connection to a frontend: a request out, its answer in, one at a time.

Laws
1. Every byte that came before a loss is passed on before the loss is told. So nothing is read while nobody takes it:
   the rest, the loss included, waits in the kernel.
2. What comes while no request is under way is an answer to nothing, and ends the connection.
3. Pieces of an answer go from the socket to their taker in one call, without a task in between, and none is kept.
4. One timer a connection. It is set when a bound comes closer, never for a piece: a piece leaves its time, and the
   timer looks when it fires.
"""

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from router.core.bounds import Bounds, Phase
from router.core.clock import Clock
from router.reading import READ_BYTES_MAX, ReadsThroughOneBuffer
from router.tls import said_goodbye
from router.upstream.answer import AnswerReader, Head
from router.upstream.faults import Late, Lost, NotHttp
from router.upstream.origin import Origin
from router.upstream.uploading import Upload, last_words

HELD_BYTES_MAX = 64 * 2**10
"""So much of an answer may wait for its taker, and one read of the socket on top of it."""
UPLOAD_LOOKS = 4
"""So often within its time-out it is looked whether an upload goes on; it may last longer by one part of so many."""


class Taker(Protocol):
    """Where the pieces of an answer go."""

    def take(self, data: bytes, *, last: bool) -> bool:
        """Take a piece, `last` if none can follow; True: take no more until somebody has looked."""
        ...


class Connection(ReadsThroughOneBuffer):
    """A connection to `origin`; `on_end` is told when it has ended."""

    __slots__ = (
        "_bounds", "_held_bytes", "_loop", "_now", "_on_end", "_phase", "_poll", "_reader", "_since_s", "_taker",
        "_timer", "_upload", "_waiter", "closed", "failure", "idle_until_s", "origin", "stopped", "transport",
        "used",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, origin: Origin, on_end: "Callable[[Connection], None]"
    ) -> None:
        self._loop = loop
        self._now = clock.monotonic
        self._on_end = on_end
        self.origin = origin
        self.transport: asyncio.Transport | None = None
        self.used = False
        """It has served a request."""
        self.closed = False
        self.failure: Exception | None = None
        """Why the answer did not come, or not whole."""
        self.idle_until_s = float("inf")
        """When a connection without a request is closed."""
        self._reader = AnswerReader()
        self._phase = Phase.IDLE
        self._bounds: Bounds | None = None
        self._since_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._taker: Taker | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._upload: Upload | None = None
        self._held_bytes = 0
        self.stopped = False
        """Nothing is read, until `read_on`."""
        self._poll: select.poll | None = None

    # ---- one request after the other

    def hand_over(self, head: bytes, body: bytes, bounds: Bounds, on_written: Callable[[], None] | None = None) -> None:
        """Write a request; `on_written` is called once it has gone. Its answer is waited for with `answered`."""
        assert self._upload is not None, "a request goes out on a connection that stands"
        self.used = True
        self._bounds = bounds
        self._reader.begin()
        self._phase, self._since_s = Phase.UPLOAD, self._now()
        self._upload.begin(head, body, on_written)
        if self._upload.gone:
            self._phase = Phase.HEAD
        self._watch()

    async def answered(self) -> Head | None:
        """Wait for the head of the answer; None: `failure` says why there is none."""
        while self._reader.head is None and not self.closed:
            await self.changed()
        return self._reader.head

    async def changed(self) -> None:
        """Wait until the answer's head or end has come, or its taker wants somebody to look."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    @property
    def over_s(self) -> float:
        """Return when the request under way must have had its last byte."""
        return float("inf") if self._bounds is None else self._bounds.over_s

    @property
    def whole(self) -> bool:
        """Tell whether the answer has ended by its own framing."""
        return self._reader.whole

    def pass_to(self, taker: Taker) -> bytes:
        """Give every further piece to `taker`; returns what has come already."""
        self._taker = taker
        held, self._held_bytes = self._reader.take(), 0
        if self.stopped:
            self.read_on()
        return held

    def stop_reading(self) -> None:
        """Leave in the kernel what comes, until `read_on`; silence is nobody's fault meanwhile."""
        if self.transport is not None and not self.stopped:
            self.stopped = True
            self.transport.pause_reading()

    def read_on(self) -> None:
        """Read again."""
        if self.transport is not None and self.stopped:
            self.stopped = False
            self._since_s = self._now()
            self.transport.resume_reading()
            self._watch()

    def finished(self) -> bool:
        """Take the request off the connection; False: it cannot serve another, and should be cut."""
        head = self._reader.head
        can_go_on = (
            self._reader.whole
            and not self._reader.spoilt
            and head is not None
            and head.keeps
            and not self.closed
            and self._upload is not None
            and self._upload.gone
        )
        self._phase, self._taker, self._bounds, self._held_bytes = Phase.IDLE, None, None, 0
        if can_go_on and self.stopped:
            self.read_on()
        return can_go_on

    def keep_until(self, until_s: float) -> None:
        """Close the connection then, unless a request came in between."""
        self.idle_until_s = until_s
        self._watch()

    def cut(self) -> None:
        """End the connection at once; what is left of an upload is thrown away."""
        if self._phase is not Phase.IDLE and self.failure is None and not self._reader.whole:
            self.failure = Lost("the router has cut the connection")
        self._close()
        if self.transport is not None:
            self.transport.abort()

    def is_dead(self) -> bool:
        """Tell whether an idle connection has been closed by the other side, or has said something unasked.

        Looks at the socket itself, since the event loop may not have come round to it yet. Over TLS unasked bytes may
        be the protocol's own, so there only the end of the connection counts.
        """
        if self.closed or self.transport is None or self.transport.is_closing():
            return True
        if self._poll is None:
            socket = self.transport.get_extra_info("socket")
            if socket is None:  # a network that is not the kernel's
                return False
            ends = getattr(select, "POLLRDHUP", 0)
            self._poll = select.poll()
            tls = self.transport.get_extra_info("ssl_object") is not None
            self._poll.register(socket.fileno(), ends if tls else ends | select.POLLIN)
        return bool(self._poll.poll(0))

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)  # what uvloop makes is one, and does not say so
        self._upload = Upload(self.transport)
        # So that the end of an upload is seen, not only its beginning; with 0 asyncio's TLS pauses for nothing at all.
        self.transport.set_write_buffer_limits(high=0 if transport.get_extra_info("ssl_object") is None else 1)

    def data_received(self, data: bytes) -> None:
        """Parse what was read and pass it on."""
        if self._phase is Phase.IDLE:
            self.cut()
            return
        reader = self._reader
        if self._phase is Phase.BODY:
            self._since_s = self._now()
        try:
            reader.feed(data)
        except NotHttp as fault:
            self._pass_on(last=False)
            self._fail(fault)
            return
        if self._taker is None:
            self._hold(len(data))
        else:
            self._pass_on(last=reader.whole)

    def connection_lost(self, error: Exception | None) -> None:
        """Take note of the end; an answer that only the connection ends may be whole."""
        if error is not None and self._phase is Phase.UPLOAD and self.transport is not None:
            words = last_words(self.transport)
            if words:
                self.data_received(words)
        if error is not None and self._phase is not Phase.IDLE:
            self._read_the_rest()
        head = self._reader.head
        ends_the_answer = head is not None and not head.framed and error is None and self._was_told_goodbye()
        if self._phase is not Phase.IDLE and not self._reader.whole and not ends_the_answer and self.failure is None:
            self.failure = Lost("the pool closed the connection") if error is None else error
        self.transport = self._poll = None
        self._close()
        self._on_end(self)
        self._wake()

    def pause_writing(self) -> None:
        """Write no more."""
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        """Write the next piece: everything before it has gone."""
        if self._upload is None:
            return
        self._upload.resume()
        if self._phase is Phase.UPLOAD:
            self._since_s = self._now()
            if self._upload.gone:
                self._phase = Phase.HEAD
                self._watch()

    # ---- inside

    def _read_the_rest(self) -> None:
        """Read what came before a write failed; the event loop's transport drops it (asyncio and uvloop 0.23).

        A pool that refuses an upload and hangs up has said why before.
        """
        transport = self.transport
        if transport is None or self._reader.whole or transport.get_extra_info("ssl_object") is not None:
            return
        peer = transport.get_extra_info("socket")
        if peer is None:
            return
        with suppress(OSError), peer.dup() as own:  # the loss itself, or a network that is not the kernel's
            while not self.stopped and (data := own.recv(READ_BYTES_MAX)):
                self.data_received(data)

    def _was_told_goodbye(self) -> bool:
        """Tell whether an end of the connection is the other side's; over TLS anybody in between could make one."""
        return self.transport is not None and said_goodbye(self.transport)

    def _close(self) -> None:
        self.closed = True
        if self._upload is not None:
            self._upload.drop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hold(self, size: int) -> None:
        """Keep what came before its taker, a head included."""
        if self._reader.head is None:
            return
        if self._phase is not Phase.BODY:
            self._phase, self._since_s = Phase.BODY, self._now()
            self._watch()
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES_MAX:
            self.stop_reading()
        self._wake()

    def _pass_on(self, *, last: bool) -> None:
        """Give the taker what came."""
        taker, pieces = self._taker, self._reader.pieces
        if taker is None:
            return
        if (pieces or last) and taker.take(self._reader.take(), last=last):
            self.stop_reading()
            self._wake()
        elif last:
            self._wake()

    def _fail(self, failure: Exception) -> None:
        self.failure = failure
        self.cut()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self) -> None:
        """See to it that the timer fires no later than the next bound is reached."""
        due_s = self.idle_until_s if self._bounds is None else self._bounds.next(self._phase, self._since_s)[0]
        if self._phase is Phase.UPLOAD and self._bounds is not None:
            due_s = min(due_s, self._now() + self._bounds.limits.upload_s / UPLOAD_LOOKS)
        if self._timer is None or due_s < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None if due_s == float("inf") else self._loop.call_at(due_s, self.look)

    def look(self) -> None:
        """End what has taken too long."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._now()
        if self._bounds is None:
            if now >= self.idle_until_s:
                self.cut()
            else:
                self._watch()
            return
        self._note_progress(now)
        due_s, cause = self._bounds.next(self._phase, self._since_s)
        if now >= due_s:
            self._fail(Late(cause, self._bounds.words(cause)))
        else:
            self._watch()

    def _note_progress(self, now: float) -> None:
        """Find out what leaves no time of its own: bytes of an upload that went, and a taker that is waited for."""
        if self.stopped and self._phase is Phase.BODY:
            self._since_s = now
        if self._phase is Phase.UPLOAD and self._upload is not None and self._upload.has_progressed():
            self._since_s = now
