"""The top of the page: the verdict in a sentence and, if it is not a pass, what broke and what to do next."""

import re
from collections.abc import Sequence

from reports import judgement, tables
from reports.judgement import Finding, Overall, Verdicts
from reports.markup import Markup, element, joined, prose
from reports.measures import Run
from scenarios.fitness import unfit

OPEN_MAX = 12
"""Checks that did not pass and are told one by one at the top; the table has them all."""

_WORDS: dict[Overall, str] = {
    "pass": "\N{CHECK MARK} PASS",
    "fail": "\N{BALLOT X} FAIL",
    "undecided": "? UNDECIDED",
    "invalid": "! INVALID RUN",
}


def verdict(overall: Overall, sentence: str) -> Markup:
    """Show the one word and the one sentence."""
    word = element("div", _WORDS[overall], class_="word")
    unbroken = re.sub(r"(?<=\d) (?=s\b)", "\N{NO-BREAK SPACE}", sentence)
    return element("section", word, element("p", unbroken), class_=f"verdict {overall}", aria_label="Verdict")


def what_broke(runs: Sequence[Run], verdicts: Verdicts) -> Markup:
    """Tell what did not pass, check by check, and what to do; nothing if all is well."""
    invalid = [why for run in runs if (why := unfit(run.record))]
    wrong = judgement.not_passed(verdicts)
    failing = [finding for finding in wrong if finding.verdict.state == "fail"]
    told = failing if invalid else wrong  # with an invalid run all its checks are undecided, for one reason
    if not told and not invalid:
        return Markup()
    scenario = runs[0].record.scenario.name
    parts = [element("p", f"Not fit to be judged: {reason}") for reason in invalid]
    if told:
        parts += _broken("What broke" if failing else "What could not be decided", scenario, told)
    parts += [element("h3", "What to do next"), rerun(runs)]
    if told:
        command = f".venv/bin/pytest '{judgement.check_id(scenario, told[0])}'"
        parts += [element("p", "Run the first of these checks alone:"), element("pre", command)]
    return joined(parts)


def rerun(runs: Sequence[Run]) -> Markup:
    """Show the command that makes the runs again."""
    command = judgement.rerun_command(runs[0].record.scenario.name, [run.record.meta.mode for run in runs])
    return joined([element("p", "Run the drill again:"), element("pre", command)])


def _broken(heading: str, scenario: str, told: Sequence[Finding]) -> list[Markup]:
    items = [_one(finding, scenario) for finding in told[:OPEN_MAX]]
    if len(told) > OPEN_MAX:
        items.append(element("li", f"and {len(told) - OPEN_MAX} more, in the table of all checks"))
    return [element("h3", heading), element("ul", *items, class_="broke")]


def _one(finding: Finding, scenario: str) -> Markup:
    return element(
        "li",
        tables.badge(finding.verdict),
        " ",
        element("code", judgement.check_id(scenario, finding)),
        element("span", "Must hold: ", prose(finding.law), class_="law"),
        element("span", f"Found: {finding.verdict.detail}"),
    )
