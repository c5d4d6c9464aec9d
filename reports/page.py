"""One self-contained page for one scenario, with pictures and CSV files beside it.

The page fetches nothing: pictures are in it, and its own policy forbids everything else. The same records give the same
bytes, so no wall clock is read here.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from reports import banner, exports, headline, judgement, tables
from reports.judgement import Overall, Verdicts
from reports.markup import Markup, element, joined
from reports.measures import Run
from scenarios.record import Record

_GLOSSARY = {
    "operation": "What a user's program asked for, once. A retry by its SDK belongs to the same operation.",
    "request": "One HTTP request that reached the router. Each retry by a client is a new request.",
    "send": "One hand-over of a request to one pool by the router; at most two for each request.",
    "delivery": "What is known of a send. answered: the pool's status came. unsent: the pool provably never had the "
    "request, so it may go to another pool. unknown: anything else; a pool may be running it, so it must not be sent "
    "again.",
    "failover": "A second send, to another pool, after the first was unsent.",
    "503 maybe_running": "What a client is told when delivery is unknown: an honest error instead of a second run.",
    "visible break": "A stream that ends without its end mark, so that the client knows that something is missing.",
    "whole body": "A request's body that a pool received to its end. Counted at the pools, not in the router's log.",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and what it says."""

    overall: Overall
    sentence: str
    page: Path
    beside: tuple[Path, ...]
    """Pictures and CSV files."""


class ReportError(ValueError):
    """No report can be made of this, or not there; the text is one line with the remedy."""

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def write_report(
    *, real: Record | None, simulated: Record | None, out: Path, verdicts: Verdicts | None = None
) -> Report:
    """Write OUT/NAME.html with NAME.timeline.png, NAME.sends.png, NAME.requests.csv and NAME.sends.csv.

    With one record alone the names start with NAME.MODE. `verdicts` (keys real, simulated, agreement) are worked out
    if they are not given. Raises ReportError if there is no record, the two are of different scenarios, or the files
    cannot be written.
    """
    records = _checked(real, simulated)
    runs = [Run(record) for record in records]
    known = judgement.judged(records) if verdicts is None else verdicts
    pictures = _pictures(runs)
    name = records[0].scenario.name + ("" if len(records) > 1 else f".{records[0].meta.mode}")
    beside: dict[str, bytes] = {
        f"{name}.timeline.png": pictures.timeline,
        f"{name}.sends.png": pictures.sends,
        f"{name}.requests.csv": exports.requests_csv(runs).encode(),
        f"{name}.sends.csv": exports.sends_csv(runs).encode(),
    }
    overall = judgement.overall(known, records)
    sentence = f"{headline.story(runs)} {headline.outcome(known, overall, runs)}"
    page = _page(runs, known, pictures, files=sorted(beside), sentence=sentence)
    _write(out, {**beside, f"{name}.html": page.encode()})
    return Report(overall, sentence, out / f"{name}.html", tuple(out / path for path in beside))


@dataclass(frozen=True, slots=True)
class _Pictures:
    """PNG files."""

    timeline: bytes
    narrow: bytes
    sends: bytes


def _checked(real: Record | None, simulated: Record | None) -> list[Record]:
    """Return the records that are there. Raises ReportError if they cannot be shown on one page."""
    given = {"real": real, "simulated": simulated}
    records = [record for record in given.values() if record is not None]
    if not records:
        raise ReportError("no record to report on; remedy: name one")
    for mode, record in given.items():
        if record is not None and record.meta.mode != mode:
            raise ReportError(f"the {mode} record is of a {record.meta.mode} run; remedy: name each as what it is")
    first, last = records[0], records[-1]
    if first.scenario.name != last.scenario.name:
        both = f"{first.scenario.name} and {last.scenario.name}"
        raise ReportError(f"the records are of different scenarios, {both}; remedy: name two of the same")
    if (first.scenario, first.meta.seed) != (last.scenario, last.meta.seed):
        what = f"the records are of different versions or seeds of {first.scenario.name}"
        raise ReportError(f"{what}; remedy: run it again with pooldrill compare")
    return records


