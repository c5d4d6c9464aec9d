"""Every knob of the router's decisions, with its unit, its default and its limits."""

from dataclasses import dataclass, fields


class ConfigError(ValueError):
    """A knob has an impossible value; the text names the knob and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterConfig:
    """Knobs of the decisions. Times are seconds."""

    connect_timeout_s: float = 5.0
    """Bound on one connect: name lookup, every address, and TLS together."""
    deadline_s: float = 600.0
    """Bound on patience, both sends and the first byte together."""
    idle_timeout_s: float = 300.0
    """Longest silence between two pieces of an answer."""
    patience_s: float = 2.0
    """How long a request waits while nothing is usable."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_s") and not 0 < value < float("inf"):
                msg = f"{field.name} must be a positive number of seconds, got {value}"
                raise ConfigError(msg)
