"""What a router's /metrics page says, in the Prometheus text format."""

from collections.abc import Iterator
from typing import ClassVar

from prometheus_client.parser import text_string_to_metric_families

from scenarios.record import Metric


class ScrapeError(RuntimeError):
    """The page is not there, or not in the format; one line."""

    exit_code: ClassVar[int] = 3


def metrics(text: str, prefix: str) -> list[tuple[str, Metric]]:
    """Return (type, metric) of everything whose name begins with the prefix, which is left out. Raises ScrapeError."""
    try:
        return list(_metrics(text, prefix))
    except ValueError as error:
        raise ScrapeError(f"the router's metrics cannot be read: {error}") from None


def counters(text: str, prefix: str) -> list[Metric]:
    """Return the counters, sorted by name and labels."""
    found = [metric for kind, metric in metrics(text, prefix) if kind == "counter"]
    return sorted(found, key=lambda metric: (metric.name, list(metric.labels.values())))


def gauge(text: str, prefix: str, name: str, label: str) -> dict[str, float]:
    """Return the readings of a gauge by the value of one of its labels."""
    return {m.labels[label]: m.value for kind, m in metrics(text, prefix) if (kind, m.name) == ("gauge", name)}


def _metrics(text: str, prefix: str) -> Iterator[tuple[str, Metric]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(prefix):
                name = sample.name.removeprefix(prefix)
                yield family.type, Metric(name=name, labels=dict(sample.labels), value=sample.value)
