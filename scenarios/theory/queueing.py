"""What overload does to queues, in closed form.

Laws
1. Where servers finish work that nobody waits for any more, recovery is certain if lambda * A < mu, A the worst-case
   amplification; between mu / A and mu a trigger can leave the pools collapsed (Bronson et al., "Metastable Failures in
   Distributed Systems", HotOS'21).
2. In a FIFO that holds more than mu * T, what reaches a server has waited longer than its client: all work is wasted.
   So a queue must hold less than mu * T, or drop from the other end, or let go of what has been given up.
3. After an outage much longer than T the backlog is B = lambda * A * F, and answers are in time again after
   (B - mu * T) / (mu - lambda * A).
"""

from collections.abc import Sequence


def always_safe_utilisation(amplification: float) -> float:
    """Return the utilisation below which a fault cannot leave the pools collapsed (law 1): 1 / A."""
    return 1.0 / amplification


def queue_bound(capacity_rps: float, timeout_s: float) -> float:
    """Return how many a FIFO may hold, so that its last one is served before its client has left (law 2): mu * T."""
    return capacity_rps * timeout_s


def backlog(rate_rps: float, amplification: float, fault_s: float) -> float:
    """Return what waits at the end of an outage of `fault_s` seconds, much longer than the time-out (law 3)."""
    return rate_rps * amplification * fault_s


def recovery_s(
    *, waiting: float, capacity_rps: float, timeout_s: float, rate_rps: float, amplification: float
) -> float:
    """Return the seconds from the end of a fault until answers are in time again (law 3); infinite: never by itself."""
    ahead = waiting - capacity_rps * timeout_s
    if ahead <= 0:
        return 0.0
    spare_rps = capacity_rps - rate_rps * amplification
    return ahead / spare_rps if spare_rps > 0 else float("inf")


def drain_s(*, rate_rps: float, spike_rps: float, spike_s: float, capacity_rps: float) -> float:
    """Return the seconds in which what a spike has left is worked off, without retries; infinite: never."""
    left = max(0.0, spike_rps - capacity_rps) * spike_s
    spare_rps = capacity_rps - rate_rps
    if left == 0:
        return 0.0
    return left / spare_rps if spare_rps > 0 else float("inf")


def utilisation_without_largest(capacities_rps: Sequence[float], rate_rps: float) -> float:
    """Return the utilisation of the remaining pools when the largest one is lost (N-1); infinite: none remains."""
    remaining_rps = sum(capacities_rps) - max(capacities_rps)
    return rate_rps / remaining_rps if remaining_rps > 0 else float("inf")
