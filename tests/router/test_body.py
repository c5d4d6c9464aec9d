"""The slot of a body is taken once."""

import gc
import sys

import pytest

from router.body import BodySlot


def test_a_slot_is_full_until_it_is_taken() -> None:
    slot = BodySlot(b"body")
    assert slot.full
    assert repr(slot) == "<BodySlot full, 4 bytes>"
    assert slot.take() == b"body"
    assert not slot.full
    assert slot.size == 4
    assert repr(slot) == "<BodySlot taken, 4 bytes>"


def test_a_slot_cannot_be_taken_twice() -> None:
    slot = BodySlot(b"body")
    slot.take()
    with pytest.raises(RuntimeError, match="handed over already"):
        slot.take()


def test_what_was_taken_is_not_kept() -> None:
    body = b"x" * 1_000
    references = sys.getrefcount(body)
    slot = BodySlot(body)
    slot.take()
    gc.collect()
    assert sys.getrefcount(body) == references


def test_who_keeps_the_books_is_told_when_the_bytes_are_gone() -> None:
    told: list[str] = []
    slot = BodySlot(b"body", lambda: told.append("written"))
    slot.take()
    assert told == []
    slot.written()
    assert told == ["written"]
