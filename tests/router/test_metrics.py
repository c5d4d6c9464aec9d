"""What /metrics says, read with the parser that Prometheus' own client has."""

import asyncio
from pathlib import Path

from prometheus_client import Metric as MetricFamily
from prometheus_client.parser import text_string_to_metric_families

from router.core.config import RouterConfig
from router.core.cooldown import Standing
from router.core.topology import Pool
from router.metrics import FIRST_BYTE_BUCKETS_S, FirstByteTimes
from router.settings import ShellConfig
from tests.router import raw_pool
from tests.router.live import Live, client, live, until
from tests.router.raw_pool import RawPool, Refusing, endless, ok, status
from tests.router.test_trials import Returning, a_of

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(router: Live, prefix: str = "pooldrill_router") -> Samples:
    """Return every sample by its name without the prefix and its sorted labels."""
    admin = router.app.admin
    assert admin is not None
    async with router.session.get(admin.url + "/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.name.startswith(prefix + "_")
            found[sample.name.removeprefix(prefix + "_"), tuple(sorted(sample.labels.items()))] = sample.value
    return found


def labelled(samples: Samples, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {labels: value for (found, labels), value in samples.items() if found == name}


DRIVEN: dict[str, tuple[str, set[str]]] = {
    "requests_total": ("counter", {"pool", "outcome"}),
    "client_requests_total": ("counter", {"code", "sends"}),
    "failovers_total": ("counter", {"from", "to"}),
    "failovers_refused_total": ("counter", {"reason"}),
    "send_failures_total": ("counter", {"pool", "cause"}),
    "in_flight": ("gauge", {"pool"}),
    "first_byte_seconds": ("histogram", set()),
    "cooldown": ("gauge", {"pool", "frontend"}),
    "budget_balance": ("gauge", set()),
    "alarms": ("gauge", {"kind"}),
}
"""Every metric that is shown, and its labels."""
NOT_DRIVEN = {"health", "discovery_age_seconds", "clock_offset_seconds"}
"""Nobody probes, discovers or compares clocks in the router's process yet, and a 0 would say that all is well."""


async def test_every_metric_is_there_with_its_labels_and_what_nobody_measures_is_not(tmp_path: Path) -> None:
    rules = RouterConfig(connect_timeout_s=1.0, patience_s=0.1, failover_budget="fixed:max_retries=3")
    async with Refusing() as a, RawPool(ok) as b, RawPool(raw_pool.close) as c:
        pools = (
            Pool.of_urls("a", [a.url], ["m"]),
            Pool.of_urls("b", [b.url], ["m"]),
            Pool.of_urls("c", [c.url], ["lost"]),
        )
        async with live(tmp_path, pools=pools, rules=rules) as router:
            assert (await router.ask()).status == 200
            assert (await router.ask(model="lost")).code == "maybe_running"
            families = await families_of(router)
    shown = {name: (family.type, labels_of(family)) for name, family in families.items()}
    assert shown == DRIVEN
    assert not NOT_DRIVEN & set(shown)
    assert all(family.documentation for family in families.values())


async def families_of(router: Live) -> dict[str, MetricFamily]:
    """Return what the page has, by the names that a query uses."""
    assert router.app.admin is not None
    async with router.session.get(router.app.admin.url + "/metrics") as response:
        families = text_string_to_metric_families(await response.text())
    names = ((family.name.removeprefix("pooldrill_router_"), family) for family in families)
    return {f"{name}_total" if family.type == "counter" else name: family for name, family in names}


def labels_of(family: MetricFamily) -> set[str]:
    assert family.samples, f"{family.name} was driven by nothing"
    return {label for sample in family.samples for label in sample.labels} - {"le"}


async def test_a_benched_frontend_and_the_alarm_that_nothing_is_left_come_and_go(tmp_path: Path) -> None:
    rules = RouterConfig(connect_timeout_s=1.0, patience_s=0.1, cooldown_s=0.2, slow_start_s=0.0, cooldown_failures=2)
    async with Returning() as a, live(tmp_path, a.url, rules=rules) as router:
        assert await gauges(router) == (0, 0)
        for _ in range(2):
            await router.ask()
        assert await gauges(router) == (1, 1)
        await a.begin()
        await until(lambda: a_of(router).cooldown.standing is Standing.IN_USE)
        assert await gauges(router) == (0, 0)
        told = [("cleared_after_s" in line, line["kind"]) for line in router.events if line["event"] == "alarm"]
        assert told == [(False, "everything_benched"), (True, "everything_benched")]


async def gauges(router: Live) -> tuple[float, float]:
    """Return whether a-0 is benched, and the alarms that everything is."""
    samples = await scrape(router)
    benched = samples["cooldown", (("frontend", "a-0"), ("pool", "a"))]
    return benched, samples["alarms", (("kind", "everything_benched"),)]


async def test_the_budget_of_failovers_is_spent_by_one(tmp_path: Path) -> None:
    rules = RouterConfig(connect_timeout_s=1.0, patience_s=0.1, failover_budget="token_bucket:tokens_start=2")
    async with Refusing() as a, RawPool(ok) as b, live(tmp_path, a.url, b.url, rules=rules) as router:
        before = (await scrape(router))["budget_balance", ()]
        assert (await router.ask()).headers["x-pooldrill-attempts"] == "2"
        assert (await scrape(router))["budget_balance", ()] < before


async def test_every_counter_and_its_labels(tmp_path: Path) -> None:
    async with Refusing() as refusing, RawPool(status(429)) as limiting, RawPool(endless) as streaming:
        rules = RouterConfig(connect_timeout_s=1.0, patience_s=0.1)
        async with live(tmp_path, refusing.url, limiting.url, streaming.url, rules=rules) as router:
            await router.ask()  # a refuses, the second choice is b: 429
            await router.ask()  # b: 429
            async with client(router) as reader:  # c: streams until the client leaves
                await reader.readuntil(raw_pool.TOKENS[0])
                assert labelled(await scrape(router), "in_flight") == {
                    (("pool", "a"),): 0, (("pool", "b"),): 0, (("pool", "c"),): 1,
                }  # fmt: skip
            await router.post(b"{}")
            await router.settled()
            samples = await scrape(router)
    assert labelled(samples, "requests_total") == {
        (("outcome", "no_response"), ("pool", "a")): 1,
        (("outcome", "4xx"), ("pool", "b")): 2,
        (("outcome", "2xx"), ("pool", "c")): 1,
    }
    assert labelled(samples, "client_requests_total") == {
        (("code", "429"), ("sends", "2")): 1,
        (("code", "429"), ("sends", "1")): 1,
        (("code", "client_left"), ("sends", "1")): 1,
        (("code", "bad_request"), ("sends", "0")): 1,
    }
    assert labelled(samples, "failovers_total") == {(("from", "a"), ("to", "b")): 1}
    assert labelled(samples, "failovers_refused_total") == {}
    assert set(labelled(samples, "in_flight").values()) == {0}


async def test_a_refusal_to_fail_over_has_its_reason(tmp_path: Path) -> None:
    async with RawPool(raw_pool.close) as dropping, live(tmp_path, dropping.url) as router:
        await router.ask()
        samples = await scrape(router)
    assert labelled(samples, "failovers_refused_total") == {(("reason", "maybe_sent"),): 1}
    assert labelled(samples, "send_failures_total") == {(("cause", "lost"), ("pool", "a")): 1}
    assert labelled(samples, "client_requests_total") == {(("code", "maybe_running"), ("sends", "1")): 1}


async def test_the_first_byte_is_timed(tmp_path: Path) -> None:
    async def after_a_while(call: raw_pool.Call) -> None:
        await asyncio.sleep(0.3)
        await ok(call)

    async with RawPool(after_a_while) as pool, live(tmp_path, pool.url) as router:
        for _ in range(2):
            await router.ask(stream=True)
        samples = await scrape(router)
    assert samples["first_byte_seconds_count", ()] == 2
    assert 0.6 <= samples["first_byte_seconds_sum", ()] < 5
    assert samples["first_byte_seconds_bucket", (("le", "0.25"),)] == 0
    assert samples["first_byte_seconds_bucket", (("le", "+Inf"),)] == 2


async def test_the_prefix_can_be_chosen(tmp_path: Path) -> None:
    async with live(tmp_path, shell=ShellConfig(metrics_prefix="edge")) as router:
        await until(lambda: router.app.admin)
        assert ("first_byte_seconds_count", ()) in await scrape(router, "edge")


async def test_the_admin_listener_has_nothing_of_the_public_one(tmp_path: Path) -> None:
    async with live(tmp_path) as router:
        assert router.app.admin is not None
        assert router.app.admin.url.startswith("http://127.0.0.1:")
        async with router.session.get(router.app.admin.url + "/v1/models") as response:
            assert response.status == 404
        assert (await router.get("/metrics")).status == 404


def test_a_time_on_a_bound_counts_below_it() -> None:
    times = FirstByteTimes()
    for seconds in (FIRST_BYTE_BUCKETS_S[0], FIRST_BYTE_BUCKETS_S[-1], FIRST_BYTE_BUCKETS_S[-1] + 1):
        times.observe(seconds)
    cumulative = dict(times.cumulative())
    assert cumulative[str(FIRST_BYTE_BUCKETS_S[0])] == 1
    assert cumulative[str(FIRST_BYTE_BUCKETS_S[-1])] == 2
    assert cumulative["+Inf"] == 3
