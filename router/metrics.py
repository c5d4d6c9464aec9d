"""Metrics: the rule's own tally and leases in the Prometheus text format; nothing is counted twice in another place."""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from router.core.alarms import AlarmKind
from router.core.policy import Policy
from router.worker import Worker

FIRST_BYTE_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class FirstByteTimes:
    """Seconds from a request's arrival to the first byte of its answer's body, in buckets."""

    def __init__(self) -> None:
        self.counts = [0] * (len(FIRST_BYTE_BUCKETS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one answer. Two clocks of one process may differ by the millisecond in which uvloop counts."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(FIRST_BYTE_BUCKETS_S, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, answers up to it) as the text format has them."""
        bounds = [*(str(bound) for bound in FIRST_BYTE_BUCKETS_S), "+Inf"]
        totals, total = [], 0
        for count in self.counts:
            total += count
            totals.append(float(total))
        return list(zip(bounds, totals, strict=True))


class Metrics(Collector):
    """Shows one policy's counters; read at every scrape, so it costs requests nothing.

    What nobody measures is not shown: a 0 would say that all is well.
    """

    alarm_kinds = (AlarmKind.EVERYTHING_BENCHED,)
    """The alarms that something in this process can raise."""

    def __init__(self, policy: Policy, first_byte: FirstByteTimes, prefix: str, worker: Worker | None = None) -> None:
        self._policy = policy
        self._worker = worker
        self._first_byte = first_byte
        self._prefix = prefix
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its present values."""
        tally = self._policy.tally
        sends = self._counter(
            "requests", "Sends, by pool and by the class of the status or no_response.", "pool", "outcome"
        )
        for (pool, outcome), count in tally.sends.items():
            sends.add_metric((pool, outcome), count)
        yield sends
        requests = self._counter(
            "client_requests", "Requests, by what the client was told and by sends.", "code", "sends"
        )
        for (code, made), count in tally.client_requests.items():
            requests.add_metric((code, str(made)), count)
        yield requests
        failovers = self._counter("failovers", "Second sends, by the pools they went from and to.", "from", "to")
        for (first, second), count in tally.failovers.items():
            failovers.add_metric((first, second), count)
        yield failovers
        refused = self._counter(
            "failovers_refused", "Failed sends that were not followed by another, by reason.", "reason"
        )
        for reason, count in tally.failovers_refused.items():
            refused.add_metric((str(reason),), count)
        yield refused
        failures = self._counter(
            "send_failures", "Sends without a whole answer, by pool and by cause.", "pool", "cause"
        )
        for (pool, cause), count in tally.failures.items():
            failures.add_metric((pool, cause), count)
        yield failures
        in_flight = GaugeMetricFamily(f"{self._prefix}_in_flight", "Sends and streams under way.", labels=("pool",))
        for pool, load in self._policy.in_flight().items():
            in_flight.add_metric((pool,), load)
        yield in_flight
        yield self._cooldowns()
        yield self._alarms()
        yield from self._which_worker()
        if self._policy.budget is not None:
            balance = self._policy.budget.balance(self._policy.clock.monotonic())
            help_text = "What is left of the budget of failovers, in the unit of its kind."
            yield GaugeMetricFamily(f"{self._prefix}_budget_balance", help_text, value=balance)
        yield HistogramMetricFamily(
            f"{self._prefix}_first_byte_seconds",
            "From a request's arrival to the first byte of its answer's body.",
            buckets=self._first_byte.cumulative(),
            sum_value=self._first_byte.sum_s,
        )

    def _alarms(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"{self._prefix}_alarms", "Alarms that are raised now, by kind.", labels=("kind",))
        for kind in self.alarm_kinds:
            gauge.add_metric((kind,), self._policy.alarms.count(kind))
        return gauge

    def _which_worker(self) -> Iterator[Metric]:
        """Tell of one of several processes which it is: nothing on this page counts what the others do."""
        if self._worker is not None:
            help_text = "Always 1: this page is of one worker alone; add up those of all."
            gauge = GaugeMetricFamily(f"{self._prefix}_worker", help_text, labels=("worker", "workers"))
            gauge.add_metric((str(self._worker.index), str(self._worker.count)), 1)
            yield gauge

    def _cooldowns(self) -> GaugeMetricFamily:
        name, labels = f"{self._prefix}_cooldown", ("pool", "frontend")
        gauge = GaugeMetricFamily(name, "Whether a frontend is benched: 1, else 0.", labels=labels)
        for frontend, state in self._policy.roster.states.items():
            gauge.add_metric((frontend.pool, frontend.name), 0.0 if state.cooldown.takes_sends else 1.0)
        return gauge

    def _counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(f"{self._prefix}_{name}", text, labels=labels)
