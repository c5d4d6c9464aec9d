"""A local HTTP server that does what a script says, one step a request, and notes what it was asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from scenarios.spec import Service
from scenarios.world.answers import error_body, plain_answer, stream_events

SERVICE = Service(tokens=3)
MODEL = "drill-model"

Act = Literal["answer", "drop", "cut", "silence"]


@dataclass(frozen=True)
class Step:
    """What happens to one request.

    answer: `status` with `headers`, whole. drop: the body is read and the connection closed. cut: status 200, then the
    connection ends in the middle of the body. silence: nothing comes until the test is over.
    """

    act: Act = "answer"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedServer(ThreadingHTTPServer):
    """Serves a script on 127.0.0.1; `asked` holds the headers of each request in order."""

    daemon_threads = True

    def __init__(self, script: list[Step]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = iter(script)
        self.asked: list[Message] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_POST(self) -> None:
        streamed = b'"stream":true' in self.rfile.read(int(self.headers["content-length"])).replace(b" ", b"")
        self.server.asked.append(self.headers)
        # A request beyond the script's end is answered, so that it shows in `asked` and nowhere else.
        step = next(self.server.script, Step())
        self.close_connection = step.act != "answer"
        if step.act == "silence":
            self.server.over.wait(10.0)
        elif step.act != "drop":
            self._answer(step, streamed=streamed)

    def _answer(self, step: Step, *, streamed: bool) -> None:
        good = step.status < 400
        body = self._good(streamed=streamed) if good else error_body("scripted", "as the script says")
        self.send_response(step.status)
        self.send_header("content-type", "text/event-stream" if good and streamed else "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in step.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if step.act == "cut" else body)

    def _good(self, *, streamed: bool) -> bytes:
        if streamed:
            return b"".join(stream_events("request", MODEL, SERVICE))
        return plain_answer("request", MODEL, SERVICE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: the test looks at `asked`."""


@contextmanager
def serving(script: list[Step]) -> Iterator[ScriptedServer]:
    """Serve a script while the context lasts."""
    with ScriptedServer(script) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
