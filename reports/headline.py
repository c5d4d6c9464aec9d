"""The drill in one sentence that a stranger understands: what was done, what clients saw, whether that was right."""

from collections.abc import Sequence

from reports.judgement import ARM_WORDS, Overall, Verdicts, findings, not_passed
from reports.measures import Answer, Run
from scenarios.fitness import unfit
from scenarios.record import Fault
from scenarios.spec import Scenario

FAULTS_MAX = 3
"""More faults than this are counted, not told one by one."""

_ANSWERED = (Answer.FIRST, Answer.FAILED_OVER)
_OTHERWISE = {
    Answer.MAYBE_RUNNING: "{} got 503 maybe_running",
    Answer.ERROR: "{} got another error",
    Answer.BREAK: "{} broke off visibly in mid-answer",
    Answer.NONE: "{} got no clear answer",
}


def story(runs: Sequence[Run]) -> str:
    """Tell what was done and what clients saw: in the real run if there is one, else in the model."""
    run = next((run for run in runs if run.real), runs[0])
    where = "" if run.real else "In the model, "
    return f"{_sentence(where + done(run))} {_sentence(seen(run))}"


def done(run: Run) -> str:
    """Say which faults were made."""
    faults = run.record.faults
    if not faults:
        return "no fault was made"
    if len(faults) > FAULTS_MAX:
        pools = sorted({fault.target for fault in faults})
        return f"{len(faults)} faults were made on {len(pools)} pool{_s(len(pools))} ({', '.join(pools)})"
    return _listed([_fault(fault, run.record.scenario) for fault in faults])


def seen(run: Run) -> str:
    """Say what clients got, and whether pools received anything twice."""
    total = len(run.marks)
    if not total:
        return "no request was made"
    answered = sum(run.classes[answer] for answer in _ANSWERED)
    moved = run.classes[Answer.FAILED_OVER]
    statuses = {str(mark.request.status) for mark in run.marks if mark.answer in _ANSWERED}
    status = f" {statuses.pop()}" if len(statuses) == 1 else ""
    parts = [f"{answered} of {total} request{_s(total)} {_were(answered)} answered{status}"]
    if moved:
        parts[0] += f" ({moved} of them by another pool)"
    others = {kind: run.classes[kind] for kind in _OTHERWISE if run.classes[kind]}
    parts += [_OTHERWISE[kind].format(count) for kind, count in others.items()]
    return _listed(parts) + _twice(run)


def outcome(verdicts: Verdicts, overall: Overall, runs: Sequence[Run]) -> str:
    """Say whether it was right, or what broke first."""
    total = sum(1 for _ in findings(verdicts))
    if overall == "pass":
        return f"All {total} checks passed" + ("; the model agrees." if "agreement" in verdicts else ".")
    if overall == "invalid":
        why = "; ".join(why for run in runs if (why := unfit(run.record)))
        return f"This says nothing about the router, since the run is not fit to be judged: {why}."
    wrong = [finding for finding in not_passed(verdicts) if overall != "fail" or finding.verdict.state == "fail"]
    if not wrong:
        return "Nothing was checked."
    verb = "failed" if overall == "fail" else "could not be decided"
    first = f"{wrong[0].check} ({ARM_WORDS.get(wrong[0].arm, wrong[0].arm)})"
    told = f"{len(wrong)} of {total} checks {verb}; first: {first}."
    return f"{_AGREEMENT_ALONE} {told}" if {finding.arm for finding in not_passed(verdicts)} == {"agreement"} else told


_AGREEMENT_ALONE = "Each run by itself is as it should be, but real run and model differ."


def _fault(fault: Fault, scenario: Scenario) -> str:
    if fault.t_inject is None:
        return f"the planned fault {fault.name} on pool {fault.target} was not made"
    what = _EFFECTS.get(fault.name, "pool {pool} had the fault {name}")
    text = what.format(pool=fault.target, name=fault.name, events=_events(fault, scenario))
    if fault.t_clear is None:
        return f"{text} from {fault.t_inject:.1f} s to the end"
    return f"{text} for {fault.t_clear - fault.t_inject:.1f} s"


_EFFECTS = {
    "refused": "pool {pool} refused every connection",
    "black_hole": "connections to pool {pool} hung unanswered",
    "read_drop": "pool {pool} read whole requests and closed without an answer",
    "cut": "streams of pool {pool} were cut{events}",
    "capacity_loss": "pool {pool} had lost slots",
    "slow_down": "pool {pool} worked more slowly",
    "errors": "pool {pool} failed a share of its requests",
}


def _events(fault: Fault, scenario: Scenario) -> str:
    wanted = (fault.name, fault.target, fault.planned_inject)
    counts = [plan.after_events for plan in scenario.faults if (plan.kind, plan.pool, plan.inject_s) == wanted]
    return f" after {counts[0]} event{_s(counts[0])}" if counts and counts[0] is not None else ""


def _twice(run: Run) -> str:
    if not run.pools_of_body:
        return ""
    twice = sum(len(pools) > 1 for pools in run.pools_of_body.values())
    return f"; {twice} {_were(twice)} received more than once" if twice else "; none was received twice"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
