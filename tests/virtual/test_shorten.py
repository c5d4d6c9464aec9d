"""What is printed of a failing world is as small as it can be, and can be played again."""

from collections.abc import Sequence

from tests.virtual.draw import world_of
from tests.virtual.shorten import fewest, report


def test_what_is_needed_is_kept_and_nothing_else() -> None:
    def fails(numbers: Sequence[int]) -> bool:
        return {3, 17, 18} <= set(numbers)

    assert fewest(list(range(40)), fails) == [3, 17, 18]


def test_one_is_left_where_anything_will_do() -> None:
    assert len(fewest(list(range(40)), lambda _: True)) == 1


def test_it_gives_up_in_time() -> None:
    runs = 0

    def fails(numbers: Sequence[int]) -> bool:
        nonlocal runs
        runs += 1
        return len(numbers) > 30

    assert len(fewest(list(range(1_000)), fails, runs_max=10)) < 1_000
    assert runs == 10


def test_a_report_names_the_seed_the_events_and_the_command() -> None:
    world = world_of(5).keep([0, 2])
    told = report(5, world, [0, 2], ["never_twice: r1 was received whole 2 times"])
    assert told.splitlines()[:2] == ["the world of seed 5 breaks a law", "  never_twice: r1 was received whole 2 times"]
    assert all(repr(event) in told for event in world.events)
    assert "python -m tests.virtual.rerun 5 --keep 0,2" in told
