"""The reference router with one thing wrong: its second choice may be the pool that has just failed.

Started as a program it takes the reference router's options.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from router.core.policy import Policy
from router.core.selection import Candidate

TARGET = "router.core.policy.Policy._without"


def _every_pool(candidates: tuple[Candidate, ...], pool: str) -> tuple[Candidate, ...]:
    return candidates


mutated = staticmethod(_every_pool)


def main() -> int:
    """Start the router, the choice mutated."""
    Policy._without = mutated  # type: ignore[method-assign] # what makes it wrong
    from router.cli import serve  # noqa: PLC0415 - after the mutation, which it must see

    return serve(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