def _pictures(runs: list[Run]) -> _Pictures:
    from reports import pictures, timeline  # noqa: PLC0415 - matplotlib takes seconds to import

    with pictures.style():
        return _Pictures(
            timeline=pictures.png(timeline.timeline(runs, width_in=pictures.WIDE_IN)),
            narrow=pictures.png(timeline.timeline(runs, width_in=pictures.NARROW_IN)),
            sends=pictures.png(pictures.bars(runs)),
        )


def _page(runs: list[Run], verdicts: Verdicts, pictures: _Pictures, *, files: list[str], sentence: str) -> str:
    scenario = runs[0].record.scenario
    overall = judgement.overall(verdicts, [run.record for run in runs])
    body = joined(
        [
            element("p", "Pooldrill report \N{MIDDLE DOT} scenario ", element("code", scenario.name), class_="kicker"),
            element("h1", scenario.title),
            banner.verdict(overall, sentence),
            banner.what_broke(runs, verdicts),
            element("p", element("b", "What this drill is about. "), scenario.story) if scenario.story else Markup(),
            element("h2", "What clients saw"),
            tables.answers(runs),
            element("h2", "Timeline"),
            _timeline(runs, pictures),
            element("h2", "Sends per pool and delivery"),
            element("div", _bars(pictures), tables.sends(runs), class_="beside"),
            element("h2", "Amplification and latency: shown, not judged yet"),
            element("div", tables.amplification(runs), tables.latency(runs), class_="beside"),
            element("p", _LATENCY_NOTE, class_="note"),
            element("h2", "All checks"),
            tables.checks(verdicts),
            element("h2", "Faults"),
            tables.faults(runs) if any(run.record.faults for run in runs) else element("p", "No fault was made."),
            element("h2", "The runs, and how to make them again"),
            tables.about(runs),
            banner.rerun(runs),
            element("p", f"Beside this page: {', '.join(files)}.", class_="note"),
            element("h2", "Words"),
            _glossary(),
        ],
        "\n",
    )
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    title = joined([f"{overall.upper()}: {scenario.name} \N{MIDDLE DOT} Pooldrill report"])
    return template.substitute(title=title, body=body)


_LATENCY_NOTE = (
    "Latency counts from the moment an operation was due, not from when it could be started. Quantiles are values that "
    "really occurred: p99 of fewer than 100 operations is the slowest one. First tokens are those of streams. The real "
    "run also pays for sockets, processes and the harness itself."
)


def _timeline(runs: list[Run], pictures: _Pictures) -> Markup:
    narrow = element("source", media="(max-width: 640px)", srcset=_data(pictures.narrow))
    wide = element("img", src=_data(pictures.timeline), alt=_timeline_text(runs))
    note = "Each mark is a request: when it was due, and how long its answer (or its end) took. Shaded: the fault."
    return element("figure", element("picture", narrow, wide), element("figcaption", note, class_="note"))


def _timeline_text(runs: list[Run]) -> str:
    told = [f"{run.title}: {headline.done(run)}; {headline.seen(run)}" for run in runs]
    return f"Timeline of latency and of sends per pool. {'. '.join(told)}."


def _bars(pictures: _Pictures) -> Markup:
    alt = "Bars of the number of sends by pool and delivery; the table beside it has the same numbers."
    return element("figure", element("img", src=_data(pictures.sends), alt=alt))


def _glossary() -> Markup:
    return element("dl", *(joined([element("dt", word), element("dd", text)]) for word, text in _GLOSSARY.items()))


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _write(out: Path, files: Mapping[str, bytes]) -> None:
    """Write each file whole or not at all, whoever else writes to the same folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            partial = out / f"{name}.{os.getpid()}.partial"
            partial.write_bytes(content)
            partial.replace(out / name)
    except OSError as error:
        remedy = "name a folder that can be written with --out"
        raise ReportError(f"{error.filename or out}: {error.strerror}; remedy: {remedy}", exit_code=3) from None
