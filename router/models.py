"""GET /v1/models: what all pools serve together, without duplicates and in a stable order.

Pools that name their models in the configuration are not asked. All others are asked at the same time, each of their
frontends once, and whoever is slower than the bound is left out.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from router import headers
from router.answers import error, json_answer
from router.core.policy import Policy
from router.core.refusal import Code
from router.core.topology import Frontend, Pool
from router.upstream import Upstream, UpstreamError

LIST_BYTES_MAX = 4 * 2**20
"""Longest list of models that is read from a frontend."""

_NOT_TO_POOL = headers.HOP_BY_HOP | {"accept-encoding", "content-length", "expect", "host"}


class _List(msgspec.Struct):
    """A list of models; nothing but names is read of its entries, so that nothing else in them matters."""

    data: list[msgspec.Raw]


class _Named(msgspec.Struct):
    id: str


Entries = list[tuple[str, msgspec.Raw]]
"""Ids and entries, the latter as the pool wrote them."""
_list_of = msgspec.json.Decoder(_List).decode
_named = msgspec.json.Decoder(_Named).decode


class Models:
    """Answers GET /v1/models. `via` is this router's own name, by which it recognises a loop."""

    def __init__(self, policy: Policy, upstream: Upstream, timeout_s: float, *, via: str) -> None:
        self._policy = policy
        self._via = via
        self._upstream = upstream
        self._timeout_s = timeout_s

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer with the union, or 503 if no pool has answered."""
        request_id = headers.plain(request.headers, headers.REQUEST_ID)
        if headers.has_passed(request.headers, self._via):
            return error(Code.LOOP_DETECTED, headers.LOOP, request_id=request_id)
        pools = self._policy.catalog.pools
        passed = headers.end_to_end(request.headers, _NOT_TO_POOL)
        passed["Accept-Encoding"] = "identity"
        passed.add("Via", f"1.1 {self._via}")
        lists = await self._lists(pools, passed)
        if pools and not any(entries is not None for entries in lists):
            message = f"No pool has told its models within {self._timeout_s:g} s."
            return error(Code.POOL_UNREACHABLE, message, request_id=request_id)
        by_id: dict[str, msgspec.Raw] = {}
        for entries in lists:
            for model, entry in entries or ():
                by_id.setdefault(model, entry)
        return json_answer({"object": "list", "data": [by_id[model] for model in sorted(by_id)]})

    async def _lists(self, pools: Sequence[Pool], passed: CIMultiDict[str]) -> list[Entries | None]:
        """Return each pool's models in the order of the pools; None: no frontend of it has answered in time."""
        asked = [(pool, frontend) for pool in pools if not pool.models for frontend in pool.frontends]
        answers = await asyncio.gather(*(self._ask(frontend, passed) for _, frontend in asked))
        found: dict[str, Entries] = {pool.name: _configured(pool) for pool in pools if pool.models}
        for (pool, _), entries in zip(asked, answers, strict=True):
            if entries is not None:
                found.setdefault(pool.name, []).extend(entries)
        return [found.get(pool.name) for pool in pools]

    async def _ask(self, frontend: Frontend, passed: CIMultiDict[str]) -> Entries | None:
        try:
            told = await self._upstream.fetch(
                frontend,
                "/v1/models",
                passed,
                until_s=asyncio.get_running_loop().time() + self._timeout_s,
                bytes_max=LIST_BYTES_MAX,
            )
        except (OSError, UpstreamError):
            return None
        return entries_of(told.body) if told.status == 200 else None


def _configured(pool: Pool) -> Entries:
    return [(model, msgspec.Raw(msgspec.json.encode(_entry(model, pool)))) for model in pool.models]


def _entry(model: str, pool: Pool) -> dict[str, object]:
    return {"id": model, "object": "model", "created": 0, "owned_by": pool.name}


def entries_of(body: bytes) -> Entries | None:
    """Return the entries of a list that have an id; None if it is no list of models, or one that nests too deep."""
    try:
        entries = _list_of(body.decode()).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return [(name, entry) for entry in entries if (name := _name_of(entry)) is not None]


def _name_of(entry: msgspec.Raw) -> str | None:
    try:
        return _named(entry).id
    except (msgspec.DecodeError, RecursionError):
        return None
