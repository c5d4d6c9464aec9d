"""Both ends of a connection, what is on its way between them, and a proxy that cuts it."""

from collections.abc import Generator
from typing import Any

import pytest
import simpy

from simulator.connection import HOP_S, Close, Connection, Head, Piece
from simulator.timers import LATE, Late, Timers

Steps = Generator[simpy.Event, Any, None]


class Pair:
    """A connection whose client reads all it can get; `log` is what both ends saw, with their times in hops."""

    def __init__(self) -> None:
        self.env = simpy.Environment()
        self.connection = Connection(self.env, Timers(self.env))
        self.log: list[tuple[float, str, Any]] = []

    def note(self, who: str, what: Any) -> None:
        self.log.append((round(self.env.now / HOP_S, 6), who, what))

    def client(self, *, hops_max: float = 1000.0) -> Steps:
        while True:
            piece: Piece | Late = yield from self.connection.receive(hops_max * HOP_S)
            self.note("client", piece.status if isinstance(piece, Head) else piece)
            if isinstance(piece, Close | Late):
                return

    def server(self, *pieces: Piece, every_hops: float = 2.0) -> Steps:
        self.note("server", "asked")
        try:
            for piece in pieces:
                yield self.env.timeout(every_hops * HOP_S)
                self.connection.say(piece)
            self.connection.close(Close.WHOLE)
        except simpy.Interrupt:
            self.note("server", "left")

    def at(self, hops: float, act: Any) -> None:
        def later() -> Steps:
            yield self.env.timeout(hops * HOP_S)
            act()

        self.env.process(later())

    def run(self, *pieces: Piece) -> list[tuple[float, str, Any]]:
        self.connection.ask(lambda _: self.server(*pieces))
        self.env.process(self.client())
        self.env.run()
        return self.log


def test_an_answer_comes_in_order_and_one_hop_later() -> None:
    log = Pair().run(Head(200), b"one", b"two")
    assert log == [
        (1, "server", "asked"),
        (4, "client", 200),
        (6, "client", b"one"),
        (8, "client", b"two"),
        (8, "client", Close.WHOLE),
    ]


def test_what_is_on_its_way_when_a_proxy_cuts_arrives_before_the_break() -> None:
    pair = Pair()
    pair.at(5.5, pair.connection.cut)
    assert pair.run(Head(200), b"one", b"two") == [
        (1, "server", "asked"),
        (4, "client", 200),
        (6, "client", b"one"),
        (6.5, "server", "left"),
        (6.5, "client", Close.BROKEN),
    ]


def test_a_limit_cuts_with_the_last_byte_that_it_lets_pass() -> None:
    pair = Pair()
    pair.connection.bytes_left = 5
    hits: list[None] = []
    pair.connection.on_limit = lambda: hits.append(None)
    assert pair.run(Head(200), b"one", b"two", b"six") == [
        (1, "server", "asked"),
        (4, "client", 200),
        (6, "client", b"one"),
        (8, "server", "left"),
        (8, "client", b"tw"),
        (8, "client", Close.BROKEN),
    ]
    assert len(hits) == 1


def test_a_client_that_leaves_is_noticed_one_hop_later_and_once() -> None:
    pair = Pair()
    pair.connection.ask(lambda _: pair.server(Head(200), b"one"))
    pair.at(3.5, pair.connection.leave)
    pair.at(3.6, pair.connection.leave)
    pair.at(3.7, pair.connection.cut)
    pair.env.run()
    assert pair.log == [(1, "server", "asked"), (4.5, "server", "left")]


def test_a_client_that_leaves_before_its_request_has_arrived() -> None:
    pair = Pair()
    pair.connection.ask(lambda _: pair.server(Head(200)))
    pair.connection.leave()
    pair.env.run()
    assert pair.log == [(1, "server", "asked"), (1, "server", "left")]


def test_leaving_after_the_end_interrupts_nobody() -> None:
    pair = Pair()
    pair.connection.ask(lambda _: pair.server(Head(200)))
    pair.at(10, pair.connection.leave)
    pair.env.run()
    assert pair.log == [(1, "server", "asked")]


def test_the_end_is_told_once() -> None:
    pair = Pair()
    ends: list[Connection] = []
    pair.connection.on_end = ends.append
    pair.run(Head(200))
    pair.connection.cut()
    pair.connection.close(Close.BROKEN)
    assert ends == [pair.connection]


@pytest.mark.parametrize(("hops", "first"), [(3.9, LATE), (4.1, 200)])
def test_a_reader_waits_until_its_bound(hops: float, first: Any) -> None:
    pair = Pair()
    pair.connection.ask(lambda _: pair.server(Head(200)))
    pair.env.process(pair.client(hops_max=hops))
    pair.env.run()
    assert pair.log[1][2] is first or pair.log[1][2] == first
