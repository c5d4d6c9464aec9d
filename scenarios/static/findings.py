"""Everything that is wrong with a stack, the worst first."""

import itertools

from scenarios.static.figures import Figures
from scenarios.static.finding import SEVERITIES, Finding
from scenarios.static.on_attempts import on_attempts
from scenarios.static.on_budgets import on_budgets
from scenarios.static.on_pools import on_pools
from scenarios.static.on_waits import on_waits
from scenarios.static.stack import Stack


def findings_of(stack: Stack, figures: Figures) -> list[Finding]:
    """Return the findings, each with its number, why it matters, and the knob to turn."""
    found = itertools.chain(
        on_attempts(stack, figures), on_pools(stack, figures), on_waits(stack, figures), on_budgets(stack)
    )
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
