"""Composition root of the router process: what is made of the settings, and in which order it starts and ends."""

import asyncio
import gc
import logging
import os
import random
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from router.answers import json_answer
from router.chat import Chat
from router.clock import LoopClock, zoned
from router.core.policy import Policy, build_policy
from router.core.topology import Catalog
from router.front import Front, Routes, health
from router.journal import Journal
from router.listener import CannotStart, Listener
from router.log import EventLog, LibraryEvents
from router.models import Models
from router.send_log import NoSendLog, SendLog, SendLogFile
from router.settings import Settings
from router.trials import trying
from router.upstream import Upstream
from router.upstream.dialling import machines_own

FORWARDED = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
LOOPBACK = "127.0.0.1"


class App:
    """A router that listens. Made by `running`."""

    def __init__(self, settings: Settings, policy: Policy, public: Listener, admin: Listener | None) -> None:
        self.settings = settings
        self.policy = policy
        self.public = public
        self.admin = admin

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take nothing new and let what is under way end, within the drain time-out or until `hurry` is set."""
        await self.public.drain(self.settings.shell.drain_timeout_s, hurry)


@asynccontextmanager
async def running(settings: Settings, events: EventLog | None = None) -> AsyncIterator[App]:
    """Run a router in this event loop: inside the context it listens, afterwards nothing of it is left.

    Raises CannotStart.
    """
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    events = EventLog(clock) if events is None else events
    policy = build_policy(settings.rules, clock, _random_source(settings.shell.seed), Catalog(settings.pools))
    async with AsyncExitStack() as last_to_first:
        sends = _send_log(settings, loop)
        last_to_first.callback(sends.close)
        upstream = Upstream(clock, settings.rules, reuse_idle_s=settings.shell.reuse_idle_s, tls_of=machines_own)
        last_to_first.push_async_callback(upstream.close)
        admin, on_first_byte = _admin(settings, policy)
        journal = Journal(events, sends)
        policy.usable.on_standing = journal.standing
        await last_to_first.enter_async_context(trying(policy, upstream))
        chat = Chat(
            policy,
            upstream,
            journal,
            clock=clock,
            body_bytes_max=settings.shell.body_bytes_max,
            via=f"pooldrill-{secrets.token_hex(4)}",
            on_first_byte=on_first_byte,
        )
        models = Models(policy, upstream, settings.shell.models_timeout_s)
        public = Listener(_public_front(chat, models), host=settings.host, port=settings.port, option="--port")
        for listener in (admin, public):
            if listener is not None:
                last_to_first.push_async_callback(listener.close)
                await listener.open()
        yield App(settings, policy, public, admin)


async def run(settings: Settings) -> None:
    """Run a router until SIGTERM or SIGINT; a second signal does not wait for running streams.

    Says `ready` with its addresses in one JSON line on stdout. Raises CannotStart.
    """
    loop = asyncio.get_running_loop()
    events = EventLog(LoopClock(loop))
    logging.basicConfig(level=logging.WARNING, handlers=[LibraryEvents(events)])
    stop, hurry = asyncio.Event(), asyncio.Event()

    def signalled() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    async with running(settings, events) as app:
        gc.freeze()  # what was imported lives as long as the process; collections need not look at it
        _say_ready(app)
        await stop.wait()
        events.write("draining")
        await app.drain(hurry)
    events.write("stopped")


def _public_front(chat: Chat, models: Models) -> Front:
    routes: Routes = {("POST", path): chat.handle for path in FORWARDED}
    front = Front(routes)

    async def ready(_: web.BaseRequest) -> web.StreamResponse:
        if front.draining:
            return json_answer({"status": "draining"}, status=503)
        return json_answer({"status": "ready"})

    front.add("GET", "/v1/models", models.handle)
    front.add("GET", "/healthz", health)
    front.add("GET", "/readyz", ready)
    return front


def _admin(settings: Settings, policy: Policy) -> tuple[Listener | None, Callable[[float], None]]:
    """Return the admin listener and what counts first-byte times; neither does anything without an admin port."""
    if settings.admin_port is None:
        return None, _not_counted
    # Only now: importing prometheus-client takes a tenth of a second, and only its users should wait for it.
    from router.admin import admin_front  # noqa: PLC0415
    from router.metrics import FirstByteTimes  # noqa: PLC0415

    times = FirstByteTimes()
    front = admin_front(policy, times, settings.shell.metrics_prefix)
    return Listener(front, host=LOOPBACK, port=settings.admin_port, option="--admin-port"), times.observe


def _random_source(seed: int) -> random.Random:
    return random.Random() if seed < 0 else random.Random(seed)  # noqa: S311  (spreading load, no secret)


def _not_counted(_: float) -> None:
    """Stand in where nobody can see the metric."""


def _send_log(settings: Settings, loop: asyncio.AbstractEventLoop) -> SendLog:
    if settings.send_log is None:
        return NoSendLog()
    try:
        return SendLogFile(settings.send_log, loop)
    except OSError as error:
        raise CannotStart(f"cannot write {settings.send_log}: {error.strerror}; remedy: another --send-log") from None


def _say_ready(app: App) -> None:
    line: dict[str, Any] = {
        "stamp": zoned(LoopClock(asyncio.get_running_loop()).wall()),
        "event": "ready",
        "url": app.public.url,
        "admin_url": None if app.admin is None else app.admin.url,
        "pid": os.getpid(),
    }
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()
