"""Where a generic innermost layer sends: which pool, which of its frontends."""

from collections.abc import Callable, Mapping, Sequence

from scenarios.layers import Layer
from scenarios.world.streams import stream
from simulator.chain.calls import Attempt, Call
from simulator.chain.clockwork import News
from simulator.chain.layer import Above
from simulator.chain.pools import Frontend
from simulator.chain.work import Draw


class PoolFrontends:
    """The frontends of one pool, which take turns, and what draws the work of its sends."""

    __slots__ = ("draw", "frontends", "id", "model", "single", "turn")

    def __init__(self, pool_id: str, model: str, frontends: Sequence[Frontend], draw: Draw) -> None:
        self.id = pool_id
        self.model = model
        self.frontends = frontends
        self.draw = draw
        self.single = len(frontends) == 1
        self.turn = 0

    def next(self) -> Frontend:
        """Return the frontend whose turn it is."""
        frontends = self.frontends
        self.turn += 1
        return frontends[(self.turn - 1) % len(frontends)]


class Gate:
    """The pools below a generic layer. Its attempts are sends."""

    def __init__(self, news: News, above: Above, spec: Layer, pools: Mapping[str, PoolFrontends], seed: int) -> None:
        self._news = news
        self._told = above.ended
        self._draws: dict[str, Draw] = {pool.id: pool.draw for pool in pools.values()}
        self._by_model: dict[str, tuple[PoolFrontends, ...]] = {}
        for pool in pools.values():
            self._by_model[pool.model] = (*self._by_model.get(pool.model, ()), pool)
        self._other = spec.pools == "other"
        self._first = {"round_robin": self._in_turn, "random": self._at_random, "primary": self._primary}[spec.balance]
        self._turns = dict.fromkeys(self._by_model, 0)
        self._random: Callable[[], float] = stream(seed, f"balance/{spec.name}").random
        for pool in pools.values():
            for frontend in pool.frontends:
                frontend.told = self._told

    def begin(self, call: Call, number: int, now_s: float) -> Attempt:
        """Send once."""
        pools = self._by_model[call.operation.model]
        pool = pools[0] if len(pools) == 1 else self._choose(pools, call)
        frontend = pool.frontends[0] if pool.single else pool.next()
        attempt = Attempt(call, frontend, number, now_s, pool.draw(call.operation, frontend.cache))
        result = frontend.take(attempt, now_s)
        if result is not None:
            self._news.add(self._told, attempt, result)
        return attempt

    def abandon(self, attempt: Attempt, now_s: float, end: int) -> None:
        """Leave a send; what becomes of its work is the pool's rule."""
        attempt.live = False
        attempt.end = end
        attempt.t_end_s = now_s
        attempt.frontend.leave(attempt, now_s)

    def _choose(self, pools: tuple[PoolFrontends, ...], call: Call) -> PoolFrontends:
        last = call.child
        if not isinstance(last, Attempt):
            return self._first(pools, call)
        place = next(place for place, pool in enumerate(pools) if pool.id == last.frontend.pool)
        return pools[(place + 1) % len(pools)] if self._other else pools[place]

    def _in_turn(self, pools: tuple[PoolFrontends, ...], call: Call) -> PoolFrontends:
        model = call.operation.model
        self._turns[model] = turn = self._turns[model] + 1
        return pools[(turn - 1) % len(pools)]

    def _at_random(self, pools: tuple[PoolFrontends, ...], _call: Call) -> PoolFrontends:
        return pools[int(self._random() * len(pools))]

    def _primary(self, pools: tuple[PoolFrontends, ...], _call: Call) -> PoolFrontends:
        return pools[0]
