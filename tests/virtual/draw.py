"""Drawing a world from a seed: a topology, knobs, requests, and whatever may go wrong."""

import random
from collections.abc import Iterator
from typing import Any

from router.core.config import QueueOrder, RouterConfig, Selection
from router.core.topology import Pool
from router.settings import ShellConfig
from scenarios.world.streams import stream
from tests.virtual.network import Cut
from tests.virtual.plan import (
    FIRST_POOL_PORT,
    Answer,
    Ask,
    Break,
    Event,
    Kind,
    NextCut,
    Publish,
    Signal,
    Trouble,
    What,
    World,
    pool_of,
)

NAMES = "abcd"
SPAN_S = 3.0
"""Requests come within so many seconds."""
LOG_SCALE_S = (0.0, 0.0001, 0.001, 0.004, 0.02, 0.1, 0.4, 1.5)
"""Moments at which something may happen, counted from the beginning of a request: every stage has one."""


def world_of(seed: int) -> World:
    """Return the world of a seed."""
    rng = stream(seed, "world")
    pools = tuple(_pools(rng))
    frontends = [frontend.name for pool in pools for frontend in pool.frontends]
    latency_s = rng.choice((0.0001, 0.0005, 0.002, 0.01))
    first = _publish(rng, pools, 0.0) if rng.random() < 0.1 else None
    return World(
        seed=seed,
        pools=pools,
        first=first,
        rules=_rules(rng, pools),
        shell=_shell(rng, seed),
        events=tuple(sorted(_events(rng, pools, frontends, latency_s), key=lambda event: event.at_s)),
        latency_s=latency_s,
        buffer_bytes=rng.choice((1_000, 16_000, 64_000, 256_000)),
        tick_s=rng.choice((0.0, 0.0, 0.00005, 0.001)),
        mixes=rng.random() < 0.5,
    )


def _pools(rng: random.Random) -> Iterator[Pool]:
    port = FIRST_POOL_PORT
    for name in NAMES[: rng.choice((1, 2, 2, 2, 3, 4))]:
        count = rng.choice((1, 1, 2, 3))
        yield pool_of(name, port, count, rng.choice(((), (), ("m",), ("m", "n"))))
        port += count


def _rules(rng: random.Random, pools: tuple[Pool, ...]) -> RouterConfig:
    knobs: dict[str, Any] = {
        "connect_timeout_s": rng.choice((0.1, 0.3, 1.0)),
        "connect_slow_s": rng.choice(
            (0.06, 0.1)
        ),  # more than the way there and back, three rounds of the loop included
        "deadline_s": rng.choice((0.5, 3.0, 10.0)),
        "upload_timeout_s": rng.choice((0.0, 0.2, 60.0)),
        "first_byte_timeout_s": rng.choice((0.0, 0.3, 600.0)),
        "total_timeout_s": rng.choice((0.0, 0.0, 1.0)),
        "idle_timeout_s": rng.choice((0.3, 1.0, 3.0)),
        "patience_s": rng.choice((0.05, 0.3, 1.0)),
        "queue_max": rng.choice((0, 1, 3, 256)),
        "queue_order": rng.choice(tuple(QueueOrder)),
        "in_flight_max": rng.choice((1, 2, 8, 1024, 1024)),
        "selection": rng.choice(tuple(Selection)),
        "cooldown": rng.random() < 0.8,
        "cooldown_failures": rng.choice((1, 2, 3)),
        "cooldown_s": rng.choice((0.05, 0.2, 0.5)),
        "cooldown_s_max": 1.0,
        "slow_start_s": rng.choice((0.0, 0.5)),
        "trial_pause_s": 0.05,
        "trial_probe_timeout_s": 0.5,
        "trials_max": rng.choice((1, 4)),
        "failover_budget": rng.choice(("none", "none", "fixed:max_retries=0", "token_bucket")),
    }
    if rng.random() < 0.3:
        knobs["primary"] = rng.choice(pools).name
    return RouterConfig(**{name: value for name, value in knobs.items() if value is not None})


def _shell(rng: random.Random, seed: int) -> ShellConfig:
    return ShellConfig(
        reuse_idle_s=rng.choice((0.0, 0.05, 0.5, 4.0)),
        body_timeout_s=rng.choice((0.2, 120.0, 120.0)),
        body_idle_timeout_s=rng.choice((0.1, 20.0, 20.0)),
        keep_alive_timeout_s=rng.choice((0.05, 75.0, 75.0)),
        connections_max=rng.choice((3, 16_384, 16_384, 16_384)),
        drain_delay_s=rng.choice((0.0, 0.0, 0.3)),
        models_timeout_s=rng.choice((0.1, 2.0)),
        drain_timeout_s=rng.choice((0.2, 1.0, 5.0)),
        body_bytes_max=rng.choice((20_000, 100_000)),
        buffered_bytes_max=rng.choice((100_000, 2**30, 2**30)),
        seed=seed,
    )


