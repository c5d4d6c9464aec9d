"""Lists of pools that come and go: what is believed, what is kept, and what is told of it."""

from collections import Counter
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.alarms import Alarm, AlarmKind, Alarms
from router.core.config import ConfigError, RouterConfig
from router.core.discovery import (
    FRONTENDS_MAX,
    POOLS_MAX,
    BadListError,
    Discovery,
    DiscoveryConfig,
    discovering,
    read_listing,
)
from router.core.effects import Failed, Fetch, Relay, Send, Wait
from router.core.policy import Policy
from router.core.topology import Catalog
from tests.router.core.playbook import START_S, ManualClock, Playbook, after, answer_all, asked, policy_of, wait


def entry(name: str, *urls: str, models: Any = ("m",), **more: Any) -> dict[str, Any]:
    return {"id": name, "urls": list(urls or [f"http://{name}.test"]), "models": list(models), **more}


def listing(*names: str | dict[str, Any], complete: Any = True) -> dict[str, Any]:
    pools = [name if isinstance(name, dict) else entry(name) for name in names]
    return {"pools": pools, "complete": complete}


class Told:
    """A discovery that is told one answer after the other, a second apart, with all that it published."""

    def __init__(self, **knobs: Any) -> None:
        self.alarms = Alarms()
        self.events: list[Alarm] = []
        self.alarms.on_event = self.events.append
        self.discovery = Discovery(DiscoveryConfig(**knobs), self.alarms, START_S)
        self.published: list[Catalog] = []
        self.discovery.on_publish = self.published.append
        self.now_s = START_S

    def tell(self, answer: object, after_s: float = 1.0) -> "Told":
        self.now_s += after_s
        self.discovery.told(answer, self.now_s)
        return self

    @property
    def pools(self) -> list[str]:
        """The last list that was published."""
        return [pool.name for pool in self.published[-1].pools]

    @property
    def frontends(self) -> dict[str, str]:
        return {f.name: f.url for pool in self.published[-1].pools for f in pool.frontends}

    @property
    def age_s(self) -> float:
        return self.discovery.age_s(self.now_s)


OUTAGES: tuple[object, ...] = (
    Failed("timeout"),
    Failed("status 500"),
    None,
    "garbage",
    [],
    {},
    {"pools": []},
    {"pools": {}, "complete": True},
    {"pools": [entry("a")], "complete": "yes"},
    {"complete": True},
    listing(),
    listing(complete=False),
    listing({"id": "a"}),
    listing(*(str(number) for number in range(POOLS_MAX + 1))),
)

# ---- what is believed


def test_a_list_is_published_sorted() -> None:
    told = Told().tell(listing("c", "a", "b"))
    assert told.pools == ["a", "b", "c"]
    assert told.discovery.problem == ""


def test_only_a_change_is_published() -> None:
    told = Told().tell(listing("a", "b")).tell(listing("b", "a")).tell(listing("a", "b"))
    assert len(told.published) == 1
    assert told.tell(listing("a")).pools == ["a"]
    assert len(told.published) == 2


def test_urls_in_another_order_are_no_change() -> None:
    told = Told().tell(listing(entry("a", "http://y", "http://x"))).tell(listing(entry("a", "http://x", "http://y/")))
    assert len(told.published) == 1


def test_draining_is_a_change() -> None:
    told = Told().tell(listing("a")).tell(listing(entry("a", draining=True)))
    assert [pool.draining for pool in told.published[-1].pools] == [True]


def test_a_frontend_keeps_its_name_as_long_as_its_url_is_listed() -> None:
    told = Told().tell(listing(entry("a", "http://x", "http://y", "http://z")))
    assert told.frontends == {"a-0": "http://x", "a-1": "http://y", "a-2": "http://z"}
    told.tell(listing(entry("a", "http://z", "http://w", "http://y")))
    assert told.frontends == {"a-1": "http://y", "a-2": "http://z", "a-0": "http://w"}


