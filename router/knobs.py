"""Command-line options made from the fields of a dataclass: a new knob is one new field.

The option's name is the field's with dashes, its type and default are the field's, its help is the docstring below the
field. Impossible values are the dataclass's own business.
"""

import argparse
import ast
import inspect
import re
import textwrap
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from typing import Any


def option_of(name: str) -> str:
    """Return the option that sets a field, e.g. `--deadline-s` for `deadline_s`."""
    return "--" + name.replace("_", "-")


def add_options(parser: argparse.ArgumentParser, kind: type, *, with_help: bool) -> None:
    """Add one option for every field of a dataclass. Help texts cost a look at the source: only `with_help`."""
    group = parser.add_argument_group(title=(kind.__doc__ or kind.__name__).splitlines()[0].rstrip("."))
    texts = _docstrings(kind) if with_help else {}
    for field in fields(kind):
        form = _form(field)
        text = texts.get(field.name)
        if text is not None and "choices" in form:
            text = f"{text}. One of: {', '.join(form['choices'])}"
        group.add_argument(option_of(field.name), dest=field.name, help=text, **form)


def values_of(arguments: argparse.Namespace, kind: type) -> dict[str, Any]:
    """Return the arguments that are fields of the dataclass, by field name."""
    return {field.name: getattr(arguments, field.name) for field in fields(kind)}


def in_words_of_options(message: str, *kinds: type) -> str:
    """Say `--deadline-s` where a dataclass said `deadline_s`."""
    names = "|".join(field.name for kind in kinds for field in fields(kind))
    return re.sub(rf"\b({names})\b", lambda found: option_of(found[0]), message)


def _form(field: "Field[Any]") -> dict[str, Any]:
    """Return how argparse must read a field of one of the types that knobs have."""
    assert field.default is not MISSING, f"{field.name}: every knob has a safe default"
    form: dict[str, Any] = {"default": field.default}
    if field.type is bool:
        return {**form, "action": argparse.BooleanOptionalAction}
    assert isinstance(field.type, type), f"{field.name}: knobs are float, int, str, bool or an enumeration of words"
    if issubclass(field.type, StrEnum):
        return {**form, "type": field.type, "choices": list(field.type), "metavar": "WORD"}
    return {
        **form,
        "type": field.type,
        "metavar": "S" if field.name.endswith(("_s", "_s_max")) else field.type.__name__.upper(),
    }


def _docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings that stand below the fields of a class, by field name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split()).replace("%", "%%") + " (default: %(default)s)"
    return texts
