"""What is for operators only: metrics, on a listener of the loopback interface."""

from aiohttp import web

from router.core.policy import Policy
from router.front import Front, OnRefused, health
from router.metrics import FirstByteTimes, Metrics

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


def admin_front(policy: Policy, first_byte: FirstByteTimes, prefix: str, on_refused: OnRefused) -> Front:
    """Return the table of the admin listener."""
    metrics = Metrics(policy, first_byte, prefix)

    async def page(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=metrics.text(), headers={"Content-Type": TEXT_FORMAT, "Server": "pooldrill"})

    return Front({("GET", "/metrics"): page, ("GET", "/healthz"): health}, on_refused)
