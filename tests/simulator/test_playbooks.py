"""Every fault, and every way out of a request, as a whole log: what happened, line by line, and nothing else."""

from pathlib import Path
from textwrap import dedent

from scenarios.spec import Router
from tests.simulator.drills import drill, fault, load, story


def test_a_quiet_run(tmp_path: Path) -> None:
    run = drill(load=load())
    assert story(run, tmp_path) == dedent("""\
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1751.5 a-0 finished op-0-0-r0 4 tokens
        1752.0 op-0-0-r0 send 1 answered 200
        1752.5 op-0-0-r0 got 200 (answered by a after 1)
        1752.5 op-0-0 ok""")


def test_a_stream(tmp_path: Path) -> None:
    run = drill(load=load(stream=True))
    assert story(run, tmp_path) == dedent("""\
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1751.5 a-0 finished op-0-0-r0 4 tokens
        1752.0 op-0-0-r0 send 1 answered 200
        1752.5 op-0-0-r0 got 200, 5 events (answered by a after 1)
        1752.5 op-0-0 ok""")


def test_refused_goes_to_the_other_pool(tmp_path: Path) -> None:
    """Nothing was handed over, so the other pool gets it; a connect and its refusal take half a millisecond."""
    run = drill(fault("refused"), load=load())
    assert story(run, tmp_path) == dedent("""\
        1000.0 a refused comes
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.0 op-0-0-r0 send 1 unsent refused
        1501.0 op-0-0-r0 send 2 to b-0
        1502.0 b-0 head op-0-0-r0
        1502.0 b-0 body_complete op-0-0-r0
        1502.0 b-0 started op-0-0-r0
        1752.0 b-0 finished op-0-0-r0 4 tokens
        1752.5 op-0-0-r0 send 2 answered 200
        1753.0 op-0-0-r0 got 200 (answered by b after 2)
        1753.0 op-0-0 ok
        3000.0 a refused goes: connects refused: 1, sends in flight cut: 0""")


def test_refused_cuts_what_is_in_flight(tmp_path: Path) -> None:
    """Before its head a request may be running: 503. A stream that has begun breaks off, with what was sent before."""
    run = drill(
        fault("refused", at=(1.7, 3.0)), load=(load(start_s=1.55, stream=True), load(start_s=1.6), load(start_s=1.65))
    )
    assert story(run, tmp_path) == dedent("""\
        1550.0 op-0-0-r0 asks
        1550.5 op-0-0-r0 send 1 to a-0
        1551.5 a-0 head op-0-0-r0
        1551.5 a-0 body_complete op-0-0-r0
        1551.5 a-0 started op-0-0-r0
        1600.0 op-1-0-r0 asks
        1600.5 op-1-0-r0 send 1 to b-0
        1601.5 b-0 head op-1-0-r0
        1601.5 b-0 body_complete op-1-0-r0
        1601.5 b-0 started op-1-0-r0
        1650.0 op-2-0-r0 asks
        1650.5 op-2-0-r0 send 1 to a-0
        1651.5 a-0 head op-2-0-r0
        1651.5 a-0 body_complete op-2-0-r0
        1651.5 a-0 started op-2-0-r0
        1700.0 a refused comes
        1700.5 op-0-0-r0 send 1 answered 200 lost
        1700.5 op-2-0-r0 send 1 unknown lost
        1700.5 a-0 cancelled op-0-0-r0 1 tokens
        1700.5 a-0 cancelled op-2-0-r0 0 tokens
        1701.0 op-0-0-r0 got break, 1 events (answered by a after 1)
        1701.0 op-2-0-r0 got 503 maybe_running (unknown by a after 1)
        1701.0 op-0-0 failed ClientPayloadError
        1701.0 op-2-0 failed
        1851.5 b-0 finished op-1-0-r0 4 tokens
        1852.0 op-1-0-r0 send 1 answered 200
        1852.5 op-1-0-r0 got 200 (answered by b after 1)
        1852.5 op-1-0 ok
        3000.0 a refused goes: connects refused: 0, sends in flight cut: 2""")


def test_black_hole_costs_one_connect_timeout(tmp_path: Path) -> None:
    run = drill(fault("black_hole"), load=load())
    assert story(run, tmp_path) == dedent("""\
        1000.0 a black_hole comes
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        2000.5 op-0-0-r0 send 1 unsent connect_timeout
        2000.5 op-0-0-r0 send 2 to b-0
        2001.5 b-0 head op-0-0-r0
        2001.5 b-0 body_complete op-0-0-r0
        2001.5 b-0 started op-0-0-r0
        2251.5 b-0 finished op-0-0-r0 4 tokens
        2252.0 op-0-0-r0 send 2 answered 200
        2252.5 op-0-0-r0 got 200 (answered by b after 2)
        2252.5 op-0-0 ok
        3000.0 a black_hole goes: connects hung: 1, sends in flight cut: 0""")


def test_black_hole_that_goes_lets_the_kernels_next_try_in(tmp_path: Path) -> None:
    """The connect was begun at 1.5005 s; the kernel makes it again 1 and 2 s after that, and the hole goes at 2.7 s."""
    run = drill(fault("black_hole", at=(1.0, 2.7)), load=load(), router=Router(connect_timeout_s=3.0))
    assert story(run, tmp_path) == dedent("""\
        1000.0 a black_hole comes
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        2700.0 a black_hole goes: connects hung: 1, sends in flight cut: 0
        3501.5 a-0 head op-0-0-r0
        3501.5 a-0 body_complete op-0-0-r0
        3501.5 a-0 started op-0-0-r0
        3751.5 a-0 finished op-0-0-r0 4 tokens
        3752.0 op-0-0-r0 send 1 answered 200
        3752.5 op-0-0-r0 got 200 (answered by a after 1)
        3752.5 op-0-0 ok""")