def _events(rng: random.Random, pools: tuple[Pool, ...], frontends: list[str], latency_s: float) -> Iterator[Event]:
    span_s = rng.choice((0.05, 0.5, SPAN_S))
    for number in range(rng.randint(3, 12)):
        yield _ask(rng, number, span_s, latency_s)
    for number in range(rng.choice((0, 0, 0, 1, 2))):
        leaves_s = _moment(rng) if rng.random() < 0.3 else None
        at_s = rng.uniform(0, span_s)
        yield Ask(at_s=at_s, name=f"list{number}", lane=0, answer=Answer(), lists=True, leaves_s=leaves_s)
    for _ in range(rng.choice((0, 1, 2, 4, 6))):
        yield _trouble(rng, frontends, span_s)
    for _ in range(rng.choice((0, 0, 1, 3))):
        cut = Cut(after_bytes=_some_bytes(rng), downstream=rng.random() < 0.6, by_reset=rng.random() < 0.5)
        yield NextCut(at_s=rng.uniform(0, span_s), frontend=rng.choice(frontends), cut=cut)
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        yield _publish(rng, pools, rng.uniform(0, span_s))
    if rng.random() < 0.25:
        yield Signal(at_s=rng.uniform(0, span_s * 1.2), again_s=rng.choice((None, None, 0.0, 0.1)))


def _ask(rng: random.Random, number: int, span_s: float, latency_s: float) -> Ask:
    answer = _answer(rng)
    large, old = rng.random() < 0.15, rng.random() < 0.1
    return Ask(
        at_s=rng.choice((0.0, rng.uniform(0, span_s), rng.uniform(0, span_s))),
        name=f"r{number}",
        lane=number if rng.random() < 0.6 else rng.randrange(3),
        answer=answer,
        body_bytes=rng.choice((30_000, 120_000)) if large else rng.choice((60, 900)),
        model=rng.choice(("m", "m", "m", "m", "m", "n", "other")),
        session=rng.choice((None, None, "s1", "s2")),
        deadline_ms=rng.choice((None, None, None, None, None, None, 0, 50, 400)),
        upload_pieces=rng.choice((1, 1, 1, 3)),
        upload_pause_s=rng.choice((0.0, 0.01, 0.3)),
        chunked=not old and rng.random() < 0.15,
        old=old,
        expects=not old and rng.random() < 0.1,
        leaves_s=_departure(rng, answer, latency_s) if rng.random() < 0.25 else None,
        read_pause_s=rng.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.1, 1.0)),
    )


def _departure(rng: random.Random, answer: Answer, latency_s: float) -> float:
    """Return when a client leaves: at some moment, or about when its answer comes to the router."""
    if rng.random() < 0.5:
        return _moment(rng)
    return max(0.0, answer.think_s + rng.randint(2, 6) * latency_s + rng.uniform(-0.001, 0.003))


def _moment(rng: random.Random) -> float:
    return rng.choice(LOG_SCALE_S) * rng.uniform(0.5, 2.0)


def _answer(rng: random.Random) -> Answer:
    kind = rng.choices(tuple(Kind), weights=(30, 36, 6, 6, 2, 4, 4, 2, 4))[0]
    pieces = rng.choice((1, 2, 5, 20))
    return Answer(
        kind=kind,
        status=rng.choice((400, 404, 429, 500, 503, 529)) if kind is Kind.ERROR else 200,
        think_s=_moment(rng) if rng.random() < 0.5 else 0.0,
        pieces=pieces,
        piece_bytes=rng.choice((30, 30, 400, 20_000)),
        pause_s=rng.choice((0.0, 0.0, 0.002, 0.05, 0.2)),
        breaks_at=_some_bytes(rng) if rng.random() < 0.2 and kind in _CAN_BREAK else None,
        breaks_by=rng.choice(tuple(Break)),
        early=rng.random() < 0.05,
        reads_bytes=rng.choice((None,) * 8 + (0, 500)),
        closes=rng.random() < 0.1,
    )


_CAN_BREAK = (Kind.PLAIN, Kind.CHUNKED, Kind.UNTIL_CLOSE, Kind.ERROR)


def _some_bytes(rng: random.Random) -> int:
    """Return a byte of an answer or a request, in its head as often as behind it."""
    return rng.choice((rng.randrange(20), rng.randrange(200), rng.randrange(1_000), rng.randrange(100_000)))


def _trouble(rng: random.Random, frontends: list[str], span_s: float) -> Trouble:
    return Trouble(
        at_s=rng.uniform(0, span_s),
        frontend=rng.choice(frontends),
        what=rng.choice(tuple(What)),
        for_s=rng.choice((0.01, 0.2, 1.0, 4.0)),
    )


def _publish(rng: random.Random, pools: tuple[Pool, ...], at_s: float) -> Publish:
    names = [pool.name for pool in pools]
    listed = tuple(name for name in names if rng.random() < 0.7)
    draining = tuple(name for name in listed if rng.random() < 0.2)
    frontends = [frontend.name for pool in pools for frontend in pool.frontends]
    without = tuple(name for name in frontends if rng.random() < 0.2)
    return Publish(at_s=at_s, pools=listed, draining=draining, without=without)
