"""What the service that lists the pools answers to `GET /pools`: the truth of the moment, or a trouble of the scenario.

The form of an answer is in router/core/discovery.py.
"""

from collections.abc import Sequence
from typing import Any

from router.core.effects import Failed
from scenarios.loops import ListTrouble
from scenarios.spec import Pool


class PoolList:
    """The list as it is told."""

    def __init__(self, pools: Sequence[Pool], troubles: Sequence[ListTrouble] = ()) -> None:
        self._pools = pools
        self._troubles = troubles

    def at(self, now_s: float) -> object:
        """Return the answer of a moment, decoded; None: there is none."""
        trouble = next((each for each in self._troubles if each.inject_s <= now_s < each.clear_s), None)
        if trouble is None:
            return self._answer(now_s)
        match trouble.kind:
            case "error":
                return Failed("status 500")
            case "garbage":
                return "<html>no list</html>"
            case "empty":
                return {"complete": True, "pools": []}
            case "silent":
                return None
            case "incomplete" | "lacks":
                return self._answer(now_s, without=trouble.pool, complete=trouble.kind == "lacks")

    def _answer(self, now_s: float, *, without: str | None = None, complete: bool = True) -> dict[str, Any]:
        listed = [pool for pool in self._pools if _is_listed(pool, now_s) and pool.id != without]
        entries = [{"id": pool.id, "models": [pool.model], "urls": urls_of(pool)} for pool in listed]
        return {"complete": complete, "pools": entries}


def urls_of(pool: Pool) -> list[str]:
    """Return the addresses of a pool's frontends, which sort in their order; `.invalid` leads nowhere."""
    return [f"http://{pool.id}-{number:02}.invalid" for number in range(pool.frontends)]


def _is_listed(pool: Pool, now_s: float) -> bool:
    return pool.join_s <= now_s and (pool.leave_s is None or now_s < pool.leave_s)
