"""Composition root of the router process: what is made of the settings, and in which order it starts and ends."""

import asyncio
import gc
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from router.answers import json_answer
from router.buffered import BufferedBytes
from router.chat import Chat
from router.clock import LoopClock, zoned
from router.connection import Bounds
from router.core.policy import Policy, build_policy
from router.core.refusal import Code
from router.core.topology import Catalog
from router.credentials import Credentials
from router.dialing import Dialer
from router.ending import Ending
from router.front import Front, OnRefused, Routes, health
from router.intake import Intake
from router.journal import Journal
from router.listener import CannotStart, Listener
from router.log import EventLog, LibraryEvents
from router.models import Models
from router.send_log import NoSendLog, SendLog, SendLogFile
from router.settings import Settings
from router.tls import TlsTable
from router.trials import trying
from router.upstream import Upstream
from router.worker import Worker, own_name

FORWARDED = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
LOOPBACK = "127.0.0.1"


class App:
    """A router that listens. Made by `running`."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        buffered: BufferedBytes,
        *,
        public: Listener,
        admin: Listener | None,
    ) -> None:
        self.settings = settings
        self.policy = policy
        self.buffered = buffered
        self.public = public
        self.admin = admin

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take nothing new and let what is under way end, within the drain time-out or until `hurry` is set."""
        shell = self.settings.shell
        await self.public.drain(shell.drain_timeout_s, hurry, delay_s=shell.drain_delay_s)


@asynccontextmanager
async def running(
    settings: Settings, events: EventLog | None = None, worker: Worker | None = None
) -> AsyncIterator[App]:
    """Run a router in this event loop: inside the context it listens, afterwards nothing of it is left.

    A `worker` shares its port with others. Raises CannotStart.
    """
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    events = EventLog(clock) if events is None else events
    policy = build_policy(settings.rules, clock, _random_source(settings.shell.seed), Catalog(settings.pools))
    async with AsyncExitStack() as last_to_first:
        sends = _send_log(settings, loop, events)
        last_to_first.callback(sends.close)
        upstream = Upstream(
            clock,
            settings.rules,
            reuse_idle_s=settings.shell.reuse_idle_s,
            dialer=Dialer(_tls(settings, events)),
            credentials=Credentials(settings.secrets),
        )
        last_to_first.push_async_callback(upstream.close)
        journal = Journal(events, sends)
        admin, on_first_byte = _admin(settings, policy, journal, worker)
        policy.usable.on_standing = journal.standing
        policy.alarms.on_event = journal.alarm
        await last_to_first.enter_async_context(trying(policy, upstream))
        intake = Intake(settings.shell, workers=settings.workers)
        via = own_name() if worker is None else worker.name
        chat = Chat(
            policy,
            upstream,
            journal,
            clock=clock,
            intake=intake,
            via=via,
            worker=None if worker is None else worker.index,
            on_first_byte=on_first_byte,
        )
        models = Models(policy, upstream, settings.shell.models_timeout_s, via=via)

        def refused(code: Code, reason: str) -> None:
            policy.tally.request_ended(code, 0)
            journal.unread(code, reason)

        public = Listener(
            _public_front(chat, models, refused),
            _bounds(settings),
            host=settings.host,
            port=settings.port,
            option="--port",
            shared=worker is not None,
        )
        for listener in (admin, public):
            if listener is not None:
                last_to_first.push_async_callback(listener.close)
                await listener.open()
        yield App(settings, policy, intake.buffered, public=public, admin=admin)


async def run(settings: Settings, worker: Worker | None = None) -> None:
    """Run a router until SIGTERM or SIGINT; a second signal does not wait for running streams.

    Says `ready` with its addresses in one JSON line: on stdout, or to its supervisor if it is a worker. Raises
    CannotStart.
    """
    events = EventLog(LoopClock(asyncio.get_running_loop()), worker=None if worker is None else worker.index)
    logging.basicConfig(level=logging.WARNING, handlers=[LibraryEvents(events)])
    ending = Ending()
    if worker is None:
        ending.by_user()
    else:
        ending.by_supervisor(worker.lifeline, lambda: events.write("supervisor_gone"))
    async with running(settings, events, worker) as app:
        gc.freeze()  # what was imported lives as long as the process; collections need not look at it
        if worker is None:
            _say_ready(app)
        else:
            worker.say_ready({"worker": worker.index, **_whereabouts(app)})
        await ending.stop.wait()
        events.write("draining")
        await app.drain(ending.hurry)
    events.write("stopped")


def _public_front(chat: Chat, models: Models, on_refused: OnRefused) -> Front:
    routes: Routes = {("POST", path): chat.handle for path in FORWARDED}
    front = Front(routes, on_refused)

    async def ready(_: web.BaseRequest) -> web.StreamResponse:
        if front.draining:
            return json_answer({"status": "draining"}, status=503)
        return json_answer({"status": "ready"})

    front.add("GET", "/v1/models", models.handle)
    front.add("GET", "/healthz", health)
    front.add("GET", "/readyz", ready)
    return front


def _bounds(settings: Settings) -> Bounds:
    shell = settings.shell
    return Bounds(
        head_timeout_s=shell.head_timeout_s,
        keep_alive_s=shell.keep_alive_timeout_s,
        connections_max=shell.connections_max,
    )


def _admin(
    settings: Settings, policy: Policy, journal: Journal, worker: Worker | None
) -> tuple[Listener | None, Callable[[float], None]]:
    """Return the admin listener and what counts first-byte times; neither does anything without an admin port."""
    if settings.admin_port is None:
        return None, _not_counted
    # Only now: importing prometheus-client takes a tenth of a second, and only its users should wait for it.
    from router.admin import admin_front  # noqa: PLC0415
    from router.metrics import FirstByteTimes  # noqa: PLC0415

    times = FirstByteTimes()
    front = admin_front(policy, times, settings.shell.metrics_prefix, journal.unread, worker)
    listener = Listener(front, _bounds(settings), host=LOOPBACK, port=settings.admin_port, option="--admin-port")
    return listener, times.observe


def _tls(settings: Settings, events: EventLog) -> TlsTable:
    """Return how pools are spoken to; the log tells of those that anybody could stand in for."""
    table = TlsTable(settings.tls)
    if table.unverified():
        events.write("certificates_not_verified", level="WARNING", pools=table.unverified())
    return table


def _random_source(seed: int) -> random.Random:
    return random.Random() if seed < 0 else random.Random(seed)  # noqa: S311  (spreading load, no secret)


def _not_counted(_: float) -> None:
    """Stand in where nobody can see the metric."""


def _send_log(settings: Settings, loop: asyncio.AbstractEventLoop, events: EventLog) -> SendLog:
    if settings.send_log is None:
        return NoSendLog()

    def broken(error: OSError) -> None:
        events.write("send_log_broken", level="ERROR", error=str(error))

    try:
        return SendLogFile(settings.send_log, loop, broken)
    except OSError as error:
        raise CannotStart(f"cannot write {settings.send_log}: {error.strerror}; remedy: another --send-log") from None


def _say_ready(app: App) -> None:
    stamp = zoned(LoopClock(asyncio.get_running_loop()).wall())
    line = {"stamp": stamp, "event": "ready", **_whereabouts(app)}
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def _whereabouts(app: App) -> dict[str, Any]:
    return {"url": app.public.url, "admin_url": None if app.admin is None else app.admin.url, "pid": os.getpid()}
