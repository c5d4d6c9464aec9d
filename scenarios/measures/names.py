"""Names of the measures that `expect.measures` may ask for."""

import re

PLAIN = (
    "operations",
    "send_amplification",
    "queue_amplification",
    "sends_max",
    "entries_max",
    "goodput",
    "goodput_before_fault",
    "goodput_during_fault",
    "goodput_after_fault",
    "control_goodput",
    "first_request_s",
    "recovery_s",
    "queue_max",
    "queue_mean",
    "orphaned_share",
    "wasted_tokens",
    "total_mean_s",
    "total_p50_s",
    "total_p99_s",
    "ttft_p50_s",
    "ttft_p99_s",
)
"""Each is explained where it is worked out: scalars.py, recovery.py."""

WINDOW = re.compile(r"goodput_after_fault_(\d{1,4})_(\d{1,4})")
"""goodput_after_fault_60_120: goodput of what arrives from 60 to 120 s after the last fault has gone."""
ATTEMPTS = re.compile(r"attempts_([a-z][a-z0-9_]*)")
"""attempts_gateway: attempts of the layer gateway for each operation."""


def is_measure(name: str) -> bool:
    """Tell whether there is a measure of this name."""
    return name in PLAIN or bool(WINDOW.fullmatch(name) or ATTEMPTS.fullmatch(name))
