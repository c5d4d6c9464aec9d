"""What a scenario file may contain, key by key: finds keys that do not exist, and says what a key takes.

Everything is read from the types in spec.py, so that a new field needs no second entry here.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from scenarios.spec import Scenario


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that was most probably meant."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return found[0] if found else None


def unknown_keys(data: Any) -> Iterator[tuple[str, str]]:
    """Yield each key that no part of a scenario knows, as (key path, remedy)."""
    yield from _unknown(data, inspect.type_info(Scenario), "")


def _unknown(data: Any, kind: inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    kind = _bare(kind)
    if isinstance(kind, inspect.StructType) and isinstance(data, Mapping):
        fields = {field.encode_name: field.type for field in kind.fields}
        for key, value in data.items():
            here = f"{path}.{key}" if path else str(key)
            if key in fields:
                yield from _unknown(value, fields[key], here)
            else:
                yield here, _instead(str(key), list(fields))
    elif isinstance(kind, inspect.VarTupleType) and isinstance(data, list):
        for index, value in enumerate(data):
            yield from _unknown(value, kind.item_type, f"{path}[{index}]")


def _instead(key: str, known: list[str]) -> str:
    meant = nearest(key, known)
    return f"did you mean {meant}?" if meant else f"one of {', '.join(known)}"


def takes(path: str) -> str:
    """Say in words what the key at `path` (such as load[0].rate_rps) takes; empty if there is no such key."""
    kind: inspect.Type = inspect.type_info(Scenario)
    for part in path.split("."):
        kind = _bare(kind)
        if isinstance(kind, inspect.DictType):
            kind = kind.value_type
            continue
        name, _, index = part.partition("[")
        fields = {f.encode_name: f.type for f in kind.fields} if isinstance(kind, inspect.StructType) else {}
        if name not in fields:
            return ""
        kind = _bare(fields[name])
        if index and isinstance(kind, inspect.VarTupleType):
            kind = kind.item_type
    return _words(kind)


def _bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without its limits, and without the None of what may be left out."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        given = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _bare(given[0]) if len(given) == 1 else kind
    return kind


def _words(kind: inspect.Type) -> str:
    kind = _bare(kind)
    words = type(kind).__name__
    match kind:
        case inspect.IntType():
            words = f"an integer{_limits(kind)}"
        case inspect.FloatType():
            words = f"a number{_limits(kind)}"
        case inspect.StrType(pattern=pattern):
            words = f"a string of the form {pattern}" if pattern else "a string"
        case inspect.BoolType():
            words = "true or false"
        case inspect.LiteralType(values=values):
            words = f"one of {', '.join(str(value) for value in values)}"
        case inspect.UnionType(types=types):
            words = " or ".join(_words(t) for t in types if not isinstance(t, inspect.NoneType))
        case inspect.TupleType():
            words = "[low, high]"
        case inspect.VarTupleType(min_length=least, max_length=most):
            item = _bare(kind.item_type)
            words = f"a list of tables, {least or 0} to {most} of them"
            if not isinstance(item, inspect.StructType):
                words = f"a list, each {_words(item)}"
        case inspect.StructType() | inspect.DictType():
            words = "a table"
    return words


def _limits(kind: inspect.IntType | inspect.FloatType) -> str:
    named = ((">", kind.gt), (">=", kind.ge), ("<", kind.lt), ("<=", kind.le))
    given = [
        f" {sign} {value:g}" if isinstance(value, float) else f" {sign} {value}"
        for sign, value in named
        if value is not None
    ]
    return " and".join(given)


def culprit(data: Any, path: str, kind: Any) -> str:
    """Name the entry of the table at `path` that does not convert to `kind`; errors only say that one does not."""
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    for key, value in data.items() if isinstance(data, Mapping) else ():
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return str(key)
    return "?"
