"""The router's own answers: errors in the shape of OpenAI's API, with the bound or the cause in plain words."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from aiohttp import web

from router import headers
from router.core.chain import ChainBudget
from router.core.config import RouterConfig
from router.core.delivery import Cause, Delivery
from router.core.forwarding import Reply
from router.core.refusal import STATUS, Code, Reason, retry_after
from router.upstream import Attempt

MODEL_SHOWN_MAX = 200
"""So much of the name of a model that nobody serves is quoted."""
IN_WORDS: dict[Cause, str] = {
    Cause.REFUSED: "refused the connection",
    Cause.UNREACHABLE: "cannot be reached",
    Cause.CONNECT_TIMEOUT: "did not take the connection in time",
    Cause.NAME_LOOKUP: "has a name that cannot be looked up",
    Cause.TLS: "failed the TLS handshake",
    Cause.LOST: "closed the connection",
    Cause.RESET: "reset the connection",
    Cause.STALE: "had already closed the connection that was kept for reuse",
    Cause.UPLOAD_TIMEOUT: "did not read the request in time",
    Cause.FIRST_BYTE_TIMEOUT: "did not begin to answer in time",
    Cause.IDLE_TIMEOUT: "fell silent",
    Cause.TOTAL_TIMEOUT: "did not finish in time",
    Cause.DEADLINE: "did not answer before the deadline",
    Cause.PROTOCOL: "answered with bytes that are not HTTP",
    Cause.OWN_LIMIT: "could not be asked, since the router is out of descriptors or local ports",
    Cause.CLIENT_LEFT: "was left by the client",
    Cause.BODY_BROKEN: "did not get the whole request from the client",
}
"""What a pool did, for messages."""


def error(code: Code, message: str, chain: ChainBudget | None = None, *, request_id: str | None = None) -> web.Response:
    """Return an error answer; nothing was sent to a pool unless `delivery` is changed by the caller."""
    answer = json_answer(_content(code, message), status=STATUS[code])
    if request_id is not None:
        answer.headers[headers.REQUEST_ID] = request_id
    answer.headers[headers.DELIVERY] = Delivery.UNSENT
    if chain is not None:
        answer.headers.update(chain.headers_out(Delivery.UNSENT, sends=0))
    return answer


def raw_error(code: Code, message: str, *more: str) -> bytes:
    """Return an error answer as it goes over the wire, after which the connection is closed. `more`: header lines."""
    status = STATUS[code]
    body = msgspec.json.encode(_content(code, message))
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Server: pooldrill",
        f"{headers.DELIVERY}: {Delivery.UNSENT}",
        "Connection: close",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _content(code: Code, message: str) -> dict[str, object]:
    kind = "invalid_request_error" if STATUS[code] < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "code": code}}


def json_answer(content: object, *, status: int = 200) -> web.Response:
    """Return an answer with a JSON body."""
    own = {"Content-Type": "application/json", "Server": "pooldrill"}
    return web.Response(body=msgspec.json.encode(content), status=status, headers=own)


def refusal(
    reply: Reply,
    attempts: Sequence[Attempt],
    config: RouterConfig,
    deadline_s: float,
    chain: ChainBudget,
    *,
    model: str,
    request_id: str | None,
) -> web.Response:
    """Return the answer to a request for which no pool's answer can be passed on."""
    assert reply.code is not None
    answer = error(reply.code, message_of(reply, attempts, config, deadline_s, model), request_id=request_id)
    own = answer.headers
    if reply.outcome is not None:
        own[headers.DELIVERY] = reply.outcome.delivery
        own[headers.POOL] = attempts[-1].send.lease.frontend.pool
    own[headers.ATTEMPTS] = str(reply.sends)
    delivery = Delivery.UNSENT if reply.outcome is None else reply.outcome.delivery
    own.update(chain.headers_out(delivery, sends=reply.sends))
    if reply.retry_after_s is not None:
        own["Retry-After"] = str(retry_after(reply.retry_after_s))
    return answer


def message_of(reply: Reply, attempts: Sequence[Attempt], config: RouterConfig, deadline_s: float, model: str) -> str:
    """Say what ended the request, in words that name the bound or each pool's cause."""
    tried = "; ".join(_tried(attempt) for attempt in attempts)
    match reply.code:
        case Code.MAYBE_RUNNING | Code.POOL_TIMEOUT:
            return (
                f"{tried}, after the request was handed over (deadline {deadline_s:g} s)."
                " The pool may be running it, so it was not sent again."
            )
        case Code.MODEL_NOT_FOUND:
            shown = model[:MODEL_SHOWN_MAX]
            return f"No pool serves the model {shown!r}."
        case Code.NO_POOL | Code.ROUTER_OVERLOADED:
            return f"{_none_took_it(reply, config)} The request was not sent."
        case Code.DEADLINE:
            tail = f" {tried}." if tried else ""
            return f"The deadline of {deadline_s:g} s passed before any pool had the request.{tail}"
        case Code.BUDGET_SPENT:
            return f"{tried}. The request was not sent; its retry budget is spent, so no other pool was tried."
        case _:
            why = " No other pool serves this model." if reply.reason is Reason.NO_OTHER_POOL else ""
            return f"{tried}. The request was not sent.{why}"


def _tried(attempt: Attempt) -> str:
    pool = attempt.send.lease.frontend.pool
    return f"Pool {pool} {IN_WORDS[attempt.cause] if attempt.cause is not None else 'answered'}"


def _none_took_it(reply: Reply, config: RouterConfig) -> str:
    if reply.code is Code.NO_POOL:
        return f"No pool was usable within the patience of {config.patience_s:g} s."
    return (
        f"The router is full: {config.in_flight_max} requests are under way at a pool, and this one waited"
        f" {config.patience_s:g} s, or {config.queue_max} others wait already."
    )
