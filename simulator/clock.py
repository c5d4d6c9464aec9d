"""The model's time, in the shape in which the router's decisions ask for it."""

import simpy

WALL_START_S = 1_600_000_000.0
"""What the wall clock shows at the start of every modelled run: any fixed moment, so that runs are repeatable."""


class ModelClock:
    """Reads simpy's clock; the model has no other."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env

    def monotonic(self) -> float:
        """Seconds since the run's start."""
        return self._env.now

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return WALL_START_S + self._env.now
