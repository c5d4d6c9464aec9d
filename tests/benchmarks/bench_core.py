"""What a decision costs, in CPU time and against one bare aiohttp request: python -m tests.benchmarks.bench_core

Each figure is the best of several rounds, so that a busy machine does not count. Exit code 1: above a bound.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable
from functools import partial

import aiohttp
from aiohttp import web

from router.core.config import RouterConfig, Selection
from router.core.cooldown import Verdict
from router.core.delivery import Cause, Outcome
from router.core.effects import End, Request, Send
from router.core.forwarding import forward
from router.core.policy import Policy, build_policy
from router.core.topology import Catalog, Pool

DECISION_US_MAX = 5.0
PATH_US_MAX = 15.0
SHARE_OF_REQUEST_MAX = 0.1
ROUNDS = 7
TIMES = 5_000
FAR_S = 1e12
GOOD = Outcome(slot_taken=True, status=200)
REFUSED = Outcome(slot_taken=False, cause=Cause.REFUSED)


class _Clock:
    monotonic = staticmethod(time.monotonic)

    def wall(self) -> float:
        return 0.0


class _Still:
    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0


def policy_with(selection: Selection, *, cooldown: bool = True) -> Policy:
    """Return a policy over four pools of two frontends."""
    pools = (Pool.of_urls(name, [f"http://{name}-{n}.invalid" for n in range(2)], ["m"]) for name in "abcd")
    config = RouterConfig(selection=selection, cooldown=cooldown, in_flight_max=2 * TIMES)
    return build_policy(config, _Clock(), random.Random(1), Catalog(pools))


def decision_microseconds(selection: Selection) -> float:
    """Return the CPU time of one decision alone: what it took is given back outside the measured time."""
    policy, best = policy_with(selection), float("inf")
    policy.clock = _Still()  # or connects that nobody ends would become suspect
    for _ in range(ROUNDS):
        requests = [Request("m", FAR_S) for _ in range(TIMES)]
        begin = time.process_time()
        sends = [policy.decide(request) for request in requests]
        best = min(best, time.process_time() - begin)
        for send in sends:
            assert isinstance(send, Send)
            policy.release(send)
    return best / TIMES * 1e6


def path(policy: Policy, session: str | None = None) -> None:
    """Drive the whole path of a request when nothing fails."""
    rule = forward(policy, Request("m", FAR_S, session=session))
    send = next(rule)
    assert isinstance(send, Send)
    send.lease.handed_over()
    rule.send(GOOD)
    _end(lambda: rule.send(End.COMPLETE))


def failover(policy: Policy) -> None:
    """Drive a request whose first send is refused."""
    rule = forward(policy, Request("m", FAR_S))
    next(rule)
    send = rule.send(REFUSED)
    assert isinstance(send, Send)
    send.lease.handed_over()
    rule.send(GOOD)
    _end(lambda: rule.send(End.COMPLETE))


def _end(last: Callable[[], object]) -> None:
    try:
        last()
    except StopIteration:
        return
    raise AssertionError("the request has not ended")


def microseconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(TIMES):
            work()
        best = min(best, time.process_time() - begin)
    return best / TIMES * 1e6


async def request_microseconds(count: int = 500) -> float:
    """Return the CPU time of one request from aiohttp's client to aiohttp's server, both in this process."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(body=await request.read())

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    best = float("inf")
    async with aiohttp.ClientSession() as session:
        for _ in range(ROUNDS):
            begin = time.process_time()
            for _ in range(count):
                async with session.post(f"http://{host}:{port}/", data=b"{}") as response:
                    await response.read()
            best = min(best, time.process_time() - begin)
    await runner.cleanup()
    return best / count * 1e6


def main() -> int:
    """Measure and print; returns the exit code."""
    rows: list[tuple[str, float, float]] = []
    for selection in Selection:
        policy = policy_with(selection)
        rows.append((f"decide, {selection}", decision_microseconds(selection), DECISION_US_MAX))
        rows.append((f"whole path, {selection}", microseconds(partial(path, policy)), PATH_US_MAX))
    policy, unbenched = policy_with(Selection.ROUND_ROBIN), policy_with(Selection.ROUND_ROBIN, cooldown=False)
    rows.append(("whole path with a session", microseconds(lambda: path(policy, "s")), float("inf")))
    rows.append(("whole path with a failover", microseconds(lambda: failover(unbenched)), float("inf")))
    policy._learn(next(iter(policy.roster.states.values())), Verdict.HANGS, "hole")
    rows.append(("whole path, one frontend benched", microseconds(lambda: path(policy)), float("inf")))
    worst_us = max(us for name, us, bound in rows if bound == PATH_US_MAX)
    request_us = asyncio.run(request_microseconds())
    for name, us, bound in rows:
        print(f"{name:42}{us:8.2f} us" + (f"   at most {bound:g}" if bound < float("inf") else ""))
    print(f"{'one bare aiohttp request':42}{request_us:8.2f} us")
    print(f"{'whole path against that':42}{worst_us / request_us:8.1%}      at most {SHARE_OF_REQUEST_MAX:.0%}")
    slow = [name for name, us, bound in rows if us > bound]
    slow += ["share of a request"] if worst_us / request_us > SHARE_OF_REQUEST_MAX else []
    if slow:
        print(f"above its bound: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
