"""Pools, frontends, and which pools serve a model."""

import pytest

from router.core.topology import Catalog, Frontend, Pool
from tests.router.core.playbook import pools


def test_frontends_are_named_after_their_pool_in_the_order_of_the_urls() -> None:
    assert Pool.of_urls("a", ["http://x", "http://y"], ["m"]) == Pool(
        "a", (Frontend("a", "a-0", "http://x"), Frontend("a", "a-1", "http://y")), ("m",)
    )


def test_a_catalog_is_sorted_and_leaves_out_pools_without_frontends() -> None:
    catalog = Catalog(pools("c", "b:0", "a:2"))
    assert [pool.name for pool in catalog.pools] == ["a", "c"]
    assert repr(catalog) == "<Catalog a:2 c:1>"


def test_a_pool_without_a_model_list_serves_whatever_is_asked() -> None:
    catalog = Catalog(pools("a=m", "b=n", "c"))
    assert [pool.name for pool in catalog.pools_for("m")] == ["a", "c"]
    assert [pool.name for pool in catalog.pools_for("other")] == ["c"]
    assert [catalog.cursor_for(model) for model in ("m", "n", "other", "")] == ["m", "n", "", ""]


def test_names_must_tell_pools_and_frontends_apart() -> None:
    with pytest.raises(ValueError, match="pool names must differ: a, b"):
        Catalog(pools("b", "b", "a", "a", "c"))
    with pytest.raises(ValueError, match="frontend names must differ: x"):
        Catalog(Pool(name, (Frontend(name, "x", "http://x"),)) for name in "ab")


def test_a_model_name_must_not_be_empty() -> None:
    with pytest.raises(ValueError, match="model name must not be empty"):
        Catalog([Pool.of_urls("a", ["http://x"], [""])])