def test_read_drop_is_never_sent_again(tmp_path: Path) -> None:
    """Not by the router, and not by the SDK, which was told so."""
    run = drill(fault("read_drop"), load=load(client="openai", max_retries=2))
    assert story(run, tmp_path) == dedent("""\
        1000.0 a read_drop comes
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1502.0 op-0-0-r0 send 1 unknown lost
        1502.5 op-0-0-r0 got 503 maybe_running (unknown by a after 1)
        1502.5 op-0-0 failed InternalServerError
        3000.0 a read_drop goes: bodies read and dropped: 1""")


def test_cut_gives_every_event_and_then_a_break(tmp_path: Path) -> None:
    """The SDK has handed its stream to the caller, so it does not send again."""
    run = drill(fault("cut", after_events=2), load=load(client="openai", stream=True))
    assert story(run, tmp_path) == dedent("""\
        1000.0 a cut comes
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1652.0 op-0-0-r0 send 1 answered 200 lost
        1652.0 a-0 cancelled op-0-0-r0 2 tokens
        1652.5 op-0-0-r0 got break, 2 events (answered by a after 1)
        1652.5 op-0-0 failed APIConnectionError
        3000.0 a cut goes: answers cut after 2 events: 1""")


def test_no_pool_left_and_the_sdk_comes_again(tmp_path: Path) -> None:
    """503 pool_unreachable may be sent again: nothing was handed over. Its sleep is .5 s times a draw from .75 to 1."""
    run = drill(fault("black_hole"), fault("refused", "b"), load=load(client="openai", max_retries=1))
    assert story(run, tmp_path) == dedent("""\
        1000.0 a black_hole comes
        1000.0 b refused comes
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        2000.5 op-0-0-r0 send 1 unsent connect_timeout
        2000.5 op-0-0-r0 send 2 to b-0
        2001.0 op-0-0-r0 send 2 unsent refused
        2001.5 op-0-0-r0 got 503 pool_unreachable (unsent by b after 2)
        2475.6 op-0-0-r1 asks
        2476.1 op-0-0-r1 send 1 to b-0
        2476.6 op-0-0-r1 send 1 unsent refused
        2476.6 op-0-0-r1 send 2 to a-0
        2976.6 op-0-0-r1 send 2 unsent connect_timeout
        2977.1 op-0-0-r1 got 503 pool_unreachable (unsent by a after 2)
        2977.1 op-0-0 failed InternalServerError
        3000.0 a black_hole goes: connects hung: 2, sends in flight cut: 0
        3000.0 b refused goes: connects refused: 2, sends in flight cut: 0""")


def test_a_pool_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    """A gap longer than the idle time-out breaks the stream; the pool's work is cancelled."""
    run = drill(load=load(stream=True), router=Router(idle_timeout_s=0.04))
    assert story(run, tmp_path) == dedent("""\
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1642.0 op-0-0-r0 send 1 answered 200 idle
        1642.5 op-0-0-r0 got break, 1 events (answered by a after 1)
        1642.5 a-0 cancelled op-0-0-r0 1 tokens
        1642.5 op-0-0 failed ClientPayloadError""")


def test_the_deadline_ends_the_wait_for_the_first_byte(tmp_path: Path) -> None:
    run = drill(load=load(), router=Router(deadline_s=0.2))
    assert story(run, tmp_path) == dedent("""\
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1700.5 op-0-0-r0 send 1 unknown deadline
        1701.0 op-0-0-r0 got 504 pool_timeout (unknown by a after 1)
        1701.0 a-0 cancelled op-0-0-r0 0 tokens
        1701.0 op-0-0 failed""")


def test_a_client_that_gives_up_is_followed_by_all(tmp_path: Path) -> None:
    """The raw client bounds the whole request; router and pool learn of it one hop later each."""
    run = drill(load=load(timeout_s=0.2, stream=True))
    assert story(run, tmp_path) == dedent("""\
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1700.0 op-0-0-r0 got timeout, 2 events (answered by a after 1)
        1700.0 op-0-0 failed TimeoutError
        1700.5 op-0-0-r0 send 1 answered 200 client_left
        1701.0 a-0 cancelled op-0-0-r0 2 tokens""")


def test_the_sdk_is_answered_before_it_gives_up_and_told_not_to_come_again(tmp_path: Path) -> None:
    """Else it would send again what a pool is running."""
    run = drill(load=load(timeout_s=0.2, client="openai", max_retries=1))
    assert story(run, tmp_path) == dedent("""\
        1500.0 op-0-0-r0 asks
        1500.5 op-0-0-r0 send 1 to a-0
        1501.5 a-0 head op-0-0-r0
        1501.5 a-0 body_complete op-0-0-r0
        1501.5 a-0 started op-0-0-r0
        1690.5 op-0-0-r0 send 1 unknown deadline
        1691.0 op-0-0-r0 got 504 pool_timeout (unknown by a after 1)
        1691.0 a-0 cancelled op-0-0-r0 0 tokens
        1691.0 op-0-0 failed InternalServerError""")
