"""What the router answers on its two listeners, by method and path."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from router.answers import error, json_answer
from router.core.refusal import Code
from router.headers import REQUEST_ID, plain

OnRefused = Callable[[Code, str], None]
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Routes = dict[tuple[str, str], Handler]
FAULT = web.RequestKey("fault", str)
"""Key of a request: what is wrong with its head, if anything is."""
PATH_SHOWN_MAX = 200
"""So much of a path that is not served is quoted in the answer."""


class Front:
    """One listener's table of handlers, and the requests that are in them.

    `on_refused` is told of what is refused before it gets to a handler.
    """

    def __init__(self, routes: Routes, on_refused: OnRefused) -> None:
        self.on_refused = on_refused
        self._routes: Routes = {}
        self._methods: dict[str, list[str]] = {}
        for (method, path), handler in routes.items():
            self.add(method, path, handler)
        self.busy: set[web.RequestHandler] = set()
        """Connections with a request under way."""
        self.draining = False
        """True once the router is to end: every connection is closed after its answer."""

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Add one row to the table."""
        self._routes[method, path] = handler
        self._methods.setdefault(path, []).append(method)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        fault = request.get(FAULT)
        if fault is not None:
            return self._malformed(fault)
        handler = self._routes.get((request.method, request.rel_url.raw_path), self._not_found)
        self.busy.add(request.protocol)
        try:
            answer = await handler(request)
        finally:
            self.busy.discard(request.protocol)
        if self.draining:
            answer.force_close()
        return answer

    def _malformed(self, fault: str) -> web.StreamResponse:
        self.on_refused(Code.BAD_REQUEST, fault)
        answer = error(Code.BAD_REQUEST, fault)
        answer.force_close()
        return answer

    async def _not_found(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path.encode(errors="backslashreplace").decode()  # bytes that are not UTF-8
        asked = f"{request.method} {path[:PATH_SHOWN_MAX]} is not served here"
        request_id = plain(request.headers, REQUEST_ID)
        methods = self._methods.get(request.rel_url.raw_path)
        if methods is None:
            self.on_refused(Code.NOT_FOUND, "No such path is served here.")
            return error(Code.NOT_FOUND, f"{asked}: known are {', '.join(self._methods)}.", request_id=request_id)
        self.on_refused(Code.METHOD_NOT_ALLOWED, f"{request.rel_url.raw_path} does not take this method.")
        answer = error(Code.METHOD_NOT_ALLOWED, f"{asked}: it takes {' and '.join(methods)}.", request_id=request_id)
        answer.headers["Allow"] = ", ".join(methods)
        return answer


async def health(_: web.BaseRequest) -> web.StreamResponse:
    """Tell that the process lives."""
    return json_answer({"status": "ok"})
