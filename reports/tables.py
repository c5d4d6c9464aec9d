"""The tables of the page, one function each: runs and verdicts in, HTML out."""

import math
from collections import Counter
from collections.abc import Sequence

from reports.judgement import ARM_WORDS, Verdicts, law
from reports.markup import Markup, element, joined, prose, table
from reports.measures import Run, quantile, span
from scenarios.fitness import tries_told, unfit
from scenarios.record import Fault, Record
from scenarios.rules import bounds
from scenarios.verdict import Verdict

ROWS_MAX = 60
"""Kinds of answers or sends that a table shows; foreign routers may invent any number of them."""
NONE = "\N{EN DASH}"

_MARKS = {"pass": "\N{CHECK MARK} pass", "fail": "\N{BALLOT X} fail", "undecided": "? undecided"}
_SHARES = (0.5, 0.9, 0.99)


def answers(runs: Sequence[Run]) -> Markup:
    """Show what clients were expected to see, and what they saw."""
    expected = runs[0].record.scenario.expect.answers
    names = [*expected, *sorted({answer for run in runs for answer in run.answers} - expected.keys())]
    rest = "0" if expected else "any"  # a scenario of layers may leave open what its clients see
    rows = [
        [name, _range(bounds(expected[name])) if name in expected else rest, *(str(run.answers[name]) for run in runs)]
        for name in names
    ]
    heads = ["a client saw", "expected", *(run.short for run in runs)]
    return table("Answers to requests (count)", heads, _bounded(rows, len(heads)), class_="numbers")


def sends(runs: Sequence[Run]) -> Markup:
    """Show sends by pool, delivery and outcome."""
    kinds = sorted({kind for run in runs for kind in run.outcomes})
    rows = [[*kind, *_counts([run.outcomes for run in runs], kind)] for kind in kinds]
    heads = ["pool", "delivery", "status or cause", *(run.short for run in runs), *_difference_head(runs)]
    return table("Sends (count)", heads, _bounded(rows, len(heads)), class_="numbers")


def amplification(runs: Sequence[Run]) -> Markup:
    """Show how many requests, sends and bodies an operation took."""
    of = [run.amplification for run in runs]
    rows = [
        ["operations", *(str(one.operations) for one in of)],
        ["requests", *(str(one.requests) for one in of)],
        ["sends", *(str(one.sends) for one in of)],
        ["whole bodies at pools", *(str(one.bodies) for one in of)],
        ["requests / operations", *(_number(one.requests_per_operation) for one in of)],
        ["send_amplification (sends / operations)", *(_number(one.send_amplification) for one in of)],
        ["bodies per operation", *(_number(one.bodies_per_operation) for one in of)],
        ["bodies per request, highest (law: at most 1)", *(str(one.bodies_per_request_max) for one in of)],
    ]
    return table("Amplification", ["", *(run.short for run in runs)], rows, class_="numbers")


def latency(runs: Sequence[Run]) -> Markup:
    """Show quantiles of latency from the intended start."""
    rows = [
        *_quantile_rows("first token", [run.latencies.first_token_s for run in runs]),
        *_quantile_rows("whole answer", [run.latencies.total_s for run in runs]),
    ]
    heads = ["", *(run.short for run in runs), *_difference_head(runs)]
    return table("Latency of complete answers, from the intended start", heads, rows, class_="numbers")


def checks(verdicts: Verdicts) -> Markup:
    """Show all checks: those of one run in one table with a column for each run, those of two runs in another."""
    arms = [arm for arm in verdicts if arm != "agreement"]
    parts = [_checks_of("Each run by itself", {arm: verdicts[arm] for arm in arms})] if arms else []
    if "agreement" in verdicts:
        parts.append(_checks_of("Real run against model", {"agreement": verdicts["agreement"]}))
    return joined(parts)


def faults(runs: Sequence[Run]) -> Markup:
    """Show when each fault was planned, when it was on, and how that was proved."""
    rows = [_fault(run, fault) for run in runs for fault in run.record.faults]
    heads = ["fault", "run", "planned", "really on", "proof that it was on", "proof that it was gone"]
    return table("Faults (seconds since the start of the run)", heads, _bounded(rows, len(heads)), class_="stack")