@pytest.mark.parametrize(
    ("bad", "label", "why"),
    [
        ("x", "entry 0", "not an object"),
        ({}, "entry 0", "`id` is not a name"),
        (entry(""), "entry 0", "`id` is not a name"),
        (entry("a b"), "entry 0", "`id` is not a name"),
        (entry("a" * 65), "entry 0", "`id` is not a name"),
        ({**entry("a"), "id": 7}, "entry 0", "`id` is not a name"),
        ({"id": "a", "urls": ["http://a"]}, "a", "`models` is not a list of texts with at least one"),
        (entry("a", models=[]), "a", "`models` is not a list"),
        (entry("a", models=[""]), "a", "`models` is not a list"),
        (entry("a", models=[1]), "a", "`models` is not a list"),
        ({"id": "a", "models": ["m"]}, "a", "`urls` is not a list"),
        ({"id": "a", "models": ["m"], "urls": []}, "a", "`urls` is not a list"),
        ({"id": "a", "models": ["m"], "urls": "http://a"}, "a", "`urls` is not a list"),
        (entry("a", "ftp://a"), "a", r"'ftp://a' is not http://HOST:PORT"),
        (entry("a", "http://a:0"), "a", "is not http://HOST:PORT"),
        (entry("a", "http://a:65536"), "a", "is not http://HOST:PORT"),
        (entry("a", "http://a/?q"), "a", "is not http://HOST:PORT"),
        (entry("a", "http://a/#f"), "a", "is not http://HOST:PORT"),
        (entry("a", "http://a b"), "a", "is not http://HOST:PORT"),
        (entry("a", "http://"), "a", "is not http://HOST:PORT"),
        (entry("a", "http://u:secret@a"), "a", "a URL with @ in it"),
        (entry("a", "http://a/@"), "a", "a URL with @ in it"),
        (entry("a", draining="no"), "a", "`draining` is neither true nor false"),
        (entry("a", *(f"http://a-{n}" for n in range(FRONTENDS_MAX + 1))), "a", "257 URLs, more than 256"),
    ],
)
def test_a_bad_entry_is_skipped_and_counted_with_why(bad: Any, label: str, why: str) -> None:
    told = Told().tell({"pools": [bad, entry("z")], "complete": True})
    assert told.pools == ["z"]
    assert told.discovery.entries_skipped == 1
    assert list(told.discovery.skipped) == [label]
    assert why in told.discovery.skipped[label]
    assert "secret" not in told.discovery.skipped[label]
    assert told.tell(listing("z")).discovery.skipped == {}
    assert told.discovery.entries_skipped == 1


@pytest.mark.parametrize(
    "url",
    ["http://a", "https://a.test:8443", "http://127.0.0.1:1", "http://[::1]:65535", "http://a/prefix", "http://a_b-c"],
)
def test_an_address_is_accepted(url: str) -> None:
    assert list(Told().tell(listing(entry("a", url))).frontends.values()) == [url]


def test_one_machine_belongs_to_one_pool_and_one_id_is_listed_once() -> None:
    told = Told().tell(listing(entry("a", "http://x"), entry("b", "http://y", "http://x"), entry("a", "http://z")))
    assert told.frontends == {"a-0": "http://x"}
    assert told.discovery.skipped == {"b": "http://x belongs to pool a", "a": "the id is listed twice"}


def test_bad_entries_of_one_id_are_all_counted() -> None:
    told = Told()
    told.tell({"complete": True, "pools": [entry("a"), {"id": "b"}, {"id": "b", "urls": []}, {"id": "b"}]})
    assert told.discovery.entries_skipped == 3
    assert list(told.discovery.skipped) == ["b", "entry 2", "entry 3"]


def test_in_strict_mode_one_bad_entry_fails_the_call() -> None:
    told = Told(discovery_strict=True).tell(listing("a")).tell(listing("b", "c", {"id": "d"}))
    assert told.pools == ["a"]
    assert told.discovery.calls_failed == 1
    assert told.discovery.problem == "d: `models` is not a list of texts with at least one"
    assert told.age_s == 1


def test_one_bad_registration_does_not_freeze_the_list() -> None:
    told = Told().tell(listing("a")).tell(listing("a", "b", {"id": "bad"}))
    assert told.pools == ["a", "b"]
    assert told.age_s == 0


