"""HTML that is escaped by construction.

Every plain string that is put into an element is escaped; only `Markup`, which nothing but this module makes, goes in
as it is. So whatever a record or a scenario says (names, error codes, proofs) shows up as text and never as markup.
"""

import html
from collections.abc import Iterable, Sequence

_VOID = frozenset(("img", "source", "br"))


class Markup(str):
    """A piece of HTML that is complete and safe."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str) -> Markup:
    """Return one element. Underscores in attribute names become hyphens, a trailing one (`class_`) is dropped."""
    opened = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{opened}>") if name in _VOID else Markup(f"<{opened}>{joined(children)}</{name}>")


def joined(children: Iterable[str], separator: str = "") -> Markup:
    """Return pieces one after the other, plain strings escaped."""
    return Markup(html.escape(separator).join(_safe(child) for child in children))


def prose(text: str) -> Markup:
    """Return a text in which `backticks` mark code, as docstrings have them."""
    pieces = text.split("`")
    return joined(element("code", piece) if turn % 2 else piece for turn, piece in enumerate(pieces))


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], **attributes: str) -> Markup:
    """Return a table whose first column names the row; on a narrow screen its style may stack the cells.

    Each cell repeats its heading as `data-label`, which the style shows where the heading row is hidden.
    """
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in headings)))
    body = element("tbody", *(_row(headings, row) for row in rows))
    return element("div", element("table", element("caption", caption), head, body, **attributes), class_="scroll")


def _row(headings: Sequence[str], cells: Sequence[str]) -> Markup:
    named = element("th", cells[0], scope="row")
    others = (element("td", cell, data_label=text) for text, cell in zip(headings[1:], cells[1:], strict=True))
    return element("tr", named, *others)


def _safe(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(text)