def about(runs: Sequence[Run]) -> Markup:
    """Show what made the runs: seed, router, start, versions."""
    metas = [run.record.meta for run in runs]
    names = sorted({name for meta in metas for name in meta.versions})
    rows = [
        ["seed", *(str(meta.seed) for meta in metas)],
        ["router", *(meta.router for meta in metas)],
        ["started", *(meta.started for meta in metas)],
        ["commit", *(meta.commit or NONE for meta in metas)],
        ["fit to be judged", *(_fit(run.record) for run in runs)],
        *([f"{name} version", *(meta.versions.get(name, NONE) for meta in metas)] for name in names),
    ]
    return table("Runs", ["", *(run.short for run in runs)], rows, class_="facts")


def _fit(record: Record) -> str:
    why = unfit(record)
    return f"no: {why}" if why else ", ".join(filter(None, ("yes", tries_told(record))))


def badge(verdict: Verdict) -> Markup:
    """Show a verdict as a word with a shape of its own, not by colour alone."""
    return element("span", _MARKS[verdict.state], class_=f"badge {verdict.state}")


def _checks_of(caption: str, by_arm: Verdicts) -> Markup:
    names = list(dict.fromkeys(name for checks in by_arm.values() for name in checks))
    rows = [
        [
            joined([element("code", name), element("span", prose(law(name)), class_="law")]),
            *(_verdict(checks.get(name)) for checks in by_arm.values()),
        ]
        for name in names
    ]
    heads = ["check", *(ARM_WORDS.get(arm, arm) if len(by_arm) > 1 else "verdict" for arm in by_arm)]
    return table(caption, heads, rows, class_="stack checks")


def _verdict(verdict: Verdict | None) -> Markup:
    if verdict is None:
        return Markup(NONE)
    return joined([badge(verdict), element("span", verdict.detail, class_="detail")])


def _fault(run: Run, fault: Fault) -> list[str]:
    start_s, end_s = span(fault)
    on = f"{start_s:.3f} to {end_s:.3f}" if fault.t_inject is not None else "never"
    return [
        f"{fault.name} on pool {fault.target}",
        run.short,
        f"{fault.planned_inject:.3f} to {fault.planned_clear:.3f}",
        on if fault.t_clear is not None or fault.t_inject is None else f"{start_s:.3f} to the end of the run",
        _proof(fault.proof, given=fault.proved),
        _proof(fault.cleared_proof, given=fault.cleared),
    ]


def _proof(text: str, *, given: bool) -> str:
    return (text or "yes") if given else f"not proved{': ' if text else ''}{text}"


def _counts(counters: Sequence[Counter[tuple[str, str, str]]], kind: tuple[str, str, str]) -> list[str]:
    counts = [counter[kind] for counter in counters]
    return [*map(str, counts), *([_signed(f"{counts[1] - counts[0]:+d}")] if len(counts) > 1 else [])]


def _quantile_rows(what: str, ascending: Sequence[Sequence[float]]) -> list[list[str]]:
    blank = [""] * (len(ascending) - 1)
    counted = [f"{what}: operations", *(str(len(values)) for values in ascending), *blank]
    return [counted, *([f"{what}: {_p(share)}", *_quantiles(ascending, share)] for share in _SHARES if any(ascending))]


def _quantiles(values: Sequence[Sequence[float]], share: float) -> list[str]:
    found = [quantile(ascending, share) for ascending in values]
    difference = [found[1] - found[0]] if len(found) > 1 else []
    return [*map(_milliseconds, found), *(_signed(_milliseconds(value, "+")) for value in difference)]


def _difference_head(runs: Sequence[Run]) -> list[str]:
    return ["model \N{MINUS SIGN} real"] if len(runs) > 1 else []


def _bounded(rows: list[list[str]], columns: int) -> list[list[str]]:
    if len(rows) <= ROWS_MAX:
        return rows
    return [*rows[:ROWS_MAX], [f"and {len(rows) - ROWS_MAX} more", *([""] * (columns - 1))]]


def _range(both: tuple[int, int]) -> str:
    low, high = both
    return str(low) if low == high else f"{low} to {high}"


def _p(share: float) -> str:
    return f"p{share * 100:g}"


def _number(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:.3f}"


def _milliseconds(value_s: float, sign: str = "") -> str:
    return NONE if math.isnan(value_s) else f"{value_s * 1000:{sign}.1f} ms"


def _signed(text: str) -> str:
    """Write a difference with a true minus, and one that is nothing without a sign."""
    return text.replace("-", "\N{MINUS SIGN}") if text.strip("+-0. ms") else text.lstrip("+-")
