"""What is counted of every request and send, in the router and in the model alike.

The algebra that must hold at every quiet moment:
- the sum of sends over client requests equals the sum of `sends`;
- client requests with two sends are as many as `failovers`.
"""

from collections import Counter

from router.core.delivery import Cause, Outcome

NO_RESPONSE = "no_response"


class Tally:
    """Counters with the labels of the metrics that show them."""

    __slots__ = ("client_requests", "failovers", "failovers_refused", "failures", "headers_ignored", "sends")

    def __init__(self) -> None:
        self.sends: Counter[tuple[str, str]] = Counter()
        """(pool, outcome) -> sends; outcome is a status class such as 2xx, or no_response."""
        self.client_requests: Counter[tuple[str, int]] = Counter()
        """(code, number of sends) -> requests; code is a status, an error code of ours, or client_left."""
        self.failovers: Counter[tuple[str, str]] = Counter()
        """(from pool, to pool) -> second sends."""
        self.failovers_refused: Counter[str] = Counter()
        """Reason -> failed sends that were not followed by another."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """(pool, cause) -> sends without an answer, or whose answer was not passed on whole."""
        self.headers_ignored: Counter[str] = Counter()
        """Name of a header about the chain -> requests where it could not be read."""

    def send_ended(self, pool: str, outcome: Outcome | None) -> None:
        """Count a send at its own pool; None: the client left before it had an outcome."""
        status = None if outcome is None else outcome.status
        self.sends[pool, NO_RESPONSE if status is None else f"{status // 100}xx"] += 1

    def request_ended(self, code: str, sends: int) -> None:
        """Count a client's request by what it was told."""
        self.client_requests[code, sends] += 1

    def send_failed(self, pool: str, cause: Cause) -> None:
        """Count a send without an answer, or whose answer was not passed on whole, by its cause."""
        self.failures[pool, cause] += 1
