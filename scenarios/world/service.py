"""How much work a request is, in seconds at a pool that has nothing else to do.

A language model reads the prompt first (prefill: overhead + the prompt's tokens that are not cached, at so much each)
and then writes the answer token by token (decode: every token but the first, one gap each). The form is that of
llm-d-inference-sim; the load factor on top is the pool server's business.

Simple services know no tokens: exponential, deterministic, lognormal of a mean; their first token comes with the last.
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random
from typing import Final, Literal, NamedTuple

Kind = Literal["exponential", "deterministic", "lognormal"]


class Work(NamedTuple):
    """The work of one request in seconds at load 1: the part before the first token, and all of it."""

    prefill_s: float
    work_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The speed of one model on one machine with a single request in flight, in seconds."""

    overhead_s: float
    prompt_token_s: float
    token_gap_s: float

    def prefill_s(self, prompt_tokens: int, cached_tokens: int = 0) -> float:
        """Return the time to the first token; what is cached of the prompt costs nothing."""
        return self.overhead_s + max(0, prompt_tokens - cached_tokens) * self.prompt_token_s

    def decode_s(self, output_tokens: int) -> float:
        """Return the time from the first token to the last."""
        return max(0, output_tokens - 1) * self.token_gap_s

    def work(self, prompt_tokens: int, output_tokens: int, cached_tokens: int = 0) -> Work:
        """Return the work of one request."""
        prefill_s = self.prefill_s(prompt_tokens, cached_tokens)
        return Work(prefill_s, prefill_s + self.decode_s(output_tokens))


PROFILES: Final = {
    "8b-h100": Profile(overhead_s=0.03, prompt_token_s=0.0002, token_gap_s=0.0125),
    "70b-tp8": Profile(overhead_s=0.08, prompt_token_s=0.0005, token_gap_s=0.023),
}
"""Middles of the spans that are told of an 8B model on one H100 (overhead 25-40 ms, .15-.30 ms a prompt token, 10-15 ms
a gap) and of a 70B model on eight with tensor parallelism (60-100 ms, .4-.6 ms, 18-28 ms)."""


def drawn_s(kind: Kind, mean_s: float, *, cv2: float, draws: Random) -> float:
    """Return the work of one request of a simple service; `cv2` is for lognormal alone.

    `draws` is asked as little as can be: not at all, once, or twice for lognormal. Where millions are needed, blocks.py
    has the same laws in iterators.
    """
    match kind:
        case "deterministic":
            return mean_s
        case "exponential":
            return draws.expovariate(1.0 / mean_s)
        case "lognormal":
            return lognormal(mean_s, cv2=cv2, draws=draws)


def lognormal(mean: float, *, cv2: float, draws: Random) -> float:
    """Return one lognormal number of this mean and squared coefficient of variation."""
    variance = log(1.0 + cv2)
    return mean * exp(draws.normalvariate(0.0, sqrt(variance)) - variance / 2.0)
