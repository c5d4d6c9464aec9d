"""Named random streams: one per purpose, so that a new consumer never shifts another's draws."""

import hashlib
import random


def stream(seed: int, purpose: str) -> random.Random:
    """Return the random source of one purpose; the same seed and purpose give the same draws on every machine."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))  # noqa: S311 - simulation, not secrets
