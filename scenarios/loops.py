"""What a router does beside its requests, for a layer of kind pooldrill: probes, discovery, a switch, a clock check.

Each is off unless its table is there. The knobs are those of `router/core`, with its names and its defaults.
"""

from typing import Annotated, Literal

from msgspec import Meta

from scenarios.parts import Part, PoolName, PositiveCount, PositiveSeconds, Seconds


class Health(Part, frozen=True, kw_only=True):
    """`[router.health]`: every frontend is probed on an interval, as router/core/health.py has it."""

    required: bool = True
    """Whether only what is healthy gets sends; false: states are recorded and not obeyed."""
    panic: bool = True
    """Whether probes are not obeyed where they call everything of a model bad, so that the last pool is kept."""
    rise: PositiveCount = 3
    """So many good probes in a row make healthy."""
    fall: PositiveCount = 3
    """So many bad probes in a row make unhealthy."""
    probe_interval_s: PositiveSeconds = 5.0
    """From the start of one probe to the start of the next."""
    probe_timeout_s: PositiveSeconds = 5.0
    """Bound on one probe."""
    probe_generates: bool = False
    """Whether a probe also asks for one token, for which it needs a slot like a request."""
    probes_max: PositiveCount = 8
    """Probes under way at one time."""
    starting_s_max: PositiveSeconds = 300.0
    """Longest time to become healthy at first."""


class ListTrouble(Part, frozen=True, kw_only=True):
    """What the list of pools answers from `inject_s` to `clear_s` in place of the truth.

    error: a status. garbage: no list. empty: a list without pools. silent: nothing within the time-out. incomplete: the
    list without `pool`, which says that it is not complete. lacks: the list without `pool`, which says that it is.
    """

    kind: Literal["error", "garbage", "empty", "silent", "incomplete", "lacks"]
    inject_s: PositiveSeconds
    clear_s: PositiveSeconds
    pool: PoolName | None = None
    """The pool that is left out, for incomplete and lacks."""


class Discovery(Part, frozen=True, kw_only=True):
    """`[router.discovery]`: the list of pools is asked for on an interval, as router/core/discovery.py has it.

    The first list is known when the run begins, as a router that is ready has it. What is listed later, or no longer,
    say the pools themselves: `join_s` and `leave_s`.
    """

    discovery_interval_s: PositiveSeconds = 5.0
    """From the start of one call to the start of the next."""
    discovery_timeout_s: PositiveSeconds = 2.0
    """Bound on one call."""
    discovery_stale_s: PositiveSeconds = 30.0
    """A list that was not confirmed for so long raises an alarm; it stays in use."""
    discovery_strict: bool = False
    """Whether one bad entry fails the whole call."""
    troubles: Annotated[tuple[ListTrouble, ...], Meta(max_length=16)] = ()
    """When the list is not what it should be."""


class Drift(Part, frozen=True, kw_only=True):
    """`[router.drift]`: pools are asked for the time on an interval, as router/core/drift.py has it."""

    check_interval_s: PositiveSeconds = 600.0
    """From the start of one check to the start of the next."""
    check_timeout_s: PositiveSeconds = 5.0
    """Bound on asking one pool."""
    agree_s: PositiveSeconds = 1.0
    """Two clocks agree if they are at most so far apart."""
    alarm_s: PositiveSeconds = 5.0
    """An offset above this raises an alarm."""


class SwitchOrder(Part, frozen=True, kw_only=True):
    """`[router.switch]`: at `at_s` an operator orders all traffic to pool `to`, as router/core/switchover.py has it."""

    at_s: Seconds
    to: PoolName
    good_probes: PositiveCount = 3
    """So many good rounds of probes in a row move the traffic."""
    good_sends: PositiveCount = 3
    """So many good sends in a row verify the switch."""
    failures_max: PositiveCount = 5
    """So many failures in a row, of probes or of sends, roll it back."""
    total_s_max: PositiveSeconds = 300.0
    """Longest time for probing, drain and verification together."""
    probe_interval_s: PositiveSeconds = 5.0
    """From the start of one round of probes to the start of the next."""
    probe_timeout_s: PositiveSeconds = 5.0
    """Bound on one probe."""
    probe_generates: bool = False
    """Whether a probe also asks for one token, for which it needs a slot like a request."""
    verify_s: PositiveSeconds = 30.0
    """How long sends are waited for after the drain."""
