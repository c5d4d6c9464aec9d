"""What explains survivors fits the code it speaks of, and properties are mutated like methods."""

import re

import pytest

from tests.mutation.run import EXPLANATIONS, ROOT, Explanation, explanations, with_plain_properties

CORE = ROOT / "router" / "core"
ROWS = explanations(EXPLANATIONS.read_text())


def source_of(module: str) -> str:
    """Return a module's source, or a package's, with every run of white space as one blank."""
    paths = [CORE / f"{module}.py"] if (CORE / f"{module}.py").exists() else sorted((CORE / module).glob("*.py"))
    return re.sub(r"\s+", " ", " ".join(path.read_text() for path in paths))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.where}: {row.was}")
def test_what_is_explained_is_still_in_the_code(row: Explanation) -> None:
    modules = sorted(path.stem for path in CORE.iterdir()) if row.where == "*" else [row.where.partition(".")[0]]
    assert any(all(part in source_of(module) for part in row.was.split("…")) for module in modules)
    assert row.why


def test_a_kind_of_mutant_is_one_place_one_text_and_what_becomes_of_it() -> None:
    (row,) = explanations("| where | was |\n| --- | --- |\n| `a.f` | `if x \\| … :` | `…XX…` | because |\n")
    assert row == Explanation("a.f", "if x | … :", "…XX…", "because")
    assert row.covers("a.f", "if x | y :", "aXXb")
    assert row.covers("a.f.g", "if x | y :", "XX")
    assert not row.covers("a.fg", "if x | y :", "XX")
    assert not row.covers("a.f", "if x | y", "XX")
    assert not row.covers("a.f", "if x | y :", "X")


def test_a_property_becomes_a_method_first() -> None:
    source = """class C:
    @property
    def x(self) -> int:
        \"\"\"Say so.\"\"\"
        return 1

    def y(self) -> int:
        return 2
"""
    plain = with_plain_properties(source)
    assert "@property" not in plain
    assert "    x = property(x)\n" in plain
    scope: dict[str, type] = {}
    exec(plain, scope)
    assert (scope["C"]().x, scope["C"]().y()) == (1, 2)
