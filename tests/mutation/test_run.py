"""What explains survivors fits the code it speaks of, and properties are mutated like methods."""

import ast

import pytest

from tests.mutation.run import EXPLANATIONS, ROOT, Explanation, explanations, with_plain_properties

CORE = ROOT / "router" / "core"
ROWS = explanations(EXPLANATIONS.read_text())


def places() -> set[str]:
    """Return every function of router/core as MODULE.FUNCTION or MODULE.CLASS.METHOD; packages come first."""
    found = {"*"}
    for path in CORE.rglob("*.py"):
        module = ".".join(path.relative_to(CORE).with_suffix("").parts)
        for owner in ast.walk(ast.parse(path.read_text())):
            if isinstance(owner, ast.Module | ast.ClassDef):
                prefix = f"{module}.{owner.name}" if isinstance(owner, ast.ClassDef) else module
                found |= {f"{prefix}.{node.name}" for node in owner.body if isinstance(node, ast.FunctionDef)}
    return found


PLACES = places()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.where}: {row.was}")
def test_what_is_explained_has_a_place_and_a_reason(row: Explanation) -> None:
    assert row.where in PLACES, "the function is gone: so is its explanation"
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