# ---- what is kept


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_keeps_the_list_and_shows_its_age(outage: object) -> None:
    told = Told().tell(listing("a", "b"))
    for _ in range(3):
        told.tell(outage)
    assert told.pools == ["a", "b"]
    assert len(told.published) == 1
    assert (told.age_s, told.discovery.calls_failed) == (3, 3)
    assert told.discovery.problem
    told.tell(listing("a", "b"))
    assert (told.age_s, told.discovery.problem, len(told.published)) == (0, "", 1)


def test_before_the_first_list_an_empty_one_is_believed() -> None:
    told = Told().tell(listing())
    assert (told.age_s, told.discovery.problem, told.published) == (0, "", [])


def test_an_incomplete_list_adds_but_never_removes() -> None:
    told = Told().tell(listing(entry("a", "http://x", "http://y", models=["m", "n"]), "b"))
    told.tell(listing(entry("a", "http://z", "http://x", models=["o"]), "c", complete=False))
    assert told.pools == ["a", "b", "c"]
    assert told.frontends == {
        "a-0": "http://x",
        "a-1": "http://y",
        "a-2": "http://z",
        "b-0": "http://b.test",
        "c-0": "http://c.test",
    }
    assert told.published[-1].pools[0].models == ("m", "n", "o")
    told.tell(listing("c"))
    assert told.pools == ["c"]


def test_an_incomplete_list_may_tell_that_a_pool_is_draining() -> None:
    told = Told().tell(listing("a", "b")).tell(listing(entry("a", draining=True), complete=False))
    assert [(pool.name, pool.draining) for pool in told.published[-1].pools] == [("a", True), ("b", False)]


def test_a_missed_departure_is_gone_with_the_next_complete_list() -> None:
    told = Told().tell(listing("ghost", "a")).tell(Failed("timeout")).tell(listing("a"))
    assert told.pools == ["a"]


def test_a_url_that_moves_to_another_pool_in_an_incomplete_list_is_in_one_pool_only() -> None:
    told = Told().tell(listing(entry("a", "http://x"), entry("b", "http://y")))
    told.tell(listing(entry("b", "http://x"), complete=False))
    assert sorted(told.frontends.values()) == ["http://x", "http://y"]
    told.tell(listing(entry("b", "http://x")))
    assert told.frontends == {"b-0": "http://x"}


def test_incomplete_lists_one_after_the_other_do_not_grow_without_bound() -> None:
    told = Told()
    for part in range(3):
        told.tell(listing(entry("a", *(f"http://a-{part}-{n}" for n in range(200))), complete=False))
    assert len(told.frontends) == FRONTENDS_MAX
    for part in range(3):
        told.tell(listing(*(f"p{part}-{n}" for n in range(POOLS_MAX - 200)), complete=False))
    assert len(told.pools) == POOLS_MAX


def test_a_list_that_grows_old_raises_an_alarm_once() -> None:
    told = Told(discovery_stale_s=3.0).tell(listing("a"))
    for _ in range(5):
        told.tell(Failed("status 500"))
    assert told.pools == ["a"]
    told.tell(listing("a")).tell(listing("a"))
    assert [(event.kind, event.since_s - START_S, event.cleared_s, event.detail) for event in told.events] == [
        (AlarmKind.STALE_DISCOVERY, 4, None, "status 500"),
        (AlarmKind.STALE_DISCOVERY, 4, START_S + 7, "status 500"),
    ]


def test_a_service_that_was_never_there_raises_it_too() -> None:
    told = Told(discovery_stale_s=2.0).tell(Failed("refused")).tell(Failed("refused"))
    assert [event.cleared_s for event in told.events] == [None]


