"""What is for operators only: metrics, on a listener of the loopback interface."""

from aiohttp import web

from router.core.policy import Policy
from router.front import Front, OnRefused, health
from router.metrics import FirstByteTimes, Metrics
from router.worker import Worker

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


def admin_front(
    policy: Policy, first_byte: FirstByteTimes, prefix: str, on_refused: OnRefused, worker: Worker | None = None
) -> Front:
    """Return the table of the admin listener; that of one of several workers tells of this worker alone."""
    metrics = Metrics(policy, first_byte, prefix, worker)

    async def page(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=metrics.text(), headers={"Content-Type": TEXT_FORMAT, "Server": "pooldrill"})

    return Front({("GET", "/metrics"): page, ("GET", "/healthz"): health}, on_refused)
