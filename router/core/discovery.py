"""The list of pools, as a discovery service tells it: what is believed, and what is kept when nothing can be believed.

The answer to `GET /pools`, as decoded JSON:

    {"complete": true,
     "pools": [{"id": "a", "models": ["m"], "urls": ["http://10.0.0.1:8000"], "draining": false}, ...]}

Laws
1. A bad entry is skipped and counted, with why; in strict mode it fails the whole call.
2. The list is published only when it has changed, sorted by id; so cursors and whatever else is kept survive a
   repeated list.
3. An outage (no answer, garbage, an empty list) keeps the last list, and its age grows.
4. A list that is not complete adds, and never removes.
5. A list that is known never becomes empty.
6. A frontend keeps its name as long as its pool lists its URL.
"""

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, fields
from itertools import count

from router.core.alarms import AlarmKind, Alarms
from router.core.clock import Clock
from router.core.config import ConfigError
from router.core.effects import Failed, Fetch, Wait
from router.core.topology import Catalog, Frontend, Pool

SOURCE = "pools"
POOLS_MAX = 1000
FRONTENDS_MAX = 256

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_URL = re.compile(r"https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[!-~]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryConfig:
    """Knobs of discovery. Times are seconds."""

    discovery_interval_s: float = 5.0
    """From the start of one call to the start of the next."""
    discovery_timeout_s: float = 2.0
    """Bound on one call."""
    discovery_stale_s: float = 30.0
    """A list that was not confirmed for so long raises an alarm; it stays in use."""
    discovery_strict: bool = False
    """Whether one bad entry fails the whole call; else it is skipped."""

    def __post_init__(self) -> None:
        for knob in fields(self):
            value = getattr(self, knob.name)
            if knob.name.endswith("_s") and not 0 < value < float("inf"):
                raise ConfigError(f"{knob.name} must be a positive number of seconds, got {value}")


class BadListError(ValueError):
    """An answer that is no list of pools; the text says why."""


class _BadEntryError(ValueError):
    """One entry that is no pool; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One pool as it was told."""

    name: str
    urls: tuple[str, ...]
    models: tuple[str, ...]
    draining: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer: its good entries sorted by id, and why the others are bad, by id or position."""

    entries: tuple[Entry, ...]
    complete: bool
    skipped: Mapping[str, str] = field(default_factory=dict)


def read_listing(answer: object) -> Listing:
    """Read one answer. Raises BadListError if it is no list at all."""
    if not isinstance(answer, dict):
        raise BadListError(f"not an object but {type(answer).__name__}")
    told, complete = answer.get("pools"), answer.get("complete")
    if not isinstance(told, list):
        raise BadListError("`pools` is not a list")
    if not isinstance(complete, bool):
        raise BadListError("`complete` is neither true nor false")
    if len(told) > POOLS_MAX:
        raise BadListError(f"{len(told)} pools, more than {POOLS_MAX}")
    good: dict[str, Entry] = {}
    skipped: dict[str, str] = {}
    for position, item in enumerate(told):
        try:
            entry = _entry(item)
            _must_be_new(entry, good)
        except _BadEntryError as why:
            label = _label(item, position)
            skipped[f"entry {position}" if label in skipped else label] = str(why)
        else:
            good[entry.name] = entry
    return Listing(tuple(good[name] for name in sorted(good)), complete, skipped)


class Discovery:
    """The list that is believed; none before the first answer. `on_publish` gets every new one."""

    def __init__(self, config: DiscoveryConfig, alarms: Alarms, now: float) -> None:
        self.config = config
        self._alarms = alarms
        self._pools: dict[str, Pool] = {}
        self._confirmed_s = now
        self.calls_failed = 0
        """Calls that told nothing."""
        self.entries_skipped = 0
        """Bad entries, over all calls."""
        self.skipped: Mapping[str, str] = {}
        """Bad entries of the last call that told something, and why."""
        self.problem = "not asked yet"
        """What is wrong with the last call; empty: nothing."""
        self.on_publish: Callable[[Catalog], None] = _nobody_listens

    def age_s(self, now: float) -> float:
        """Return for how long the list was not confirmed, in seconds; before the first answer since the start."""
        return now - self._confirmed_s

    def told(self, answer: object, now: float) -> None:
        """Take in what a call told, decoded JSON or Failed, and publish the list if it has changed."""
        try:
            listing = self._believed(answer)
        except BadListError as why:
            self.calls_failed += 1
            self.problem = str(why)
        else:
            self.problem = ""
            self._confirmed_s = now
            self._take(listing)
        stale = self.age_s(now) >= self.config.discovery_stale_s
        self._alarms.set(AlarmKind.STALE_DISCOVERY, now, on=stale, detail=self.problem)

    def _believed(self, answer: object) -> Listing:
        """Return a listing that says something. Raises BadListError."""
        if isinstance(answer, Failed):
            raise BadListError(answer.why)
        listing = read_listing(answer)
        self.entries_skipped += len(listing.skipped)
        self.skipped = listing.skipped
        if listing.skipped and self.config.discovery_strict:
            raise BadListError("; ".join(f"{label}: {why}" for label, why in listing.skipped.items()))
        if not listing.entries and self._pools:
            raise BadListError("an empty list, which is not believed")
        return listing

    def _take(self, listing: Listing) -> None:
        adds_only = not listing.complete
        pools = dict(self._pools) if adds_only else {}
        owner = {f.url: f.pool for pool in pools.values() for f in pool.frontends}
        for entry in listing.entries:
            # A machine that seems to have moved stays where it is until a complete list says so.
            urls = [url for url in entry.urls if owner.get(url, entry.name) == entry.name]
            if urls and (entry.name in pools or len(pools) < POOLS_MAX):
                pools[entry.name] = _pool(entry, urls, self._pools.get(entry.name), adds_only=adds_only)
        if pools == self._pools:
            return
        self._pools = pools
        self.on_publish(Catalog(pools.values()))


def discovering(discovery: Discovery, clock: Clock) -> Generator[Fetch | Wait, object, None]:
    """Ask for the list, at once and then on the interval."""
    config = discovery.config
    while True:
        began_s = clock.monotonic()
        answer = yield Fetch(SOURCE, began_s + config.discovery_timeout_s)
        now = clock.monotonic()
        discovery.told(answer, now)
        yield Wait(max(now, began_s + config.discovery_interval_s))


def _pool(entry: Entry, urls: list[str], known: Pool | None, *, adds_only: bool) -> Pool:
    """Make a pool of an entry; frontends that are known keep their names and come first in their old order."""
    frontends = [f for f in known.frontends if adds_only or f.url in urls] if known else []
    listed, names = {f.url for f in frontends}, {f.name for f in frontends}
    free = (name for index in count() if (name := f"{entry.name}-{index}") not in names)
    fresh = [url for url in urls if url not in listed][: FRONTENDS_MAX - len(frontends)]
    frontends += [Frontend(entry.name, next(free), url) for url in fresh]
    models = (*known.models, *entry.models) if known and adds_only else entry.models
    return Pool(entry.name, tuple(frontends), tuple(dict.fromkeys(models)), entry.draining)


def _entry(item: object) -> Entry:
    """Read one entry. Raises _BadEntryError."""
    if not isinstance(item, dict):
        raise _BadEntryError("not an object")
    name, draining = item.get("id"), item.get("draining", False)
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise _BadEntryError("`id` is not a name of letters, digits, dots, dashes and underscores")
    if not isinstance(draining, bool):
        raise _BadEntryError("`draining` is neither true nor false")
    models = _texts(item.get("models"), "models")
    urls = tuple(url.rstrip("/") for url in _texts(item.get("urls"), "urls"))
    bad = next((url for url in urls if not _is_address(url)), None)
    if bad is not None:
        raise _BadEntryError("a URL with @ in it" if "@" in bad else f"{bad[:80]!r} is not http://HOST:PORT")
    if len(urls) > FRONTENDS_MAX:
        raise _BadEntryError(f"{len(urls)} URLs, more than {FRONTENDS_MAX}")
    return Entry(name, tuple(sorted(set(urls))), tuple(dict.fromkeys(models)), draining)


def _texts(value: object, key: str) -> list[str]:
    """Read a list of texts that is not empty. Raises _BadEntryError."""
    if not isinstance(value, list) or not value or not all(isinstance(text, str) and text for text in value):
        raise _BadEntryError(f"`{key}` is not a list of texts with at least one")
    return value


def _is_address(url: str) -> bool:
    found = _URL.fullmatch(url)
    return found is not None and "@" not in url and 0 < int(found[1] or 1) < 65536 and not set(url) & set("?#")


def _must_be_new(entry: Entry, good: Mapping[str, Entry]) -> None:
    """Check that no other pool has the id or a URL of this one. Raises _BadEntryError."""
    if entry.name in good:
        raise _BadEntryError("the id is listed twice")
    for other in good.values():
        shared = set(other.urls).intersection(entry.urls)
        if shared:
            raise _BadEntryError(f"{min(shared)} belongs to pool {other.name}")


def _label(item: object, position: int) -> str:
    name = item.get("id") if isinstance(item, dict) else None
    return name if isinstance(name, str) and _ID.fullmatch(name) else f"entry {position}"


def _nobody_listens(_: Catalog) -> None:
    """Stand in until a driver wants to be told."""
