"""TOML -> Scenario, strictly: what is not understood is an error, never ignored.

Every error is one line: the file, the key, what is wrong, and what to do. A command line that meets one exits with 2.
"""

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from scenarios import exactness, rules
from scenarios.keys import culprit, nearest, takes, unknown_keys
from scenarios.presets import filled
from scenarios.problem import Problem
from scenarios.spec import Load, Range, Scenario, Span
from scenarios.world import replay
from scenarios.world.replay import Arrival, ReplayError

CATALOG = Path(__file__).parent / "catalog"
SCENARIO_BYTES_MAX = 64 * 1024
"""A scenario is a page of text; what is larger is some other file."""

_EXAMPLES = {
    "expect": 'say what clients must see, and how often: expect.answers = { "200" = 10 }, above the first [table]',
}
"""What to write where a table is missing and the word for it would not help."""


class LoadError(ValueError):
    """A scenario cannot be used; the text is one line with file, key, what is wrong and the remedy."""

    exit_code: ClassVar[int] = 2

    def __init__(self, path: Path | str, key: str, what: str, remedy: str) -> None:
        where = f"{path}: {key}" if key else str(path)
        super().__init__(_one_line(f"{where}: {what}; remedy: {remedy}"))


def catalog() -> list[Path]:
    """Return the files of the scenarios that come with Pooldrill, sorted by name."""
    return sorted(CATALOG.glob("*.toml"))


def load(name_or_path: str | Path) -> Scenario:
    """Read and check one scenario, given by its name in the catalog or by the path of its file. Raises LoadError."""
    path = find(name_or_path)
    scenario = parse(_read(path), path)
    if scenario.name != path.stem:
        remedy = f'name = "{path.stem}", or rename the file to {scenario.name}.toml'
        raise LoadError(path, "name", f"is {scenario.name!r}, but the file is {path.name}", remedy)
    return scenario


def find(name_or_path: str | Path) -> Path:
    """Return the file that a name of the catalog or a path stands for. Raises LoadError if it can be neither."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text:
        return Path(name_or_path)
    path = CATALOG / f"{text}.toml"
    if path in catalog():
        return path
    known = [entry.stem for entry in catalog()]
    meant = nearest(text, known)
    remedy = f"did you mean {meant}?" if meant else "see pooldrill list, or name a .toml file"
    raise LoadError(text or "''", "", "no scenario of this name", remedy)


def _read(path: Path) -> str:
    return _text(path, SCENARIO_BYTES_MAX, "a scenario", "a scenario is a page of TOML; check that this is one")


def _text(path: Path, bytes_max: int, what: str, remedy: str) -> str:
    """Return the text of a file of at most so many bytes. Raises LoadError."""
    content = _content(path, bytes_max, what)
    if len(content) > bytes_max:
        raise LoadError(path, "", f"is larger than {bytes_max // 1024} KiB", remedy)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise LoadError(path, "", f"is not UTF-8 at byte {error.start}", "save it as UTF-8") from None


def _content(path: Path, bytes_max: int, what: str) -> bytes:
    """Return what a file holds, or a byte more than is allowed."""
    remedy = f"name {'a .toml file' if what == 'a scenario' else what} that can be read"
    try:
        # A pipe would block, and a device might never end.
        irregular = path.exists() and not path.is_file()
        if not irregular:
            with path.open("rb") as file:
                return file.read(bytes_max + 1)
    except OSError as error:
        raise LoadError(path, "", (error.strerror or str(error)).lower(), remedy) from None
    except ValueError as error:  # a NUL in the path
        raise LoadError(path, "", str(error), remedy) from None
    raise LoadError(path, "", "is not a file", remedy)


def parse(text: str, path: Path) -> Scenario:
    """Turn the text of a scenario into a Scenario that keeps every rule; `path` is for errors. Raises LoadError."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise LoadError(path, "", f"is not TOML: {error}", "mend the syntax there") from None
    for key, remedy in unknown_keys(data):
        raise LoadError(path, key, "unknown key", remedy)
    scenario = _with_traces(_convert(_with_presets(data), path), path)
    for problem in problems(scenario):
        raise LoadError(path, problem.key, problem.what, problem.remedy)
    return scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield what makes a well-typed scenario impossible to run or to judge, the plainest first."""
    return itertools.chain(rules.problems(scenario), exactness.problems(scenario) if scenario.exact else ())


def _with_presets(data: dict[str, Any]) -> dict[str, Any]:
    """Fill in what layers take from their presets; a preset that is not known is left to the rules."""
    layers = data.get("layers")
    if not isinstance(layers, list):
        return data
    return {**data, "layers": [filled(layer) if isinstance(layer, dict) else layer for layer in layers]}


def _with_traces(scenario: Scenario, path: Path) -> Scenario:
    """Fill in the arrivals of every replay from the file beside the scenario. Raises LoadError."""
    loads = []
    for index, load in enumerate(scenario.load):
        if load.replayed:
            remedy = 'arrivals = "replay", and file = "TRACE.csv" beside the scenario'
            raise LoadError(path, f"load[{index}].replayed", "is read from a file", remedy)
        if load.arrivals == "replay" and load.file:
            load = msgspec.structs.replace(load, replayed=_trace(load, path.parent))  # noqa: PLW2901 - the same load
        loads.append(load)
    return msgspec.structs.replace(scenario, load=tuple(loads))


def _trace(load: Load, folder: Path) -> tuple[Arrival, ...]:
    path = folder / load.file
    try:
        entries = replay.parse(_text(path, replay.BYTES_MAX, "a trace", "cut it"))
    except ReplayError as error:
        raise LoadError(f"{path}:{error.line}" if error.line else path, "", error.what, error.remedy) from None
    found = replay.stretched(entries, rate_rps=load.rate_rps, start_s=load.start_s, end_s=load.end_s)
    return tuple(found)


def _convert(data: dict[str, Any], path: Path) -> Scenario:
    try:
        return msgspec.convert(data, Scenario)
    except msgspec.ValidationError as error:
        key, what = _located(str(error))
        if "[...]" in key:
            table = key.split("[...]")[0]
            key = key.replace("[...]", "." + culprit(data, table, Span if table == "expect.measures" else int | Range))
        remedy = _EXAMPLES.get(key, f"give {takes(key) or 'what the schema says'}")
        raise LoadError(path, key, what, remedy) from None


def _located(message: str) -> tuple[str, str]:
    """Split a message such as "Expected `int`, got `str` - at `$.load[0].rate_rps`" into key and what is wrong."""
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    what = what.replace("`", "").replace("object", "table").replace("enum value", "value")
    missing = re.fullmatch(r"(?i)object missing required field `(\w+)`", message.partition(" - at ")[0])
    if missing:
        return ".".join(part for part in (key, missing[1]) if part), "is missing"
    return key, what[0].lower() + what[1:]


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