@given(
    st.lists(
        st.one_of(
            st.sampled_from([Failed("x"), None, listing()]),
            st.builds(
                lambda names, complete: listing(*names, complete=complete),
                st.sets(st.sampled_from("abcd")),
                st.booleans(),
            ),
        ),
        max_size=20,
    )
)
def test_whatever_is_told_the_list_is_the_last_complete_one_and_what_was_added_since(answers: list[Any]) -> None:
    told, believed = Told(), set[str]()
    for answer in answers:
        told.tell(answer)
        names = {pool["id"] for pool in answer["pools"]} if isinstance(answer, dict) else set()
        if names:
            believed = names if answer["complete"] else believed | names
        assert (set(told.pools) if told.published else set()) == believed
    for before, later in zip(told.published, told.published[1:], strict=False):
        assert before.pools != later.pools


def test_an_answer_that_is_no_list_says_what_is_wrong() -> None:
    with pytest.raises(BadListError, match="not an object but NoneType"):
        read_listing(None)


# ---- with the policy


@pytest.mark.parametrize("third", ["a", "c", "z"])
def test_a_third_pool_joins_wherever_it_sorts(third: str) -> None:
    policy = policy_of()
    told = Told()
    told.discovery.on_publish = policy.publish
    told.tell(listing("b", "y"))
    assert answer_all(policy, 4) == {"b-0": 2, "y-0": 2}
    told.tell(listing("y", "b"))
    told.tell(listing("y", "b", third))
    assert sorted(answer_all(policy, 7).values()) == [2, 2, 3]


def _counted(policy: Policy, count: int) -> Counter[str]:
    return Counter({name.partition("-")[0]: sends for name, sends in answer_all(policy, count).items()})


@pytest.mark.parametrize("third", ["a", "c", "z"])
def test_two_and_two_then_three_three_and_one(third: str) -> None:
    policy, told = policy_of(), Told()
    told.discovery.on_publish = policy.publish
    total = Counter[str]()
    told.tell(listing("b", "y"))
    total += _counted(policy, 4)
    assert total == {"b": 2, "y": 2}
    told.tell(listing("b", "y", third))
    total += _counted(policy, 3)
    assert total == {"b": 3, "y": 3, third: 1}


def test_a_cursor_survives_a_list_that_has_not_changed() -> None:
    policy, told = policy_of(), Told()
    told.discovery.on_publish = policy.publish
    firsts = []
    for _ in range(6):
        told.tell(listing("b", "a"))
        firsts += list(answer_all(policy, 1))
    assert firsts in (["a-0", "b-0"] * 3, ["b-0", "a-0"] * 3)


def test_a_draining_pool_gets_nothing_new_and_what_runs_there_ends() -> None:
    policy, told = policy_of(config=RouterConfig()), Told()
    told.discovery.on_publish = policy.publish
    told.tell(listing("a", "b"))
    running = {asked(policy) for _ in range(2)}
    told.tell(listing(entry("a", draining=True), "b"))
    assert answer_all(policy, 4) == {"b-0": 4}
    assert policy.in_flight() == {"a": 1, "b": 1}
    for playbook in running:
        assert isinstance(playbook.step, Send | Relay)
        playbook.close()
    assert policy.in_flight() == {"a": 0, "b": 0}


# ---- the loop


def test_the_list_is_asked_for_at_once_and_then_on_the_interval() -> None:
    clock = ManualClock()
    told = Told()
    loop = Playbook(discovering(told.discovery, clock))
    for begin in (0, 5):
        assert isinstance(loop.step, Fetch)
        assert (loop.step.source, loop.step.until_s) == ("pools", clock.now_s + 2)
        assert loop >> after(clock, 1, listing("a")) << wait(begin + 5) >> after(clock, 4)
    assert len(told.published) == 1


def test_a_slow_call_is_followed_at_once() -> None:
    clock = ManualClock()
    told = Told(discovery_interval_s=1.0)
    loop = Playbook(discovering(told.discovery, clock)) >> after(clock, 2, Failed("timeout"))
    assert isinstance(loop.step, Wait)
    assert loop.step.until_s == START_S + 2


@pytest.mark.parametrize("knob", [field.name for field in fields(DiscoveryConfig) if field.type is float])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_must_be_positive_and_finite(knob: str, value: float) -> None:
    knobs: dict[str, Any] = {knob: value}
    with pytest.raises(ConfigError, match=f"{knob} must be a positive number of seconds"):
        DiscoveryConfig(**knobs)
