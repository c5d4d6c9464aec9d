"""Why a request is not sent again, and what the client is told when no pool's answer can be passed on."""

import math
from enum import StrEnum

from router.core.delivery import OWN_TIMEOUTS, Delivery, Outcome


class Reason(StrEnum):
    """How forwarding one request ended; all but ANSWERED are refusals to send (again)."""

    ANSWERED = "answered"
    MAYBE_SENT = "maybe_sent"
    TWO_SENDS = "two_sends"  # the second send failed too
    NO_OTHER_POOL = "no_other_pool"
    BUDGET = "budget"
    DEADLINE = "deadline"
    NO_POOL = "no_pool"  # nothing usable within the patience
    OVERLOADED = "overloaded"
    UNKNOWN_MODEL = "unknown_model"


class Code(StrEnum):
    """`error.code` of the router's own answers."""

    POOL_UNREACHABLE = "pool_unreachable"
    MAYBE_RUNNING = "maybe_running"
    POOL_TIMEOUT = "pool_timeout"
    DEADLINE = "deadline"
    NO_POOL = "no_pool"
    ROUTER_OVERLOADED = "router_overloaded"
    BUDGET_SPENT = "budget_spent"
    MODEL_NOT_FOUND = "model_not_found"
    BAD_REQUEST = "bad_request"
    BODY_TOO_LARGE = "body_too_large"
    CLIENT_TOO_SLOW = "client_too_slow"
    LOOP_DETECTED = "loop_detected"
    HEADERS_TOO_LARGE = "headers_too_large"
    INTERNAL_ERROR = "internal_error"  # a defect of the router's own
    NOT_FOUND = "not_found"  # a path the router does not serve
    METHOD_NOT_ALLOWED = "method_not_allowed"  # a path it serves, but not so


CLIENT_LEFT = "client_left"
"""Stands in the place of a code where the client was gone before an answer could be completed."""

STATUS: dict[Code, int] = {
    Code.POOL_UNREACHABLE: 503,
    Code.MAYBE_RUNNING: 503,
    Code.POOL_TIMEOUT: 504,
    Code.DEADLINE: 504,
    Code.NO_POOL: 503,
    Code.ROUTER_OVERLOADED: 503,
    Code.BUDGET_SPENT: 503,
    Code.MODEL_NOT_FOUND: 404,
    Code.BAD_REQUEST: 400,
    Code.BODY_TOO_LARGE: 413,
    Code.CLIENT_TOO_SLOW: 408,
    Code.LOOP_DETECTED: 508,
    Code.HEADERS_TOO_LARGE: 431,
    Code.INTERNAL_ERROR: 500,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
}

_CODE_OF_REASON: dict[Reason, Code] = {
    Reason.TWO_SENDS: Code.POOL_UNREACHABLE,
    Reason.NO_OTHER_POOL: Code.POOL_UNREACHABLE,
    Reason.BUDGET: Code.BUDGET_SPENT,
    Reason.DEADLINE: Code.DEADLINE,
    Reason.NO_POOL: Code.NO_POOL,
    Reason.OVERLOADED: Code.ROUTER_OVERLOADED,
    Reason.UNKNOWN_MODEL: Code.MODEL_NOT_FOUND,
}


def code_for(reason: Reason, outcome: Outcome | None) -> Code:
    """Name the answer for a refusal; `outcome` is the last send's, None when there was no send.

    What may be running is told apart by who ended it: a time-out of our own is a 504, a lost connection a 503. A second
    send of unknown delivery counts here too, whatever the reason says.
    """
    if outcome is not None and outcome.delivery is Delivery.UNKNOWN:
        return Code.POOL_TIMEOUT if outcome.cause in OWN_TIMEOUTS else Code.MAYBE_RUNNING
    return _CODE_OF_REASON[reason]


def retry_after(wait_s: float) -> int:
    """Return what Retry-After says of a wait: whole seconds, rounded up, never 0, which an SDK takes for nothing."""
    return max(1, math.ceil(wait_s))
