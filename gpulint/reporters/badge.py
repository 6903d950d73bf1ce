"""A badge as shields.io's endpoint format describes it (https://shields.io/badges/endpoint-badge)."""

from __future__ import annotations

from gpulint.counting import counted
from gpulint.impact import Level
from gpulint.report import Report
from gpulint.reporters import Context, as_json
from gpulint.reporters.summary import unchecked

_COLOURS = {Level.HIGH: "red", Level.MEDIUM: "orange", Level.LOW: "yellow"}


def render(report: Report, context: Context) -> str:
    """JSON with the number of findings of the highest level that was found."""
    levels = [result.finding.impact.level for result in report.results]
    worst = max(levels, default=None)
    if worst is not None:
        message, colour = f"{levels.count(worst):,} {worst} impact", _COLOURS[worst]
        if len(levels) > levels.count(worst):
            message += f", {len(levels) - levels.count(worst):,} lower"
    elif unchecked(report):
        failed = {problem.path for problem in report.problems if problem.is_error}
        message, colour = f"{counted(len(failed | {error.path for error in report.errors}), 'file')} unchecked", "grey"
    else:
        message, colour = "no findings", "brightgreen"
    return as_json({"schemaVersion": 1, "label": "gpulint", "message": message, "color": colour})
