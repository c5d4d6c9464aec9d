"""What is written, and what never is."""

import asyncio
import contextlib
import errno
import io
import json
import logging
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from router.clock import LoopClock
from router.log import EventLog, LibraryEvents
from router.send_log import FLUSH_S, SendLogFile, SendRow
from scenarios.record import Send
from tests.router import raw_pool
from tests.router.live import live, until
from tests.router.raw_pool import RawPool, Refusing, cut, ok

ROW = SendRow(
    request_id="r", attempt=1, pool="a", frontend="a-0", t_start=1.0, t_end=2.0, slot_taken=False, delivery="unsent",
    cause="refused", blame="frontend",
)  # fmt: skip


def test_a_row_has_the_fields_of_a_records_row() -> None:
    assert SendRow.__struct_fields__ == Send.__struct_fields__
    assert SendRow.__struct_config__.tag == Send.__struct_config__.tag
    assert SendRow.__struct_config__.tag_field == Send.__struct_config__.tag_field
    assert SendRow.__struct_defaults__ == Send.__struct_defaults__


async def test_a_row_is_in_the_file_soon_and_all_are_after_close(tmp_path: Path) -> None:
    path = tmp_path / "sends.jsonl"
    told: list[OSError] = []
    log = SendLogFile(path, asyncio.get_running_loop(), told.append)
    log.write(ROW)
    await until(path.read_bytes, FLUSH_S + 5)
    log.write(ROW)
    log.close()
    assert (len(path.read_bytes().splitlines()), told) == (2, [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is Linux that has a disk that is always full")
@pytest.mark.parametrize("rows", [1, 1000], ids=["seen when it is flushed", "seen when it is written"])
async def test_a_full_disk_ends_the_send_log_and_nothing_else(rows: int) -> None:
    told: list[OSError] = []
    log = SendLogFile(Path("/dev/full"), asyncio.get_running_loop(), told.append)
    for _ in range(rows):
        log.write(ROW)
    log.close()
    assert [error.errno for error in told] == [errno.ENOSPC]


async def test_an_event_that_cannot_be_written_harms_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    events = EventLog(LoopClock(asyncio.get_running_loop()), os.fdopen(writing, "w"))
    for _ in range(100):
        events.write("said to nobody", text="x" * 1000)
    with contextlib.suppress(BrokenPipeError):
        events._out.close()


async def test_a_send_log_is_appended_to(tmp_path: Path) -> None:
    async with Refusing() as refusing:
        for runs in (1, 2):
            async with live(tmp_path, refusing.url) as router:
                await router.ask()
            assert len(router.rows()) == runs


async def test_requests_without_an_id_have_a_name_that_no_other_start_gives(tmp_path: Path) -> None:
    async with RawPool(ok) as pool:
        for _ in range(2):
            async with live(tmp_path, pool.url) as router:
                for _ in range(2):
                    assert "x-request-id" not in (await router.post(b'{"model": "m"}')).headers
        assert pool.header("x-request-id") == []
    names = [row.request_id for row in router.rows()]
    assert len(set(names)) == 4
    assert all(name.startswith("unnamed-pooldrill-") for name in names)


async def test_stamps_have_a_zone(tmp_path: Path) -> None:
    async with Refusing() as refusing, live(tmp_path, refusing.url) as router:
        await router.ask()
        (line,) = router.events
    assert datetime.fromisoformat(line["stamp"]).utcoffset() == timedelta(0)


@pytest.mark.parametrize("pool", [raw_pool.close, cut(stream=True, by_reset=False)], ids=["failed", "broken"])
async def test_nothing_of_bodies_or_credentials_is_logged(pool: raw_pool.Behaviour, tmp_path: Path) -> None:
    async with RawPool(pool) as server:
        async with live(tmp_path, server.url) as router:
            secret = {"Authorization": "Bearer s3cr3t", "x-request-id": "r-1", "x-pooldrill-operation-id": "op-1"}
            await router.post(b'{"model": "m", "messages": "confidential", "stream": true}', headers=secret)
        (line,) = router.events
        assert (line["request_id"], line["operation_id"]) == ("r-1", "op-1")
        written = json.dumps(line) + (tmp_path / "sends.jsonl").read_text()
        for word in ("s3cr3t", "confidential", "Bearer", "token 1"):
            assert word not in written


async def test_what_libraries_log_becomes_events() -> None:
    written = io.StringIO()
    logger = logging.getLogger("a.library")
    handler = LibraryEvents(EventLog(LoopClock(asyncio.get_running_loop()), written))
    logger.addHandler(handler)
    try:
        logger.error("it went %s", "wrong", exc_info=ValueError("inner"))
        logger.info("not worth a line")
    finally:
        logger.removeHandler(handler)
    line = json.loads(written.getvalue())
    assert (line["event"], line["level"], line["logger"], line["message"]) == (
        "library",
        "ERROR",
        "a.library",
        "it went wrong",
    )
    assert "ValueError: inner" in line["trace"]
