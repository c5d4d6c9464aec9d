"""What a router does in the background, as generators of effects: the driver's only part is to answer them.

They never end by themselves; a driver closes them when it stops, at whatever effect.
"""

from collections.abc import Generator

from router.core.effects import PROBE_OK, Connect, Probe, Wait
from router.core.policy import Policy
from router.core.trials import Trial

Background = Generator[Connect | Probe | Wait, object, None]


def trials(policy: Policy) -> Background:
    """Try benched frontends, one after the other; a driver runs `trials_max` of these side by side."""
    while True:
        trial = policy.trials.begin()
        if trial is not None:
            yield from _try(policy, trial)
            continue
        idle = policy.trials.until_next()
        try:
            yield idle
        finally:
            policy.trials.no_longer_idle(idle)


def _try(policy: Policy, trial: Trial) -> Background:
    """Connect at the slow price, then probe; a close at either effect gives the permit back."""
    now, config = policy.clock.monotonic, policy.config
    try:
        cause = yield Connect(trial.frontend, now() + config.slow_s)
        if cause is not None:
            trial.failed(str(cause))
            return
        answer = yield Probe(trial.frontend, now() + config.trial_probe_timeout_s)
        if answer == PROBE_OK:
            trial.succeeded()
        else:
            trial.failed(f"probe: {answer}")
    finally:
        trial.give_up()
