"""The pools' side of the router: connections to frontends, one send on them, and what becomes of it."""

from router.upstream.attempt import Attempt
from router.upstream.faults import UpstreamError
from router.upstream.upstream import Upstream

__all__ = ("Attempt", "Upstream", "UpstreamError")
