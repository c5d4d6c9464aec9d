"""Operations and faults happen at their times and in their order, whatever becomes of the ones before."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Literal

import aiohttp
import pytest

from chaos.faults.cut import Cut
from chaos.faults.fault import Proof, Target
from chaos.faults.read_drop import ReadDrop
from chaos.faults.refused import Refused
from chaos.frontend.remote import ControlError, Remote
from chaos.frontend.wire import wire_bytes
from chaos.ports import PortReservations, is_free
from chaos.probe_book import ProbeBook
from chaos.timeline import Course, FaultError, arrive, fault_of, play, sleep_until
from chaos.toxiproxy import Toxiproxy
from scenarios import spec
from scenarios.plan import Planned
from tests.chaos.live_frontend import LiveFrontend, eventually

Kind = Literal["refused", "black_hole", "read_drop", "cut"]
KINDS: tuple[Kind, ...] = ("refused", "black_hole", "read_drop", "cut")
LATE_S = 0.15
"""How late a busy machine may make anything here."""


class Diary:
    """A fault that only writes down what is done with it, for the order of things."""

    def __init__(self, name: str, entries: list[str], *, takes_s: float = 0.0, error: OSError | None = None) -> None:
        self._name = name
        self._entries = entries
        self._takes_s = takes_s
        self._error = error

    async def inject(self, target: Target) -> Proof:
        return await self._edge("on", target)

    async def clear(self, target: Target) -> Proof:
        return await self._edge("off", target)

    async def _edge(self, edge: str, target: Target) -> Proof:
        begin_s = asyncio.get_running_loop().time()
        self._entries.append(f"{self._name} {edge}")
        await asyncio.sleep(self._takes_s)
        if self._error is not None and edge == "on":
            raise self._error
        return Proof(True, f"{target.name} {edge}", begin_s, asyncio.get_running_loop().time())


def planned(inject_s: float, clear_s: float, *, pool: str = "a", kind: Kind = "refused") -> spec.Fault:
    after = 2 if kind == "cut" else None
    return spec.Fault(kind=kind, pool=pool, inject_s=inject_s, clear_s=clear_s, after_events=after)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
def book() -> ProbeBook:
    return ProbeBook()


@pytest.fixture
async def target(
    frontend: LiveFrontend, toxiproxy: Toxiproxy, ports: PortReservations, book: ProbeBook
) -> AsyncIterator[Target]:
    proxy = await toxiproxy.create("a-0", listen_port=ports.take(), upstream_port=frontend.port)
    async with aiohttp.ClientSession() as session:
        remote = Remote("a-0", frontend.control_port, session)
        yield Target("a/a-0", proxy, remote, lambda: book.issue("a/a-0"))


class TestArrivals:
    async def test_each_begins_on_time_however_long_the_others_take(self) -> None:
        begun: list[tuple[int, float]] = []

        async def operate(operation: Planned, t_intended: float) -> None:
            assert t_intended == start_s + operation.t_s
            begun.append((operation.turn, now()))
            await asyncio.sleep(0.5)

        start_s = now() + 0.05
        await arrive([Planned(0, turn, turn * 0.05) for turn in range(5)], start_s, operate)
        assert [turn for turn, _ in begun] == [0, 1, 2, 3, 4]
        assert all(0 <= at_s - start_s - turn * 0.05 < LATE_S for turn, at_s in begun)
        assert now() - start_s >= 0.2 + 0.5, "it waits for the last one's end"

    async def test_a_defect_ends_it(self) -> None:
        async def operate(operation: Planned, _: float) -> None:
            if operation.turn == 1:
                raise ZeroDivisionError
            await asyncio.sleep(5)

        start_s = now()
        with pytest.raises(ExceptionGroup) as caught:
            await arrive([Planned(0, turn, turn * 0.01) for turn in range(1000)], start_s, operate)
        assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
        assert now() - start_s < 2

    async def test_a_time_that_has_passed_is_not_waited_for(self) -> None:
        before_s = now()
        await sleep_until(before_s - 1)
        assert now() - before_s < LATE_S


class TestOrder:
    def course(
        self, name: str, entries: list[str], target: Target, fault: spec.Fault, *, takes_s: float = 0.0
    ) -> Course:
        return Course(fault, [(Diary(name, entries, takes_s=takes_s), target)], lambda _name, _outcome: None)

    async def test_faults_of_one_pool_follow_each_other(self, target: Target) -> None:
        entries: list[str] = []
        courses = [
            self.course("second", entries, target, planned(0.2, 0.3)),
            self.course("first", entries, target, planned(0.05, 0.2), takes_s=0.1),
        ]
        start_s = now()
        await play(courses, start_s)
        assert entries == ["first on", "first off", "second on", "second off"]
        second = courses[0].row()
        assert second.t_inject is not None
        assert second.t_inject >= start_s + 0.3, "not before the first one's end was proved"

    async def test_faults_of_different_pools_do_not_wait_for_each_other(self, target: Target) -> None:
        entries: list[str] = []
        slow = self.course("slow", entries, target, planned(0.05, 0.3), takes_s=0.2)
        other = self.course("other", entries, target, planned(0.1, 0.15, pool="b"))
        await play([slow, other], now())
        assert entries == ["slow on", "other on", "other off", "slow off"]

    async def test_times_are_those_at_which_it_was_on_everywhere(self, target: Target) -> None:
        parts = [(Diary("quick", []), target), (Diary("slow", [], takes_s=0.1), target)]
        course = Course(planned(0.05, 0.3), parts, lambda _name, _outcome: None)
        start_s = now()
        await play([course], start_s)
        row = course.row()
        assert row.t_inject is not None
        assert row.t_clear is not None
        assert 0.15 <= row.t_inject - start_s < 0.15 + LATE_S
        assert 0.3 <= row.t_clear - start_s < 0.3 + LATE_S
        assert (row.name, row.target, row.planned_inject, row.planned_clear) == ("refused", "a", 0.05, 0.3)
        assert (row.proved, row.proof) == (True, "a/a-0 a/a-0 on; a/a-0 a/a-0 on")

    async def test_a_fault_that_cannot_be_made_ends_the_run_and_is_cleared(self, target: Target) -> None:
        entries: list[str] = []
        fault = Diary("bad", entries, error=OSError(5, "no luck"))
        course = Course(planned(0.01, 5), [(fault, target)], lambda _name, _outcome: None)
        with pytest.raises(ExceptionGroup) as caught:
            await play([course], now())
        assert isinstance(caught.value.exceptions[0], FaultError)
        assert "inject refused at a/a-0: [Errno 5] no luck" in str(caught.value.exceptions[0])
        assert entries == ["bad on", "bad off"]
        assert not course.row().proved

    async def test_a_fault_that_never_came_is_not_proved(self, target: Target) -> None:
        row = Course(planned(1, 2), [(Diary("x", []), target)], lambda _name, _outcome: None).row()
        assert (row.t_inject, row.t_clear, row.proved, row.cleared) == (None, None, False, False)


class TestRealFaults:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_each_kind_is_made_proved_and_cleared(
        self, target: Target, kind: Kind, book: ProbeBook, frontend: LiveFrontend
    ) -> None:
        fault = planned(0.05, 0.6, kind=kind)
        course = Course(fault, [(fault_of(fault, spec.Pool(id="a")), target)], book.settle)
        await play([course], now())
        row = course.row()
        assert (row.proved, row.cleared) == (True, True), (row.proof, row.cleared_proof)
        assert row.proof.startswith("a/a-0 ")
        seen = {event.request_id for event in frontend.events()}
        assert seen == {probe.request_id for probe in book.rows()}, "pools saw no id that was not issued"
        assert all(probe.outcome for probe in book.rows())
        assert bool(seen) == (kind == "read_drop")

    async def test_a_run_that_is_given_up_leaves_no_hole(self, target: Target, book: ProbeBook) -> None:
        fault = planned(0.01, 60, kind="black_hole")
        course = Course(fault, [(fault_of(fault, spec.Pool(id="a")), target)], book.settle)
        playing = asyncio.create_task(play([course], now()))
        await eventually(lambda: course.row().proved)
        playing.cancel()
        await asyncio.wait([playing])
        assert playing.cancelled()
        assert target.proxy.state.enabled, "it listens where the hole was"
        await target.proxy.disable()
        assert is_free(target.proxy.listen_port)

    def test_a_cut_is_made_after_whole_events(self) -> None:
        fault = fault_of(planned(1, 2, kind="cut"), spec.Pool(id="a", model="some-model"))
        assert isinstance(fault, Cut)
        assert fault.after_bytes == wire_bytes(2, model="some-model")
        assert isinstance(fault_of(planned(1, 2), spec.Pool(id="a")), Refused)


class TestRemote:
    async def test_a_frontend_that_is_gone_makes_a_fault_that_cannot_be_made(
        self, target: Target, ports: PortReservations
    ) -> None:
        async with aiohttp.ClientSession() as session:
            gone = dataclasses.replace(target, control=Remote("a-0", ports.take(), session))
            course = Course(planned(0.0, 0.1, kind="read_drop"), [(ReadDrop(), gone)], lambda _name, _outcome: None)
            with pytest.raises(FaultError, match=r"^inject read_drop at a/a-0: frontend a-0: POST /mode: "):
                await course.inject()
            with pytest.raises(FaultError, match=r"^clear read_drop at a/a-0: frontend a-0: POST /mode: "):
                await course.clear()
            await course.give_up()

    async def test_a_frontend_that_is_gone_is_named(self, ports: PortReservations) -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(ControlError, match="frontend b-1: POST /mode: ") as caught:
                await Remote("b-1", ports.take(), session).set_mode("ok")
        assert caught.value.exit_code == 3

    async def test_state(self, frontend: LiveFrontend) -> None:
        async with aiohttp.ClientSession() as session:
            assert await Remote("a-0", frontend.control_port, session).in_flight() == 0


class TestProbeBook:
    async def test_ids_differ_and_outcomes_go_to_their_target(self) -> None:
        book = ProbeBook()
        ids = [book.issue("a/a-0"), book.issue("b/b-0"), book.issue("a/a-0")]
        assert len({each.request_id for each in ids}) == len({each.operation_id for each in ids}) == 3
        book.settle("a/a-0", "seen")
        book.issue("a/a-0")
        assert [(probe.target, probe.outcome) for probe in book.rows()] == [
            ("a/a-0", "seen"),
            ("b/b-0", ""),
            ("a/a-0", "seen"),
            ("a/a-0", ""),
        ]
