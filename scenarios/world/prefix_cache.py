"""What a frontend remembers of its sessions: their prompts need no second prefill.

Laws
1. At most `sessions_max` sessions are kept; the one that was longest unused goes first.
2. A prompt is never more than cached: the rest of a longer one costs its prefill.
"""

from collections import OrderedDict


class PrefixCache:
    """Cached tokens by session, least recently used first. `sessions_max` 0: nothing is ever kept."""

    __slots__ = ("_tokens", "hits", "misses", "sessions_max")

    def __init__(self, sessions_max: int) -> None:
        if sessions_max < 0:
            raise ValueError(f"a cache of {sessions_max} sessions")
        self.sessions_max = sessions_max
        self.hits = 0
        self.misses = 0
        self._tokens: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        """Sessions that are kept."""
        return len(self._tokens)

    def cached(self, session: str | None, prompt_tokens: int) -> int:
        """Return how many tokens of a prompt are there already, and count it as used. No session: none."""
        if session is None:
            return 0
        tokens = self._tokens.get(session)
        if tokens is None:
            self.misses += 1
            return 0
        self.hits += 1
        self._tokens.move_to_end(session)
        return min(tokens, prompt_tokens)

    def keep(self, session: str | None, tokens: int) -> None:
        """Remember that a session's first `tokens` tokens have been worked through."""
        if session is None or not self.sessions_max:
            return
        self._tokens[session] = max(tokens, self._tokens.get(session, 0))
        self._tokens.move_to_end(session)
        if len(self._tokens) > self.sessions_max:
            self._tokens.popitem(last=False)
