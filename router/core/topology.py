"""Pools, their frontends, and which pools serve a model."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frontend:
    """One address of a pool; `name` is unique over all pools and the same in the real run and the model."""

    pool: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Frontends that share one fate and one model set; `models` empty means: serves whatever is asked of it."""

    name: str
    frontends: tuple[Frontend, ...]
    models: tuple[str, ...] = ()
    draining: bool = False

    @classmethod
    def of_urls(cls, name: str, urls: Iterable[str], models: Iterable[str] = ()) -> "Pool":
        """Build a static pool; its frontends are called NAME-0, NAME-1, ... in the order of the URLs."""
        frontends = tuple(Frontend(name, f"{name}-{index}", url) for index, url in enumerate(urls))
        return cls(name, frontends, tuple(models))

    def serves(self, model: str) -> bool:
        """Tell whether a request for the model may go here."""
        return not self.models or model in self.models


class Catalog:
    """The pools of one moment, sorted by name; pools without frontends are left out."""

    __slots__ = ("_named", "pools")

    def __init__(self, pools: Iterable[Pool]) -> None:
        self.pools = tuple(sorted((p for p in pools if p.frontends), key=lambda p: p.name))
        _must_differ("pool", [p.name for p in self.pools])
        _must_differ("frontend", [f.name for p in self.pools for f in p.frontends])
        self._named = frozenset(model for p in self.pools for model in p.models)
        if "" in self._named:
            raise ValueError("a model name must not be empty")

    def cursor_for(self, model: str) -> str:
        """Return the name under which state is kept for a model: its own if a pool lists it, else "" for all others.

        Clients choose the names they ask for, so state under every name asked for would have no bound.
        """
        return model if model in self._named else ""

    def cursors(self) -> Iterator[str]:
        """Yield every name under which state of a model is kept."""
        yield from sorted(self._named)
        if any(not pool.models for pool in self.pools):
            yield ""

    def pools_for(self, model: str) -> tuple[Pool, ...]:
        """Return the pools that serve the model, sorted by name."""
        return tuple(p for p in self.pools if p.serves(model))

    def __repr__(self) -> str:
        return f"<Catalog {' '.join(f'{p.name}:{len(p.frontends)}' for p in self.pools)}>"


def _must_differ(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} names must differ: {', '.join(twice)}")
