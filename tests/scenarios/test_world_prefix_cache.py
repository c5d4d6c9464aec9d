"""What a frontend remembers of its sessions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.world.prefix_cache import PrefixCache


def test_a_session_finds_what_it_left() -> None:
    cache = PrefixCache(2)
    assert cache.cached("a", 100) == 0
    cache.keep("a", 120)
    assert cache.cached("a", 100) == 100  # a prompt is never more than cached
    assert cache.cached("a", 300) == 120
    cache.keep("a", 50)  # a shorter prompt of the same session takes nothing away
    assert cache.cached("a", 300) == 120
    assert (cache.hits, cache.misses) == (3, 1)


def test_who_has_no_session_leaves_nothing() -> None:
    cache = PrefixCache(2)
    cache.keep(None, 100)
    assert (cache.cached(None, 100), len(cache), cache.misses) == (0, 0, 0)


def test_a_cache_of_no_sessions_keeps_none() -> None:
    cache = PrefixCache(0)
    cache.keep("a", 100)
    assert (cache.cached("a", 100), len(cache)) == (0, 0)


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef")), max_size=60))
def test_the_longest_unused_goes_first(sessions_max: int, acts: list[tuple[bool, str]]) -> None:
    cache = PrefixCache(sessions_max)
    used: list[str] = []  # least recently used first
    for keeps, session in acts:
        if keeps:
            cache.keep(session, 10)
        elif session not in used:
            assert cache.cached(session, 10) == 0
            continue
        else:
            assert cache.cached(session, 10) == 10
        used = [*(other for other in used if other != session), session][-sessions_max:]
        assert len(cache) == len(used)


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="a cache of -1 sessions"):
        PrefixCache(-1)
