"""The reference router with one thing wrong: to it the body slot is always full, so whatever failed was never sent.

Started as a program it takes the reference router's options. There the body must stay in its slot as well: the router
frees what it has handed over, so that a wrong decision alone finds nothing left to send.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from router.core import delivery
from router.core.delivery import Delivery

TARGET = "router.core.delivery.delivery_of"


def mutated(*, slot_taken: bool, status: int | None) -> Delivery:
    """Decide as if no body had ever been handed over; a status is still an answer."""
    return Delivery.UNSENT if status is None else Delivery.ANSWERED


def main() -> int:
    """Start the router, the decision and the slot mutated."""
    delivery.delivery_of = mutated
    from router.body import BodySlot  # noqa: PLC0415 - only the program needs the shell

    def take(slot: BodySlot) -> bytes:
        assert slot._body is not None
        return slot._body

    BodySlot.take = take  # type: ignore[method-assign, assignment] # what makes it wrong
    from router.cli import serve  # noqa: PLC0415 - after the mutation, which it must see

    return serve(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
